// hOCR: XHTML in which classes name pages, lines and words, and titles hold their boxes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/in_quotes.h"
#include "convert/readers.h"
#include "convert/xml.h"

namespace plimsoll {
namespace {

constexpr Loss kHocrUndivided{"line has no boxes of its words, and its own is divided",
                              "lines have no boxes of their words, and their own are divided"};

constexpr Loss kLoose{"page has text outside words and lines, which is left out",
                      "pages have text outside words and lines, which is left out"};

// The entities of XHTML's document type, which XML alone does not know.
constexpr std::pair<std::string_view, char32_t> kEntities[] = {
#include "convert/xhtml_entities.inc"
};

constexpr std::size_t kLongestName = 8;  // "thetasym"

// Returns the text with numbers in place of the entities that XHTML names, which mean the same in every encoding;
// others stay as they are.
std::string resolved(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find('&', at), text.size());
    result += text.substr(at, begin - at);
    if (begin == text.size()) break;
    const std::string_view rest = text.substr(begin + 1, kLongestName + 1), name = rest.substr(0, rest.find(';'));
    const auto found = std::ranges::lower_bound(kEntities, name, {}, &std::pair<std::string_view, char32_t>::first);
    at = begin + 1;
    if (found == std::end(kEntities) || found->first != name) {
      result += '&';
    } else {
      result += fmt::format("&#{};", static_cast<std::uint32_t>(found->second));
      at += name.size() + 1;
    }
  }
  return result;
}

std::size_t letters_in(std::string_view text) {
  std::size_t letters = 0;
  for (const std::string& word : words_of(text)) letters += word.size();
  return letters;
}

bool has_class(const XmlNode& node, std::string_view name) {
  const std::optional<std::string_view> classes = node.attribute("class");
  if (!classes) return false;
  for (const std::string& each : words_of(*classes)) {
    if (each == name) return true;
  }
  return false;
}

// Tesseract 3 and OCRopus wrote ocr_word.
bool is_word(const XmlNode& node) { return has_class(node, "ocrx_word") || has_class(node, "ocr_word"); }

bool is_line(const XmlNode& node) {
  for (const char* name : {"ocr_line", "ocrx_line", "ocr_header", "ocr_footer", "ocr_caption", "ocr_textfloat"}) {
    if (has_class(node, name)) return true;
  }
  return false;
}

// The properties of a title: "bbox 0 0 10 20; x_wconf 93".
class Title {
 public:
  explicit Title(const XmlNode& node) : node_(node), text_(node.attribute("title").value_or("")) {}

  // Returns the words after a property's name; empty if there is no such property.
  std::vector<std::string> values(std::string_view name) const {
    for (std::size_t begin = 0; begin < text_.size();) {
      std::size_t end = begin;
      // A quoted value may hold a semicolon.
      char quote = '\0';
      while (end < text_.size() && (quote != '\0' || text_[end] != ';')) {
        if (quote == text_[end]) {
          quote = '\0';
        } else if (quote == '\0' && text_[end] == '"') {
          quote = text_[end];
        }
        ++end;
      }
      const std::string_view property = trimmed(text_.substr(begin, end - begin));
      const std::size_t space = property.find_first_of(" \t\n");
      if (property.substr(0, space) == name && space != std::string_view::npos) {
        const std::string_view value = trimmed(property.substr(space));
        if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
          return {std::string(value.substr(1, value.size() - 2))};
        }
        return words_of(value);
      }
      begin = end + 1;
    }
    return {};
  }
  std::optional<double> number(std::string_view name) const {
    const std::vector<std::string> found = values(name);
    if (found.empty()) return std::nullopt;
    return number_of(found.front());
  }
  std::optional<Box> box() const {
    const std::vector<std::string> found = values("bbox");
    if (found.empty()) return std::nullopt;
    if (found.size() != 4) refuse();
    return Box{number_of(found[0]), number_of(found[1]), number_of(found[2]), number_of(found[3])};
  }

 private:
  double number_of(const std::string& text) const {
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) refuse();
    return value;
  }
  [[noreturn]] void refuse() const {
    node_.refuse("a title's numbers cannot be read", fmt::format("title={}", in_quotes(text_)),
                 "properties as in \"bbox 10 20 60 32; x_wconf 93\"");
  }

  const XmlNode& node_;
  std::string_view text_;
};

