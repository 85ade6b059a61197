// PAGE: regions of lines of words with outlines in pixels, in a reading order that may be given separately.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "base/file.h"
#include "base/in_quotes.h"
#include "convert/readers.h"
#include "convert/xml.h"

namespace plimsoll {
namespace {

constexpr Loss kLine{"line has no boxes of its words, and its own is divided",
                     "lines have no boxes of their words, and their own are divided"};
constexpr Loss kRegion{"region has no lines, and its own box is divided",
                       "regions have no lines, and their own boxes are divided"};

// `points` of an outline, "x,y x,y …", or elements of points, in versions before 2013.
std::optional<Box> outline(const XmlNode& node) {
  const std::optional<XmlNode> coordinates = node.child("Coords");
  if (!coordinates) return std::nullopt;
  Enclosure box;
  for (const XmlNode& point : coordinates->children("Point")) {
    box.add(point.number("x").value_or(0), point.number("y").value_or(0));
  }
  const std::string_view points = coordinates->attribute("points").value_or("");
  for (const std::string& pair : words_of(points)) {
    const char* const end = pair.data() + pair.size();
    double x = 0, y = 0;
    const auto first = std::from_chars(pair.data(), end, x);
    const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
    const auto second = comma ? std::from_chars(first.ptr + 1, end, y) : first;
    if (!comma || second.ec != std::errc() || second.ptr != end) {
      coordinates->refuse("an outline cannot be read", fmt::format("points={}", in_quotes(points)), "x,y x,y x,y …");
    }
    box.add(x, y);
  }
  if (box.empty()) return std::nullopt;
  return box.box();
}

// Of several readings of a text the first counts: the one with the lowest index.
std::string text_of(const XmlNode& node, std::optional<double>& confidence) {
  std::optional<XmlNode> best;
  double best_index = std::numeric_limits<double>::infinity();
  for (const XmlNode& each : node.children("TextEquiv")) {
    const double index = each.number("index").value_or(0);
    if (best && index >= best_index) continue;
    best = each;
    best_index = index;
  }
  if (!best) return {};
  confidence = best->number("conf");
  if (const std::optional<XmlNode> unicode = best->child("Unicode")) return unicode->text();
  const std::optional<XmlNode> plain = best->child("PlainText");
  return plain ? plain->text() : std::string();
}

Box need_outline(const XmlNode& node, const std::string& text) {
  if (const std::optional<Box> box = outline(node)) return *box;
  node.refuse("text has no outline", in_quotes(text), "<Coords points=\"x,y x,y …\">");
}

class PageXmlPage {
 public:
  PageXmlPage(FoundPage& page, Losses& losses) : page_(page), losses_(losses) {}

  void read(const XmlNode& node) {
    Order order;
    if (const std::optional<XmlNode> reading = node.child("ReadingOrder")) read_order(*reading, order);
    read_regions(node, order);
  }

 private:
  using Order = std::map<std::string, std::size_t, std::less<>>;

  // The members of an ordered group follow their indices, those of any other group the file.
  static void read_order(const XmlNode& group, Order& order) {
    std::vector<XmlNode> members = group.children();
    if (group.name().starts_with("OrderedGroup")) {
      std::ranges::stable_sort(members, {}, [](const XmlNode& member) {
        return member.number("index").value_or(std::numeric_limits<double>::infinity());
      });
    }
    for (const XmlNode& member : members) {
      if (const auto region = member.attribute("regionRef")) order.emplace(*region, order.size());
      read_order(member, order);
    }
  }

  // Regions in the reading order come first; the others follow in the file's order.
  void read_regions(const XmlNode& node, const Order& order) {
    std::vector<XmlNode> regions;
    for (const XmlNode& each : node.children()) {
      if (each.name().ends_with("Region") || each.name() == "TableCell") regions.push_back(each);
    }
    const auto rank = [&](const XmlNode& region) {
      const auto found = order.find(region.attribute("id").value_or(""));
      return found == order.end() ? std::numeric_limits<std::size_t>::max() : found->second;
    };
    std::stable_sort(regions.begin(), regions.end(),
                     [&](const XmlNode& a, const XmlNode& b) { return rank(a) < rank(b); });
    for (const XmlNode& region : regions) read_region(region, order);
  }

  void read_region(const XmlNode& region, const Order& order) {
    const std::size_t before = page_.words.size();
    for (const XmlNode& line : region.children("TextLine")) read_line(line);
    read_regions(region, order);
    std::optional<double> confidence;
    const std::string text = text_of(region, confidence);
    if (page_.words.size() > before || trimmed(text).empty()) return;
    losses_.add(kRegion, page_.where);
    add_divided(page_, text, rectangle_of(need_outline(region, text)), losses_);
  }

  void read_line(const XmlNode& line) {
    const std::vector<XmlNode> words = line.children("Word");
    const std::optional<Box> segment = outline(line);
    std::optional<double> confidence;
    const std::string text = text_of(line, confidence);
    const auto is_blank = [](const XmlNode& word) {
      std::optional<double> ignored;
      return trimmed(text_of(word, ignored)).empty();
    };
    // Words that were found as boxes, in a line that was transcribed as a whole, have its words if they are as many.
    const bool transcribed = !trimmed(text).empty() && std::ranges::all_of(words, is_blank);
    const std::vector<std::string> parts = transcribed ? words_of(text) : std::vector<std::string>();
    if (!transcribed || parts.size() == words.size()) {
      for (std::size_t w = 0; w < words.size(); ++w) {
        const std::string of_word = transcribed ? parts[w] : text_of(words[w], confidence);
        add_word(
            page_,
            {.text = of_word, .box = need_outline(words[w], of_word), .segment = segment, .confidence = confidence},
            losses_);
      }
      return;
    }
    losses_.add(kLine, page_.where);
    add_divided(page_, text, rectangle_of(need_outline(line, text)), losses_);
  }

  FoundPage& page_;
  Losses& losses_;
};

}  // namespace

bool is_page_xml(const Evidence& evidence) { return evidence.root == "PcGts"; }

void read_page_xml(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string(), text = read_text_file(file, kLongestFile);
  const XmlFile xml(text, name);
  const std::vector<XmlNode> pages = xml.root().children("Page");
  if (pages.empty()) xml.root().refuse("a file has no page of PAGE", "no <Page>", "<PcGts><Page>");
  for (std::size_t i = 0; i < pages.size(); ++i) {
    FoundPage page = new_page(file, static_cast<int>(i) + 1, pages.size());
    page.width = pages[i].number("imageWidth").value_or(0);
    page.height = pages[i].number("imageHeight").value_or(0);
    page.image = std::string(pages[i].attribute("imageFilename").value_or(""));
    PageXmlPage(page, reading.losses).read(pages[i]);
    reading.take(std::move(page));
  }
}

}  // namespace plimsoll
