#include "draw/synth.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
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

draw::Placement pick_placement(draw::PageRandom& random) {
  draw::Placement placement;
  if (random.chance(0.65)) {
    // Two numbers added: small turns are more frequent than large ones.
    placement.angle_degrees = random.uniform(-0.6, 0.6) + random.uniform(-0.6, 0.6);
    placement.shift_x = random.uniform(-4, 4);
    placement.shift_y = random.uniform(-4, 4);
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
    throw UsageError({.what = "no output directory was given", .where = "--output", .remedy = "name a directory"});
  }
  if (options.count == 0 || options.count > kMostPages) {
    throw UsageError({.what = "that many pages cannot be drawn",
                      .where = "--count",
                      .found = fmt::format("{}", options.count),
                      .allowed = fmt::format("1 to {}", kMostPages)});
  }
  const double fraction = options.validation_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    throw UsageError({.what = "the part kept for validation makes no sense",
                      .where = "--validation-fraction",
                      .found = fmt::format("{}", fraction),
                      .allowed = "0 or more, and less than 1"});
  }
}

}  // namespace

SynthPage PageDrawer::draw(std::uint64_t index) const {
  const draw::PageFacts facts = draw::make_facts(seed_, index);
  draw::PageRandom layout_random(seed_, index, draw::RandomPurpose::kLayout);
  draw::PageRandom noise_random(seed_, index, draw::RandomPurpose::kNoise);
  const draw::Sheet sheet = draw::lay_out(fonts_, facts, layout_random);
  const draw::InkedPage inked = sheet.render(pick_placement(noise_random));
  const draw::Surface scan = draw::wear(inked, noise_random);

  SynthPage page{.id = fmt::format("{:05}", index), .width = inked.width, .height = inked.height};
  page.words.reserve(inked.words.size());
  for (const draw::InkedWord& word : inked.words) {
    page.words.push_back({word.text, {word.x0, word.y0, word.x1, word.y1}, label_of(word.field, word.begins_field)});
  }
  page.png = draw::encode_png(scan.get());
  return page;
}

bool is_validation_page(std::size_t index, double validation_fraction) {
  // One page whenever the running share, rounded, grows; 1e-9 hides that 0.1 is not exact.
  const auto share = [&](std::size_t pages) {
    return std::floor(static_cast<double>(pages) * validation_fraction + 0.4 + 1e-9);
  };
  return share(index + 1) > share(index);
}

SynthSummary synthesize(const SynthOptions& options) {
  check_options(options);
  const std::filesystem::path& root = options.output_dir;
  const PageDrawer drawer(options.seed);

  std::error_code error;
  std::filesystem::create_directories(root / "images", error);
  if (error) throw_directory_error(root, error);
  SynthSummary summary{.train_file = root / "train.jsonl", .validation_file = root / "validation.jsonl"};
  for (const auto& file : {summary.train_file, summary.validation_file}) {
    std::filesystem::remove(file, error);
    if (error) throw_directory_error(file, error);
  }

  std::string train, validation;
  for (std::size_t index = 0; index < options.count; ++index) {
    const SynthPage page = drawer.draw(index);
    OutputFile image(root / image_name(page));
    image.write(page.png);
    image.close();
    const bool validates = is_validation_page(index, options.validation_fraction);
    (validates ? validation : train) += json_line(page);
    ++(validates ? summary.validation_pages : summary.train_pages);
    summary.words += page.words.size();
    summary.image_bytes += page.png.size();
    if (options.on_page) options.on_page(index + 1);
  }
  sync_directory(root / "images");
  write_text_file(summary.train_file, train);
  write_text_file(summary.validation_file, validation);
  return summary;
}

}  // namespace plimsoll
