// Pages in Plimsoll's format: JSONL with one page per line, and the output of `predict`.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/path_from.h"
#include "convert/pages_file.h"
#include "convert/readers.h"
#include "data/page_source.h"
#include "formats/json.h"
#include "tasks/relation_extraction/entities.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// The whole JSON of a page, and the entities that the task of links reads from it.
struct WholePage final : PageTarget {
  json object{};
  std::shared_ptr<const PageTarget> entities{};
};

bool has(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

// `fields` are not entities if they are the page's class or the answers to questions.
bool has_entities(const json& object) {
  if (has(object, "entities")) return true;
  return has(object, "fields") && !has(object, "questions") && !has(object, "label");
}

class WholePageReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const json& page_json, const Page& page, PageFaults* faults) const override {
    auto whole = std::make_shared<WholePage>();
    whole->object = page_json;
    if (has_entities(page_json)) whole->entities = entity_reader().read(page_json, page, faults);
    return whole;
  }
  std::string_view key() const override { return "words"; }
  // Pages are converted as they are read and never kept as bytes.
  void pack(const PageTarget&, Packer&) const override { check(false, "a page that is converted is not packed"); }
  std::shared_ptr<const PageTarget> unpack(Unpacker&) const override { return nullptr; }
};

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void add_entities(FoundPage& page, const PageEntities& read) {
  page.has_entities = true;
  for (const Entity& entity : read.entities) {
    page.entities.push_back(
        {.label = entity.label, .begin = entity.begin, .end = entity.end, .confidence = entity.confidence});
  }
  page.has_links = read.linked;
  page.links = read.links;
}

class PagesWriter final : public PageWriter {
 public:
  explicit PagesWriter(const Writing& writing) : writing_(writing) {}

  void write(const FoundPage& page, const FoundPage*) override {
    nlohmann::ordered_json line;
    if (page.more.is_object()) {
      line = page.more;
      if (writing_.options.box_format == BoxFormat::k1000) put_pixels(page, line);  // `place` has made them
      if (!writing_.options.label_names.empty()) put_names(page, line);
    } else {
      line = fresh(page);
    }
    if (!page.document.empty()) line["document"] = page.document;
    std::filesystem::path image = page.picture;
    // A page that names a picture still names it, even if the picture is elsewhere.
    const bool address = page.image.find("://") != std::string::npos;
    if (image.empty() && page.more.is_object() && !page.image.empty() && !address) {
      image = page.file.parent_path() / page.image;
    }
    if (!image.empty()) line["image"] = path_from(writing_.options.output, image).string();
    writing_.write(line.dump() + "\n");
  }

 private:
  static nlohmann::ordered_json boxes_of(const FoundPage& page) {
    nlohmann::ordered_json boxes = nlohmann::ordered_json::array();
    for (const FoundWord& word : page.words) {
      nlohmann::ordered_json box = nlohmann::ordered_json::array();
      for (const double value : word.box) box.push_back(static_cast<std::int64_t>(value));
      boxes.push_back(std::move(box));
    }
    return boxes;
  }

  // Replaces boxes in thousandths of the page by those in pixels, which all other formats have.
  static void put_pixels(const FoundPage& page, nlohmann::ordered_json& line) {
    for (const char* key : {"boxes", "bboxes", "bbox"}) {
      if (!line.contains(key)) continue;
      line[key] = boxes_of(page);
      if (!(page.width > 0)) return;  // of a blank page nobody needs the size
      line["width"] = static_cast<std::int64_t>(page.width);
      line["height"] = static_cast<std::int64_t>(page.height);
      return;
    }
  }

  // Replaces labels that are numbers by the names that --labels gives them; a label that is not known stays as it is.
  static void put_names(const FoundPage& page, nlohmann::ordered_json& line) {
    for (const char* key : {"labels", "ner_tags"}) {
      const auto labels = line.find(key);
      if (labels == line.end() || !labels->is_array() || labels->size() != page.labels.size()) continue;
      for (std::size_t w = 0; w < page.labels.size(); ++w) {
        if (!page.labels[w].empty() && (*labels)[w].is_number()) (*labels)[w] = page.labels[w];
      }
      return;
    }
  }

