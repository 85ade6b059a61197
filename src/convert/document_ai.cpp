// Documents of Google's Document AI: one text for all pages, of which tokens name ranges.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "convert/readers.h"

namespace plimsoll {
namespace {

constexpr Loss kDocumentAiStructure{"list of entities, form fields or tables is left out: words alone are taken",
                          "lists of entities, form fields or tables are left out: words alone are taken"};

constexpr Loss kDocumentAiUndivided{"line has no tokens, and its box is divided among its words",
                          "lines have no tokens, and their boxes are divided among their words"};
constexpr Loss kUnplaced{"page has text of which neither tokens nor lines say the place, so it is left out",
                         "pages have text of which neither tokens nor lines say the place, so it is left out"};

constexpr std::initializer_list<const char*> kAnchor = {"textAnchor", "text_anchor"};
constexpr std::initializer_list<const char*> kSegments = {"textSegments", "text_segments"};
constexpr std::initializer_list<const char*> kPoly = {"boundingPoly", "bounding_poly"};
constexpr std::initializer_list<const char*> kDocumentAiNormalized = {"normalizedVertices", "normalized_vertices"};

// Where each character of the document's text begins: indices count characters, not bytes.
class Characters {
 public:
  explicit Characters(const std::string& text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) begins_.push_back(i);
    }
    begins_.push_back(text.size());
  }
  std::string piece(std::int64_t begin, std::int64_t end, const JsonNode& where) const {
    const auto count = static_cast<std::int64_t>(begins_.size()) - 1;
    if (begin < 0 || begin > end || end > count) {
      where.refuse("a range leaves the document's text", fmt::format("0 <= startIndex <= endIndex <= {}", count));
    }
    const std::size_t from = begins_[static_cast<std::size_t>(begin)], to = begins_[static_cast<std::size_t>(end)];
    return text_.substr(from, to - from);
  }

 private:
  const std::string& text_;
  std::vector<std::size_t> begins_;
};

struct Range {
  std::int64_t begin = 0, end = 0;
  Box box{};
};

// Document AI writes indices as text, and leaves out a start of 0.
std::vector<Range> ranges_of(const JsonNode& layout) {
  std::vector<Range> ranges;
  const std::optional<JsonNode> anchor = layout.find(kAnchor);
  const std::optional<JsonNode> segments = anchor ? anchor->find(kSegments) : std::nullopt;
  for (std::size_t i = 0; segments && i < segments->size(); ++i) {
    const JsonNode segment = segments->item(i);
    const std::optional<JsonNode> begin = segment.find({"startIndex", "start_index"});
    ranges.push_back({begin ? begin->whole() : 0, segment.at({"endIndex", "end_index"}).whole()});
  }
  return ranges;
}

// Returns the box in shares of the page.
std::optional<Box> box_of(const JsonNode& layout, const FoundPage& page) {
  const std::optional<JsonNode> poly = layout.find(kPoly);
  if (!poly) return std::nullopt;
  const std::optional<JsonNode> shares = poly->find(kDocumentAiNormalized);
  if (shares && shares->size() > 0) return box_of_points(*shares);
  const std::optional<JsonNode> pixels = poly->find("vertices");
  if (!pixels || pixels->size() == 0) return std::nullopt;
  if (!(page.share_width > 0 && page.share_height > 0)) {
    poly->refuse("a box is in pixels of a page whose size is not given",
                 "normalizedVertices, or the page's \"dimension\"");
  }
  const Box box = box_of_points(*pixels);
  return Box{box[0] / page.share_width, box[1] / page.share_height, box[2] / page.share_width,
             box[3] / page.share_height};
}

void read_page(FoundPage& page, const JsonNode& node, const Characters& text, Losses& losses) {
  std::vector<Range> lines;
  const std::optional<JsonNode> found_lines = node.find("lines");
  for (std::size_t i = 0; found_lines && i < found_lines->size(); ++i) {
    const JsonNode layout = found_lines->item(i).at("layout");
    const std::optional<Box> box = box_of(layout, page);
    if (!box) continue;
    for (Range range : ranges_of(layout)) {
      range.box = *box;
      lines.push_back(range);
    }
  }
  std::sort(lines.begin(), lines.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const std::optional<JsonNode> tokens = node.find("tokens");
  if (!tokens || tokens->size() == 0) {
    for (const Range& line : lines) {
      losses.add(kDocumentAiUndivided, page.where);
      add_divided(page, text.piece(line.begin, line.end, node), rectangle_of(line.box), losses);
    }
    const std::optional<JsonNode> layout = node.find("layout");
    if (lines.empty() && layout && !ranges_of(*layout).empty()) losses.add(kUnplaced, page.where);
    return;
  }
  for (std::size_t t = 0; t < tokens->size(); ++t) {
    const JsonNode layout = tokens->item(t).at("layout");
    const std::optional<Box> box = box_of(layout, page);
    if (!box) layout.refuse("a token has no box", "\"boundingPoly\" with vertices");
    FoundWord word{.text = {}, .box = *box};
    const std::vector<Range> ranges = ranges_of(layout);
    for (const Range& range : ranges) word.text += text.piece(range.begin, range.end, layout);
    if (const std::optional<JsonNode> sure = layout.find("confidence")) word.confidence = sure->number();
    if (!ranges.empty()) {
      const std::int64_t begin = ranges.front().begin;
      const auto after = std::upper_bound(lines.begin(), lines.end(), begin,
                                          [](std::int64_t value, const Range& each) { return value < each.begin; });
      if (after != lines.begin() && begin < (after - 1)->end) word.segment = (after - 1)->box;
    }
    add_word(page, std::move(word), losses);
  }
}

}  // namespace

bool is_document_ai(const Evidence& evidence) {
  return evidence.has("pages[].tokens") || evidence.has("document.pages[].tokens") ||
         (evidence.has("text") && (evidence.has("pages[].dimension") || evidence.has("pages[].layout"))) ||
         evidence.has("document.pages[].dimension");
}

void read_document_ai(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string();
  const nlohmann::json json = parse_json_file(read_text_file(file, kLongestFile), name);
  const JsonNode root(json, name);
  const std::optional<JsonNode> wrapped = root.find("document");
  const JsonNode document = wrapped ? *wrapped : root;
  const std::optional<JsonNode> text = document.find("text");
  const std::string empty;
  const Characters characters(text ? text->text() : empty);
  const std::optional<JsonNode> entities = document.find("entities");
  if (entities && entities->size() > 0) reading.losses.add(kDocumentAiStructure, entities->where());
  const JsonNode pages = document.at("pages");
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const JsonNode node = pages.item(i);
    for (const char* other : {"formFields", "form_fields", "tables"}) {
      const std::optional<JsonNode> list = node.find(other);
      if (list && list->size() > 0) reading.losses.add(kDocumentAiStructure, list->where());
    }
    const std::optional<JsonNode> number = node.find({"pageNumber", "page_number"});
    FoundPage page = new_page(
        file,
        number ? static_cast<int>(std::clamp<std::int64_t>(number->whole(), 1, 1'000'000)) : static_cast<int>(i) + 1,
        pages.size());
    page.unit = BoxUnit::kShare;
    page.width = page.height = 1;
    if (const std::optional<JsonNode> size = node.find("dimension")) {
      page.share_width = size->at("width").number();
      page.share_height = size->at("height").number();
    }
    read_page(page, node, characters, reading.losses);
    reading.take(std::move(page));
  }
}

}  // namespace plimsoll
