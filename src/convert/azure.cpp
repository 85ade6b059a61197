// Results of Azure's OCR: Document Intelligence (once Form Recognizer) 3 and 4, Read 3 before it, and Image Analysis 4.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "convert/readers.h"

namespace plimsoll {
namespace {

constexpr Loss kStructure{"list of tables, fields, paragraphs or marks is left out: words alone are taken",
                          "lists of tables, fields, paragraphs or marks are left out: words alone are taken"};
constexpr Loss kUndivided{"line has no boxes of its words, and its own is divided",
                          "lines have no boxes of their words, and their own are divided"};

constexpr std::initializer_list<const char*> kPolygon = {"polygon", "boundingPolygon", "boundingBox",
                                                         "bounding_polygon", "bounding_box"};
constexpr std::initializer_list<const char*> kText = {"content", "text"};

FoundWord word_of(const JsonNode& word, const std::optional<Box>& line) {
  FoundWord found{.text = word.at(kText).text(), .box = box_of_points(word.at(kPolygon)), .segment = line};
  if (const std::optional<JsonNode> confidence = word.find("confidence")) found.confidence = confidence->number();
  return found;
}

// Reads Read 3 and Image Analysis: words are in their lines.
void read_lines(FoundPage& page, const JsonNode& lines, Losses& losses) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const JsonNode line = lines.item(i);
    const Box box = box_of_points(line.at(kPolygon));
    const std::optional<JsonNode> words = line.find("words");
    for (std::size_t w = 0; words && w < words->size(); ++w) add_word(page, word_of(words->item(w), box), losses);
    if (words) continue;
    losses.add(kUndivided, line.where());
    add_divided(page, line.at(kText).text(), rectangle_of(box), losses);
  }
}

// Characters [begin, end) of the document's text.
struct Span {
  std::int64_t begin = 0, end = 0;
  Box box{};
};

void add_span(std::vector<Span>& spans, const JsonNode& node, const Box& box) {
  const std::int64_t offset = node.at("offset").whole();
  spans.push_back({offset, offset + node.at("length").whole(), box});
}

// Reads Document Intelligence: words and lines are separate lists, and spans say which words are in which line.
void read_spans(FoundPage& page, const JsonNode& node, Losses& losses) {
  std::vector<Span> lines;
  const std::optional<JsonNode> found_lines = node.find("lines"), words = node.find("words");
  for (std::size_t i = 0; found_lines && i < found_lines->size(); ++i) {
    const JsonNode line = found_lines->item(i);
    const std::optional<JsonNode> polygon = line.find(kPolygon), spans = line.find("spans");
    if (!polygon) continue;
    for (std::size_t s = 0; spans && s < spans->size(); ++s) add_span(lines, spans->item(s), box_of_points(*polygon));
  }
  std::sort(lines.begin(), lines.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (std::size_t w = 0; words && w < words->size(); ++w) {
    const JsonNode word = words->item(w);
    std::optional<Box> line;
    if (const std::optional<JsonNode> span = word.find("span")) {
      const std::int64_t offset = span->at("offset").whole();
      const auto after = std::upper_bound(lines.begin(), lines.end(), offset,
                                          [](std::int64_t value, const Span& each) { return value < each.begin; });
      if (after != lines.begin() && offset < (after - 1)->end) line = (after - 1)->box;
    }
    add_word(page, word_of(word, line), losses);
  }
  if (!words && found_lines) read_lines(page, *found_lines, losses);
}

void set_size(FoundPage& page, const JsonNode& node) {
  const std::optional<JsonNode> width = node.find("width"), height = node.find("height"), unit = node.find("unit");
  if (width) page.width = width->number();
  if (height) page.height = height->number();
  if (!unit || unit->text() == "pixel") return;
  if (unit->text() != "inch") unit->refuse("an unknown unit of length", "\"pixel\" or \"inch\"");
  page.unit = BoxUnit::kLength;
  page.units_per_inch = 1;
}

}  // namespace

bool is_azure(const Evidence& evidence) {
  if (evidence.has("analyzeResult") || evidence.has("readResult") || evidence.has("readResults")) return true;
  // An analysis that has not succeeded has no result, which reading it says.
  if (evidence.has("status") && evidence.has("createdDateTime") && evidence.has("lastUpdatedDateTime")) return true;
  // What the SDKs print for a result has no object around it.
  return evidence.has("pages[].words[].polygon") || evidence.has("pages[].lines[].polygon");
}

void read_azure(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string();
  const nlohmann::json json = parse_json_file(read_text_file(file, kLongestFile), name);
  const JsonNode root(json, name);
  if (const std::optional<JsonNode> status = root.find("status"); status && status->is_text()) {
    if (status->text() == "failed" || status->text() == "running" || status->text() == "notStarted") {
      status->refuse("an analysis has not succeeded", "\"succeeded\"",
                     "ask for the result again, or leave the file out");
    }
  }
  if (const std::optional<JsonNode> read = root.find("readResult")) {
    FoundPage page = new_page(file, 1, 1);
    if (const std::optional<JsonNode> size = root.find("metadata")) set_size(page, *size);
    if (const std::optional<JsonNode> blocks = read->find("blocks")) {
      for (std::size_t b = 0; b < blocks->size(); ++b) read_lines(page, blocks->item(b).at("lines"), reading.losses);
    } else {
      // The preview of Image Analysis had the form of Document Intelligence.
      const JsonNode pages = read->at("pages");
      if (pages.size() != 1) pages.refuse("the analysis of an image has several pages", "one page");
      set_size(page, pages.item(0));
      read_spans(page, pages.item(0), reading.losses);
    }
    reading.take(std::move(page));
    return;
  }
  const std::optional<JsonNode> wrapped = root.find("analyzeResult");
  const JsonNode result = wrapped ? *wrapped : root;
  for (const char* other :
       {"tables", "keyValuePairs", "key_value_pairs", "documents", "paragraphs", "documentResults"}) {
    const std::optional<JsonNode> list = result.find(other);
    if (list && list->is_list() && list->size() > 0) reading.losses.add(kStructure, list->where());
  }
  const std::optional<JsonNode> lines_first = result.find("readResults");
  const JsonNode pages = lines_first ? *lines_first : result.at("pages");
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const JsonNode node = pages.item(i);
    const std::optional<JsonNode> number = node.find({"pageNumber", "page_number", "page"});
    FoundPage page = new_page(
        file,
        number ? static_cast<int>(std::clamp<std::int64_t>(number->whole(), 1, 1'000'000)) : static_cast<int>(i) + 1,
        pages.size());
    set_size(page, node);
    if (lines_first) {
      if (const std::optional<JsonNode> lines = node.find("lines")) read_lines(page, *lines, reading.losses);
    } else {
      read_spans(page, node, reading.losses);
    }
    reading.take(std::move(page));
  }
}

}  // namespace plimsoll
