// ALTO, versions 2 to 4: pages of blocks of lines of strings, in pixels, tenths of a millimetre or 1200ths of an inch.
#include <fmt/format.h>

#include "base/file.h"
#include "base/in_quotes.h"
#include "convert/readers.h"
#include "convert/xml.h"

namespace plimsoll {
namespace {

std::optional<Box> box_of(const XmlNode& node) {
  const std::optional<double> x = node.number("HPOS"), y = node.number("VPOS");
  const std::optional<double> width = node.number("WIDTH"), height = node.number("HEIGHT");
  if (!x || !y || !width || !height) return std::nullopt;
  return Box{*x, *y, *x + *width, *y + *height};
}

void set_unit(FoundPage& page, const XmlNode& root) {
  const std::vector<XmlNode> units = root.all("MeasurementUnit");
  const std::string unit = units.empty() ? "pixel" : std::string(trimmed(units.front().text()));
  if (unit == "pixel") return;
  page.unit = BoxUnit::kLength;
  if (unit == "mm10") {
    page.units_per_inch = 254;
  } else if (unit == "inch1200") {
    page.units_per_inch = 1200;
  } else {
    units.front().refuse("an unknown unit of measurement", in_quotes(unit), "pixel, mm10 or inch1200");
  }
}

void read_line(FoundPage& page, const XmlNode& line, Losses& losses) {
  const std::optional<Box> segment = box_of(line);
  const std::size_t before = page.words.size();
  for (const XmlNode& each : line.children()) {
    if (each.name() == "HYP") {
      // The hyphen at a line's end is printed after its last word.
      const std::optional<std::string_view> hyphen = each.attribute("CONTENT");
      if (!hyphen || page.words.size() == before) continue;
      page.words.back().text += *hyphen;
      if (const std::optional<Box> box = box_of(each)) {
        Enclosure both;
        both.add(page.words.back().box);
        both.add(*box);
        page.words.back().box = both.box();
      }
    }
    if (each.name() != "String") continue;
    const std::optional<Box> box = box_of(each);
    const std::string text(each.attribute("CONTENT").value_or(""));
    if (!box) {
      each.refuse("a string has no box", fmt::format("CONTENT={}", in_quotes(text)), "HPOS, VPOS, WIDTH and HEIGHT",
                  "have the OCR engine write the positions of words, not only of lines");
    }
    add_word(page, {.text = text, .box = *box, .segment = segment, .confidence = each.number("WC")}, losses);
  }
}

}  // namespace

bool is_alto(const Evidence& evidence) { return evidence.root == "alto"; }

void read_alto(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string(), text = read_text_file(file, kLongestFile);
  const XmlFile xml(text, name);
  const XmlNode root = xml.root();
  std::vector<XmlNode> pages;
  for (const XmlNode& layout : root.children("Layout")) {
    for (const XmlNode& page : layout.children("Page")) pages.push_back(page);
  }
  if (pages.empty()) root.refuse("a file has no page of ALTO", "no <Page> in a <Layout>", "<alto><Layout><Page>");
  const std::vector<XmlNode> image = root.all("fileName");
  for (std::size_t i = 0; i < pages.size(); ++i) {
    FoundPage page = new_page(file, static_cast<int>(i) + 1, pages.size());
    set_unit(page, root);
    page.width = pages[i].number("WIDTH").value_or(0);
    page.height = pages[i].number("HEIGHT").value_or(0);
    if (image.size() == 1 && pages.size() == 1) page.image = std::string(trimmed(image.front().text()));
    for (const XmlNode& line : pages[i].all("TextLine")) read_line(page, line, reading.losses);
    reading.take(std::move(page));
  }
}

}  // namespace plimsoll
