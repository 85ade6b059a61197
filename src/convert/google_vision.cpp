// Results of Google's Cloud Vision: text detection of images, and of documents in files.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "convert/readers.h"

namespace plimsoll {
namespace {

constexpr Loss kVisionOther{"response has labels, faces or objects, which are left out",
                            "responses have labels, faces or objects, which are left out"};

constexpr std::initializer_list<const char*> kFullText = {"fullTextAnnotation", "full_text_annotation"};
constexpr std::initializer_list<const char*> kTexts = {"textAnnotations", "text_annotations"};
constexpr std::initializer_list<const char*> kVisionNormalized = {"normalizedVertices", "normalized_vertices"};

// Returns the box of a polygon, whose corners are in pixels or in shares of the page; each page uses only one of the
// two.
Box box_of(FoundPage& page, const JsonNode& polygon) {
  const std::optional<JsonNode> pixels = polygon.find("vertices");
  if (pixels && pixels->is_list() && pixels->size() > 0) {
    if (page.unit != BoxUnit::kPixels)
      polygon.refuse("a page has boxes of two units", "vertices, or normalizedVertices");
    return box_of_points(*pixels);
  }
  const std::optional<JsonNode> shares = polygon.find(kVisionNormalized);
  if (!shares) polygon.refuse("a polygon has no corners", "\"vertices\" or \"normalizedVertices\"");
  if (page.unit == BoxUnit::kPixels) {
    if (!page.words.empty()) polygon.refuse("a page has boxes of two units", "vertices, or normalizedVertices");
    // A document's size is in points; its picture has another size, but the same shape.
    page.share_width = page.width;
    page.share_height = page.height;
    page.unit = BoxUnit::kShare;
    page.width = page.height = 1;
  }
  return box_of_points(*shares);
}

std::string text_of(const JsonNode& word) {
  std::string text;
  if (const std::optional<JsonNode> symbols = word.find("symbols")) {
    for (std::size_t s = 0; s < symbols->size(); ++s) {
      if (const std::optional<JsonNode> letter = symbols->item(s).find("text")) text += letter->text();
    }
  } else if (const std::optional<JsonNode> whole = word.find("text")) {
    text = whole->text();
  }
  return text;
}

constexpr std::initializer_list<const char*> kBounding = {"boundingBox", "bounding_box", "boundingPoly",
                                                          "bounding_poly"};

// True if a line ends behind a word, by the break behind its last letter: its name, or its number in the protocol.
bool ends_line(const JsonNode& word, bool& has_breaks) {
  const std::optional<JsonNode> symbols = word.find("symbols");
  if (!symbols || symbols->size() == 0) return false;
  const std::optional<JsonNode> property = symbols->item(symbols->size() - 1).find("property");
  const std::optional<JsonNode> found = property ? property->find({"detectedBreak", "detected_break"}) : std::nullopt;
  const std::optional<JsonNode> type = found ? found->find({"type", "type_"}) : std::nullopt;
  if (!type) return false;
  has_breaks = true;
  if (!type->is_text()) return type->whole() >= 3;
  const std::string& name = type->text();
  return name == "EOL_SURE_SPACE" || name == "HYPHEN" || name == "LINE_BREAK";
}

// Gives the words of a paragraph the box of their line, or, where the file says nothing about lines, the paragraph's.
void set_segments(std::span<FoundWord> words, const std::vector<std::size_t>& line_ends,
                  const std::optional<Box>& whole) {
  std::size_t begin = 0;
  for (const std::size_t end : line_ends) {
    Enclosure line;
    for (const FoundWord& word : words.subspan(begin, end - begin)) line.add(word.box);
    for (FoundWord& word : words.subspan(begin, end - begin)) word.segment = line.box();
    begin = end;
  }
  if (line_ends.empty()) {
    for (FoundWord& word : words) word.segment = whole;
  }
}

void read_words(FoundPage& page, const JsonNode& node, Losses& losses) {
  const std::optional<JsonNode> blocks = node.find("blocks");
  for (std::size_t b = 0; blocks && b < blocks->size(); ++b) {
    const std::optional<JsonNode> paragraphs = blocks->item(b).find("paragraphs");
    for (std::size_t p = 0; paragraphs && p < paragraphs->size(); ++p) {
      const JsonNode paragraph = paragraphs->item(p);
      const std::optional<JsonNode> words = paragraph.find("words"), outline = paragraph.find(kBounding);
      const std::optional<Box> whole = outline ? std::optional(box_of(page, *outline)) : std::nullopt;
      const std::size_t before = page.words.size();
      std::vector<std::size_t> line_ends;  // counted from `before`
      bool has_breaks = false;
      for (std::size_t w = 0; words && w < words->size(); ++w) {
        const JsonNode word = words->item(w);
        FoundWord found{.text = text_of(word), .box = box_of(page, word.at(kBounding))};
        if (const std::optional<JsonNode> sure = word.find("confidence")) found.confidence = sure->number();
        add_word(page, std::move(found), losses);
        const std::size_t count = page.words.size() - before;
        if (ends_line(word, has_breaks) && count > (line_ends.empty() ? 0 : line_ends.back()))
          line_ends.push_back(count);
      }
      const std::size_t count = page.words.size() - before;
      if (has_breaks && count > (line_ends.empty() ? 0 : line_ends.back())) line_ends.push_back(count);
      set_segments(std::span(page.words).subspan(before), line_ends, whole);
    }
  }
}

struct Response {
  JsonNode node;
  int number = 1;
};

void read_response(const std::filesystem::path& file, const Response& response, bool several, const Reading& reading) {
  const JsonNode& node = response.node;
  if (const std::optional<JsonNode> error = node.find("error")) {
    error->refuse("a response is an error", "a response with text", "send the page again, or leave the file out");
  }
  for (const char* other : {"labelAnnotations", "faceAnnotations", "logoAnnotations", "localizedObjectAnnotations"}) {
    if (node.find(other)) reading.losses.add(kVisionOther, node.where());
  }
  const std::optional<JsonNode> full = node.find(kFullText), texts = node.find(kTexts);
  const std::optional<JsonNode> pages = full ? full->find("pages") : std::nullopt;
  if (pages && pages->size() > 0) {
    for (std::size_t i = 0; i < pages->size(); ++i) {
      const JsonNode each = pages->item(i);
      const bool many = several || pages->size() > 1;
      FoundPage page = new_page(file, response.number + static_cast<int>(i), many ? 2 : 1);
      if (const std::optional<JsonNode> width = each.find("width")) page.width = width->number();
      if (const std::optional<JsonNode> height = each.find("height")) page.height = height->number();
      read_words(page, each, reading.losses);
      reading.take(std::move(page));
    }
    return;
  }
  // Text detection without a document's structure: the first entry is the whole text, the others are its words. A blank
  // page has neither.
  FoundPage page = new_page(file, response.number, several ? 2 : 1);
  for (std::size_t i = 1; texts && i < texts->size(); ++i) {
    const JsonNode word = texts->item(i);
    add_word(page, {.text = word.at("description").text(), .box = box_of(page, word.at(kBounding))}, reading.losses);
  }
  reading.take(std::move(page));
}

}  // namespace

bool is_google_vision(const Evidence& evidence) {
  for (const char* before : {"", "responses[].", "[]."}) {
    for (const char* name : {"fullTextAnnotation", "full_text_annotation", "textAnnotations", "text_annotations"}) {
      if (evidence.has((std::string(before) + name).c_str())) return true;
    }
  }
  return evidence.has("responses");
}

void read_google_vision(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string();
  const nlohmann::json json = parse_json_file(read_text_file(file, kLongestFile), name);
  const JsonNode root(json, name);
  std::vector<Response> responses;
  const auto add = [&](const JsonNode& node) {
    // A response for a file contains one response per page.
    const std::optional<JsonNode> inner = node.find("responses");
    if (!inner) return responses.push_back({node, static_cast<int>(responses.size()) + 1});
    for (std::size_t i = 0; i < inner->size(); ++i) {
      responses.push_back({inner->item(i), static_cast<int>(responses.size()) + 1});
    }
  };
  const std::optional<JsonNode> outer = root.is_list() ? root : root.find("responses");
  if (outer) {
    for (std::size_t i = 0; i < outer->size(); ++i) add(outer->item(i));
  } else {
    if (!root.find(kFullText) && !root.find(kTexts)) root.at({"responses", "fullTextAnnotation", "textAnnotations"});
    responses.push_back({root, 1});
  }
  if (responses.empty()) root.refuse("a result has no responses", "at least one response");
  for (Response& response : responses) {
    const std::optional<JsonNode> context = response.node.find("context");
    const std::optional<JsonNode> number = context ? context->find({"pageNumber", "page_number"}) : std::nullopt;
    if (number) response.number = static_cast<int>(std::clamp<std::int64_t>(number->whole(), 1, 1'000'000));
    read_response(file, response, responses.size() > 1 || response.number > 1, reading);
  }
}

}  // namespace plimsoll
