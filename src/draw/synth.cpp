#include "draw/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "data/shared_work.h"
#include "draw/facts.h"
#include "draw/layouts.h"
#include "draw/random.h"
#include "draw/wear.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMostPages = 1'000'000;

std::string label_of(draw::Field field, bool begins) {
  constexpr std::array<std::string_view, 5> kNames = {"", "COMPANY", "ADDRESS", "DATE", "TOTAL"};
  if (field == draw::Field::kNone) return "O";
  return fmt::format("{}-{}", begins ? "B" : "I", kNames[static_cast<std::size_t>(field)]);
}

constexpr std::array<std::string_view, 4> kEntityLabels = {"header", "question", "answer", "other"};
constexpr std::array<std::string_view, 4> kEntityTags = {"HEADER", "QUESTION", "ANSWER", ""};

// Gives the page the words, entities and links of a form, whose words are in the order of entities.
void add_form(SynthPage& page, const draw::InkedPage& inked, const draw::FilledForm& form) {
  page.links = form.links;
  for (const draw::EntityKind kind : form.entities) {
    page.entities.push_back({.label = std::string(kEntityLabels[static_cast<std::size_t>(kind)])});
  }
  for (std::size_t i = 0; i < inked.words.size(); ++i) {
    const auto entity = static_cast<std::size_t>(inked.words[i].entity);
    const bool begins = i == 0 || inked.words[i].entity != inked.words[i - 1].entity;
    if (begins) page.entities[entity].start_word = i;
    page.entities[entity].end_word = i + 1;
    const std::string_view tag = kEntityTags[static_cast<std::size_t>(form.entities[entity])];
    page.words[i].label = tag.empty() ? "O" : fmt::format("{}-{}", begins ? "B" : "I", tag);
  }
}

draw::Placement pick_placement(draw::PageRandom& random) {
  draw::Placement placement;
  if (random.chance(0.6)) {
    // Adding two numbers makes small turns more frequent than large ones.
    placement.angle_degrees = random.uniform(-0.4, 0.4) + random.uniform(-0.4, 0.4);
    placement.shift_x = random.uniform(-3, 3);
    placement.shift_y = random.uniform(-3, 3);
  }
  return placement;
}

std::string image_name(const SynthPage& page) { return "images/" + page.id + ".png"; }

std::string json_line(const SynthPage& page) {
  nlohmann::ordered_json line;
  line["id"] = page.id;
  line["image"] = image_name(page);
  line["width"] = page.width;
  line["height"] = page.height;
  for (const char* key : {"words", "boxes", "labels"}) line[key] = nlohmann::ordered_json::array();
  for (const SynthWord& word : page.words) {
    line["words"].push_back(word.text);
    line["boxes"].push_back(word.box);
    line["labels"].push_back(word.label);
  }
  if (!page.entities.empty()) {
    for (const char* key : {"entities", "links"}) line[key] = nlohmann::ordered_json::array();
    for (const SynthEntity& entity : page.entities) {
      line["entities"].push_back(nlohmann::ordered_json{
          {"label", entity.label}, {"start_word", entity.start_word}, {"end_word", entity.end_word}});
    }
    for (const auto& link : page.links) line["links"].push_back(link);
  }
  return line.dump() + "\n";
}

[[noreturn]] void throw_directory_error(const std::filesystem::path& path, const std::error_code& error) {
  throw EnvironmentError({.what = "cannot prepare the output directory",
                          .where = path.string(),
                          .found = error.message(),
                          .remedy = "check the path and its permissions"});
}

void check_options(const SynthOptions& options) {
  if (options.output_dir.empty()) {
    throw UsageError({.what = "no output directory was given", .where = "--output", .remedy = "pass a directory"});
  }
  if (options.count == 0 || options.count > kMostPages) {
    throw UsageError({.what = "that many pages cannot be drawn",
                      .where = "--count",
                      .found = fmt::format("{}", options.count),
                      .allowed = fmt::format("1 to {}", kMostPages)});
  }
  if (options.threads < 0) {
    throw UsageError({.what = "that many threads cannot run",
                      .where = "--threads",
                      .found = fmt::format("{}", options.threads),
                      .allowed = "0 (one per processor) or more"});
  }
  const double fraction = options.validation_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    throw UsageError({.what = "the fraction of pages for validation is invalid",
                      .where = "--validation-fraction",
                      .found = fmt::format("{}", fraction),
                      .allowed = "0 or more, and less than 1"});
  }
}