class HocrPage {
 public:
  HocrPage(FoundPage& page, Losses& losses) : page_(page), losses_(losses) {}

  // Returns how many letters of the page's text became words.
  std::size_t taken() const { return taken_; }

  void read(const XmlNode& node, std::optional<Box> line) {
    for (const XmlNode& each : node.children()) {
      // Tesseract 3 put an element without a box into each word; elsewhere words with boxes lie in one.
      if (is_word(each) && !has_word(each, /*placed=*/true)) {
        add(each, line);
      } else if (is_line(each)) {
        const std::size_t before = page_.words.size();
        const std::optional<Box> box = Title(each).box();
        read(each, box);
        if (page_.words.size() == before && !has_word(each, /*placed=*/false)) divide(each, box);
      } else {
        read(each, line);
      }
    }
  }

 private:
  static std::optional<double> confidence_in(const XmlNode& node) {
    std::optional<double> found = Title(node).number("x_wconf");
    node.walk([&](const XmlNode& each) {
      if (!found) found = Title(each).number("x_wconf");
      return !found;
    });
    if (found && *found < 0) found.reset();  // Tesseract 3's certainty, which is no per cent
    return found;
  }
  // `placed`: a word that has a box of its own.
  static bool has_word(const XmlNode& node, bool placed) {
    bool found = false;
    node.walk([&](const XmlNode& each) {
      found = found || (is_word(each) && (!placed || Title(each).box()));
      return !found;
    });
    return found;
  }
  void add(const XmlNode& node, const std::optional<Box>& line) {
    const Title title(node);
    const std::optional<Box> box = title.box();
    if (!box) node.refuse("a word has no box", in_quotes(node.text()), "title=\"bbox 10 20 60 32\"");
    const std::optional<double> confidence = confidence_in(node);
    FoundWord word{.text = node.text(), .box = *box, .segment = line};
    taken_ += letters_in(word.text);
    if (confidence) word.confidence = *confidence / 100;
    add_word(page_, std::move(word), losses_);
  }
  void divide(const XmlNode& node, const std::optional<Box>& box) {
    const std::string text = node.text();
    if (trimmed(text).empty()) return;
    if (!box) node.refuse("a line has neither words nor a box", in_quotes(text), "title=\"bbox 10 20 60 32\"");
    losses_.add(kHocrUndivided, page_.where);
    taken_ += letters_in(text);
    std::string line;
    for (const std::string& word : words_of(text)) line += (line.empty() ? "" : " ") + word;
    add_divided(page_, line, rectangle_of(*box), losses_);
  }

  FoundPage& page_;
  Losses& losses_;
  std::size_t taken_ = 0;
};

}  // namespace

bool is_hocr(const Evidence& evidence) {
  return !evidence.root.empty() && evidence.head.find("ocr_page") != std::string::npos;
}

void read_hocr(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string(), text = resolved(read_text_file(file, kLongestFile));
  const XmlFile xml(text, name);
  std::vector<XmlNode> pages;
  xml.root().walk([&](const XmlNode& each) {
    const bool page = has_class(each, "ocr_page");
    if (page) pages.push_back(each);
    return !page;
  });
  if (pages.empty()) {
    xml.root().refuse("a file has no page of hOCR", "no element of the class ocr_page", "class=\"ocr_page\"",
                      "have the OCR engine write hOCR: tesseract scan.png scan hocr");
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    FoundPage page = new_page(file, static_cast<int>(i) + 1, pages.size());
    const Title title(pages[i]);
    if (const std::vector<std::string> image = title.values("image"); !image.empty()) page.image = image.front();
    if (const std::optional<Box> box = title.box()) {
      page.width = (*box)[2];
      page.height = (*box)[3];
    }
    HocrPage content(page, reading.losses);
    content.read(pages[i], std::nullopt);
    if (content.taken() < letters_in(pages[i].text())) reading.losses.add(kLoose, page.where);
    reading.take(std::move(page));
  }
}

}  // namespace plimsoll
