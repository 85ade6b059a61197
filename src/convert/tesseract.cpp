// Tesseract's TSV: one row per page, block, paragraph, line or word.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/in_quotes.h"
#include "convert/lines.h"
#include "convert/readers.h"

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 8> kColumns = {"level", "page_num", "left", "top",
                                                      "width", "height",   "conf", "text"};
enum Column : std::size_t { kLevel, kPage, kLeft, kTop, kWidth, kHeight, kConfidence, kText };
constexpr int kPageLevel = 1, kLineLevel = 4, kWordLevel = 5;

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

class TsvReader {
 public:
  TsvReader(const std::filesystem::path& file, const Reading& reading) : file_(file), reading_(reading), lines_(file) {}

  void read() {
    read_header();
    while (lines_.next()) {
      if (lines_.text().find_first_not_of(" \t") != std::string_view::npos) read_row();
    }
    if (!begun_) refuse("a table has no rows", "a header alone");
    hand_over(page_.number > 1);
  }

 private:
  [[noreturn]] void refuse(std::string what, std::string found) const {
    throw DataError({.what = std::move(what),
                     .where = lines_.where(),
                     .found = std::move(found),
                     .allowed = "what tesseract … tsv writes: the columns level, page_num, left, top, width, height, "
                                "conf and text, numbers before the text",
                     .remedy = fmt::format("tesseract {0}.png {0} tsv", file_.stem().string())});
  }

  void read_header() {
    if (!lines_.next()) refuse("a table is empty", "no line");
    const std::vector<std::string_view> names = cells_of(lines_.text());
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto found = std::find(names.begin(), names.end(), kColumns[i]);
      if (found == names.end()) {
        refuse("a table lacks a column of Tesseract's", fmt::format("no column {}", kColumns[i]));
      }
      columns_[i] = static_cast<std::size_t>(found - names.begin());
    }
  }

  double number(const std::vector<std::string_view>& cells, Column column) const {
    const std::string_view cell = columns_[column] < cells.size() ? cells[columns_[column]] : std::string_view();
    double value = 0;
    const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (cell.empty() || read.ec != std::errc() || read.ptr != cell.data() + cell.size() || !(std::abs(value) < 1e9)) {
      refuse("a row cannot be read", fmt::format("{} in the column {}", in_quotes(cell), kColumns[column]));
    }
    return value;
  }

  void read_row() {
    const std::vector<std::string_view> cells = cells_of(lines_.text());
    const int level = static_cast<int>(number(cells, kLevel)), page = static_cast<int>(number(cells, kPage));
    const double left = number(cells, kLeft), top = number(cells, kTop);
    const Box box = {left, top, left + number(cells, kWidth), top + number(cells, kHeight)};
    if (!begun_ || page != page_.number) {
      if (begun_ && page < page_.number) refuse("pages are not in order", fmt::format("page {}", page));
      // In a file with a second page, pictures have numbers.
      if (begun_) hand_over(true);
      page_ = new_page(file_, page, page > 1 ? 2 : 1);
      begun_ = true;
    }
    if (level == kPageLevel) {
      page_.width = box[2];
      page_.height = box[3];
    }
    if (level < kWordLevel) line_.reset();
    if (level == kLineLevel) line_ = box;
    if (level != kWordLevel) return;
    // Text is never quoted: a quotation mark is a letter like any other.
    const std::string_view text = columns_[kText] < cells.size() ? cells[columns_[kText]] : std::string_view();
    const double confidence = number(cells, kConfidence);
    FoundWord word{.text = std::string(text), .box = box, .segment = line_};
    if (confidence >= 0) word.confidence = confidence / 100;
    if (!trimmed(text).empty()) add_word(page_, std::move(word), reading_.losses);  // Tesseract's pictures are blanks
  }

  void hand_over(bool several) {
    if (several) {
      FoundPage named = new_page(file_, page_.number, 2);
      page_.id = named.id;
      page_.document = named.document;
      page_.where = named.where;
      page_.only = false;
    }
    reading_.take(std::move(page_));
    begun_ = false;
  }

  const std::filesystem::path& file_;
  const Reading& reading_;
  LineReader lines_;
  std::array<std::size_t, kColumns.size()> columns_{};
  FoundPage page_{};
  bool begun_ = false;  // page_ holds a page
  std::optional<Box> line_{};
};

}  // namespace

bool is_tesseract(const Evidence& evidence) {
  const std::string_view line = std::string_view(evidence.head).substr(0, evidence.head.find('\n'));
  return line.find("level\tpage_num\t") != std::string_view::npos && line.find("text") != std::string_view::npos;
}

void read_tesseract(const std::filesystem::path& file, const Reading& reading) { TsvReader(file, reading).read(); }

}  // namespace plimsoll