std::size_t thread_count(const SynthOptions& options) {
  const unsigned wanted =
      options.threads > 0 ? static_cast<unsigned>(options.threads) : std::min(8U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(wanted, 1, options.count);
}

// What is reported about a page that has been drawn.
struct DrawnPage {
  std::string line{};
  std::size_t words = 0, image_bytes = 0;
};

std::string pack(const DrawnPage& page) {
  TextPacker packer;
  packer.add(page.line);
  packer.add(std::to_string(page.words));
  packer.add(std::to_string(page.image_bytes));
  return packer.packed();
}

DrawnPage unpack(std::string_view text) {
  TextUnpacker packed{std::string(text)};
  DrawnPage page{.line = std::string(packed.next())};
  page.words = std::stoull(std::string(packed.next()));
  page.image_bytes = std::stoull(std::string(packed.next()));
  return page;
}

DrawnPage draw_and_write(const SynthOptions& options, const PageDrawer& drawer, std::size_t index) {
  const SynthPage page = drawer.draw(index);
  OutputFile image(options.output_dir / image_name(page));
  image.write(page.png);
  image.close();
  return {.line = json_line(page), .words = page.words.size(), .image_bytes = page.png.size()};
}

void wait_for_ranks(const PageShare& share) {
  if (share.ranks > 1) share.exchange("");
}

void remove_lists(const SynthSummary& summary) {
  std::error_code error;
  for (const auto& file : {summary.train_file, summary.validation_file}) {
    std::filesystem::remove(file, error);
    if (error) throw_directory_error(file, error);
  }
}

}  // namespace

SynthPage PageDrawer::draw(std::uint64_t index) const {
  draw::PageRandom layout_random(seed_, index, draw::RandomPurpose::kLayout);
  draw::PageRandom noise_random(seed_, index, draw::RandomPurpose::kNoise);
  const draw::Placement placement = pick_placement(noise_random);
  std::optional<draw::FilledForm> form;
  const draw::InkedPage inked = [&] {
    const std::lock_guard lock(text_);
    if (layout_ == SynthLayout::kForms) {
      draw::PageRandom text_random(seed_, index, draw::RandomPurpose::kFacts);
      return form.emplace(draw::lay_out_filled_form(fonts_, text_random, layout_random)).sheet.render(placement);
    }
    return draw::lay_out(fonts_, draw::make_facts(seed_, index), layout_random).render(placement);
  }();
  // The scanner's noise and the encoding take most of the time, and run in parallel.
  const draw::Surface scan = draw::wear(inked, noise_random);

  SynthPage page{.id = fmt::format("{:05}", index), .width = inked.width, .height = inked.height};
  page.words.reserve(inked.words.size());
  for (const draw::InkedWord& word : inked.words) {
    page.words.push_back({word.text, {word.x0, word.y0, word.x1, word.y1}, label_of(word.field, word.begins_field)});
  }
  if (form) add_form(page, inked, *form);
  page.png = draw::encode_png(scan.get());
  return page;
}

bool is_validation_page(std::size_t index, double validation_fraction) {
  // Takes one page whenever the rounded running count grows; 1e-9 compensates for 0.1 not being exact.
  const auto share = [&](std::size_t pages) {
    return std::floor(static_cast<double>(pages) * validation_fraction + 0.4 + 1e-9);
  };
  return share(index + 1) > share(index);
}

SynthSummary synthesize(const SynthOptions& options) {
  check_options(options);
  const std::filesystem::path& root = options.output_dir;
  const PageDrawer drawer(options.seed, options.layout);

  std::error_code error;
  std::filesystem::create_directories(root / "images", error);
  if (error) throw_directory_error(root, error);
  SynthSummary summary{.train_file = root / "train.jsonl", .validation_file = root / "validation.jsonl"};
  std::optional<OutputFile> train, validation;
  if (options.share.is_first()) {
    remove_lists(summary);
    train.emplace(summary.train_file);
    validation.emplace(summary.validation_file);
  }
  // No picture is replaced while an older list names it, and the lists come after the last picture.
  wait_for_ranks(options.share);
  std::size_t done = 0;
  run_shared<DrawnPage>(
      options.share, options.count, static_cast<int>(thread_count(options)),
      [&](std::size_t index) { return draw_and_write(options, drawer, index); }, pack, unpack,
      [&](const DrawnPage& page) {
        const bool validates = is_validation_page(done, options.validation_fraction);
        if (train) (validates ? *validation : *train).write(page.line);
        ++(validates ? summary.validation_pages : summary.train_pages);
        summary.words += page.words;
        summary.image_bytes += page.image_bytes;
        ++done;
        if (options.on_page) options.on_page(done);
      });
  sync_directory(root / "images");
  wait_for_ranks(options.share);
  if (train) {
    train->close();
    validation->close();
  }
  return summary;
}

}  // namespace plimsoll