  static nlohmann::ordered_json fresh(const FoundPage& page) {
    nlohmann::ordered_json line = {{"id", page.id}};
    if (!page.picture.empty()) line["image"] = "";  // here, so that it comes near the beginning
    if (page.width > 0) {
      line["width"] = static_cast<std::int64_t>(page.width);
      line["height"] = static_cast<std::int64_t>(page.height);
    }
    line["words"] = nlohmann::ordered_json::array();
    for (const FoundWord& word : page.words) line["words"].push_back(word.text);
    line["boxes"] = boxes_of(page);
    const auto is_sure = [](const FoundWord& word) { return word.confidence >= 0.0 && word.confidence <= 1.0; };
    if (!page.words.empty() && !page.predicted && std::ranges::all_of(page.words, is_sure)) {
      line["confidences"] = nlohmann::ordered_json::array();
      for (const FoundWord& word : page.words) line["confidences"].push_back(*word.confidence);
    }
    if (!page.labels.empty()) line["labels"] = page.labels;
    if (page.classes.size() == 1) line["label"] = page.classes.front();
    if (page.classes.size() > 1) line["label"] = page.classes;
    if (!page.has_entities) return line;
    line["entities"] = nlohmann::ordered_json::array();
    for (const FoundEntity& entity : page.entities) {
      line["entities"].push_back({{"label", entity.label}, {"start_word", entity.begin}, {"end_word", entity.end}});
    }
    if (page.has_links) line["links"] = page.links;
    return line;
  }

  Writing writing_;
};

}  // namespace

FoundPage PagesFile::parse(const std::string& json_text, const std::string& document) const {
  static const WholePageReader reader;
  const ReadOptions options{.label_names = label_names_,
                            .parts = {.boxes = false, .image = false},
                            .target = &reader,
                            .max_page_bytes = LineReader::kLongest};
  const Page read = parse_jsonl_page(json_text, file_, lines_.number(), options);
  const auto& whole = dynamic_cast<const WholePage&>(*read.target);
  FoundPage page;
  page.where = place(read);
  page.file = file_;
  page.id = read.id.empty() ? fmt::format("line {}", lines_.number()) : read.id;
  page.document = document.empty() ? read.document : document;
  page.more = whole.object;
  page.only = false;
  page.number = 0;
  for (const char* key : kImageKeys) {
    if (page.image.empty()) page.image = text_in(page.more, key);
  }
  if (format_ == BoxFormat::k1000 && !read.boxes.empty()) {
    page.unit = BoxUnit::kShare;
    page.width = page.height = 1000;
    page.share_width = read.width;
    page.share_height = read.height;
  } else {
    page.width = read.width;
    page.height = read.height;
  }
  // A model has said how sure it is, or an OCR engine has.
  auto probabilities = page.more.find("probabilities");
  if (probabilities == page.more.end()) probabilities = page.more.find("confidences");
  for (std::size_t w = 0; w < read.words.size(); ++w) {
    FoundWord word{.text = read.words[w]};
    if (!read.boxes.empty()) word.box = read.boxes[w];
    if (probabilities != page.more.end() && probabilities->is_array() && w < probabilities->size() &&
        (*probabilities)[w].is_number()) {
      word.confidence = (*probabilities)[w].get<double>();
    }
    page.words.push_back(std::move(word));
  }
  page.labels = read.labels;
  if (const auto* entities = dynamic_cast<const PageEntities*>(whole.entities.get())) add_entities(page, *entities);
  if (const auto label = page.more.find("label"); label != page.more.end()) {
    if (label->is_string()) page.classes = {label->get<std::string>()};
    for (const json& each : label->is_array() ? *label : json::array()) {
      if (each.is_string()) page.classes.push_back(each.get<std::string>());
    }
  }
  for (const char* key : {"probabilities", "fields", "link_probabilities", "unpredicted_words"}) {
    page.predicted = page.predicted || has(page.more, key);
  }
  return page;
}

std::optional<FoundPage> PagesFile::next() {
  while (waiting_.empty()) {
    do {
      if (!lines_.next()) return std::nullopt;
    } while (lines_.text().find_first_not_of(" \t\r") == std::string_view::npos);
    const std::string line(lines_.text());
    // `predict` writes the pages of a document in one line.
    const bool maybe = line.find("\"pages\"") != std::string::npos && line.find("\"document\"") != std::string::npos;
    const json object = maybe ? parse_json(line, lines_.where()) : json();
    if (!object.is_object() || has(object, "words") || !has(object, "pages") || !object.at("pages").is_array()) {
      return parse(line, {});
    }
    const json& document = object.value("document", json());
    const std::string name = document.is_string() ? document.get<std::string>() : document.dump();
    for (const json& page : object.at("pages")) {
      if (!page.is_null()) waiting_.push_back(parse(page.dump(), name));  // null: it could not be read
    }
  }
  FoundPage page = std::move(waiting_.front());
  waiting_.pop_front();
  return page;
}

bool is_pages(const Evidence& evidence) {
  return evidence.has("words") || evidence.has("tokens") || (evidence.has("document") && evidence.has("pages[].words"));
}

void read_pages(const std::filesystem::path& file, const Reading& reading) {
  PagesFile pages(file, reading.options.label_names, reading.options.box_format);
  while (std::optional<FoundPage> page = pages.next()) reading.take(std::move(*page));
}

std::unique_ptr<PageWriter> write_pages(const Writing& writing) { return std::make_unique<PagesWriter>(writing); }

}  // namespace plimsoll
