#include "ocr/pdf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <locale>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "ocr/visual_order.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr ChildLimits kLimits{.time = std::chrono::seconds(60), .output_bytes = std::uint64_t{64} << 20};
// Drawing a page takes longer, and its output is at most as large as its pixels.
constexpr ChildLimits kDrawingLimits{.time = std::chrono::seconds(300), .output_bytes = std::uint64_t{512} << 20};

std::string first_line(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  return std::string(text.substr(begin, text.find('\n', begin) - begin));
}

[[noreturn]] void throw_unreadable(const fs::path& path, const PdfCommand& command, const ChildLimits& limits,
                                   const ChildResult& result) {
  if (result.errors.find("Incorrect password") != std::string::npos) {
    throw DataError({.what = "a PDF file is encrypted",
                     .where = path.string(),
                     .found = "a file that opens only with a password",
                     .allowed = "a file without one",
                     .remedy = "qpdf --decrypt --password=... IN.pdf OUT.pdf, then pass OUT.pdf"});
  }
  const std::string said = first_line(result.errors);
  throw DataError({.what = "a PDF file cannot be read",
                   .where = path.string(),
                   .found = result.too_slow ? fmt::format("{} took longer than {} s", command.name, limits.time.count())
                            : result.too_long ? fmt::format("{} wrote more than a page can have", command.name)
                            : said.empty() ? fmt::format("{} ended with exit code {}", command.name, result.exit_code)
                                           : fmt::format("{}: {}", command.name, said),
                   .allowed = "a complete PDF file",
                   .remedy = "open it in a viewer; print or save it again as PDF"});
}

std::optional<double> number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + name.size());
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// Replaces entities such as &amp; and &#65;. Control characters are dropped.
std::string unescaped(std::string_view text) {
  constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = text[i] == '&' ? text.find(';', i) : std::string_view::npos;
    if (end != std::string_view::npos && end - i < 12) {
      const std::string_view name = text.substr(i + 1, end - i - 1);
      const auto* const known =
          std::find_if(std::begin(kNames), std::end(kNames), [name](const auto& entry) { return entry.first == name; });
      if (known != std::end(kNames)) {
        plain += known->second;
        i = end;
        continue;
      }
      if (name.starts_with("#")) {
        std::uint32_t code = 0;
        const bool hex = name.starts_with("#x");
        const std::string_view digits = name.substr(hex ? 2 : 1);
        const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
        const bool valid = code >= 0x20 && code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
        if (error == std::errc() && valid) append_utf8(code, plain);
        i = end;
        continue;
      }
    }
    if (static_cast<unsigned char>(text[i]) >= 0x20) plain += text[i];
  }
  return plain;
}

// Counts the letters of UTF-8 text, and those without a meaning: replacement characters and Unicode's private area,
// where a font's own numbers end up.
void count_letters(std::string_view text, std::size_t& letters, std::size_t& meaningless) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [text, i](std::size_t k) {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U;
    };
    if ((byte(0) & 0xC0U) == 0x80) continue;  // within a letter
    ++letters;
    if ((byte(0) & 0xF0U) != 0xE0) continue;
    const unsigned code = (byte(0) & 0xFU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
    if (code == 0xFFFD || (code >= 0xE000 && code < 0xF900)) ++meaningless;
  }
}

}  // namespace

PdfFile::PdfFile(fs::path path, PdfPrograms programs) : path_(std::move(path)), programs_(std::move(programs)) {
  const PdfCommand command = programs_.info(path_);
  const ChildResult result = run_child(command.program, command.arguments, kLimits);
  const std::size_t at = result.output.find("\nPages:");
  if (!result.succeeded() || at == std::string::npos) throw_unreadable(path_, command, kLimits, result);
  const std::size_t digits = result.output.find_first_of("0123456789", at);
  int pages = 0;
  if (digits != std::string::npos) {
    std::from_chars(result.output.data() + digits, result.output.data() + result.output.size(), pages);
  }
  if (pages < 1) throw_unreadable(path_, command, kLimits, result);
  sizes_ = parse_pdf_sizes(result.output, pages);
}

std::vector<PdfSize> parse_pdf_sizes(const std::string& info, int pages) {
  std::vector<PdfSize> sizes(static_cast<std::size_t>(pages));
  std::istringstream lines(info);
  for (std::string line; std::getline(lines, line);) {  // "Page    3 size:      595.276 x 841.89 pts (A4)"
    std::istringstream words(line);
    words.imbue(std::locale::classic());
    std::string name, of, by;
    int page = 0;
    words >> name >> page >> of;
    if (!words || name != "Page" || page < 1 || page > pages) continue;
    PdfSize& size = sizes[static_cast<std::size_t>(page - 1)];
    PdfSize found;
    if (of == "size:" && words >> found.width >> by >> found.height && by == "x") {
      size = {std::max(size.width, found.width), std::max(size.height, found.height)};
    }
    double left = 0, top = 0, right = 0, bottom = 0;
    if (of == "MediaBox:" && words >> left >> top >> right >> bottom) {
      size = {std::max(size.width, right - left), std::max(size.height, bottom - top)};
    }
  }
  return sizes;
}

PdfText PdfFile::read_text(int page) const {
  const PdfCommand command = programs_.text(path_, page);
  const ChildResult result = run_child(command.program, command.arguments, kLimits);
  if (!result.succeeded()) throw_unreadable(path_, command, kLimits, result);
  PdfText text = parse_pdf_text(result.output);
  if (const std::size_t at = result.errors.find("Syntax Error"); at != std::string::npos) {
    text.fault = first_line(std::string_view(result.errors).substr(at));
  }
  if (programs_.gives_visual_order()) {
    for (PdfWord& word : text.words) word.text = reading_order_of(word.text);
  }
  return text;
}

void PdfFile::write_picture(int page, int dpi, const fs::path& png) const {
  const PdfCommand command = programs_.drawing(path_, page, dpi);
  OutputFile file(png);
  bool is_empty = true;
  const ChildResult result =
      run_child(command.program, command.arguments, kDrawingLimits, [&](std::span<const std::byte> piece) {
        file.write(piece);
        is_empty = false;
      });
  if (!result.succeeded() || is_empty) throw_unreadable(path_, command, kDrawingLimits, result);
  file.close();
}

PdfText parse_pdf_text(const std::string& xhtml) {
  constexpr std::string_view kPage = "<page ", kWord = "<word ", kEnd = "</word>";
  PdfText text;
  const std::size_t begin = xhtml.find(kPage);
  if (begin == std::string::npos) return text;
  const std::string_view page = std::string_view(xhtml).substr(begin);
  const std::string_view head = page.substr(0, page.find('>'));
  text.width = number_after(head, "width=\"").value_or(0);
  text.height = number_after(head, "height=\"").value_or(0);
  std::size_t letters = 0, meaningless = 0;
  for (std::size_t at = page.find(kWord); at != std::string_view::npos; at = page.find(kWord, at)) {
    const std::size_t close = page.find('>', at), end = page.find(kEnd, at);
    if (close == std::string_view::npos || end == std::string_view::npos || close > end) break;
    const std::string_view attributes = page.substr(at, close - at);
    const auto x0 = number_after(attributes, "xMin=\""), y0 = number_after(attributes, "yMin=\""),
               x1 = number_after(attributes, "xMax=\""), y1 = number_after(attributes, "yMax=\"");
    PdfWord word{.text = unescaped(page.substr(close + 1, end - close - 1))};
    at = end;
    if (!x0 || !y0 || !x1 || !y1 || word.text.find_first_not_of(' ') == std::string::npos) continue;
    word.box = {*x0, *y0, *x1, *y1};
    count_letters(word.text, letters, meaningless);
    text.words.push_back(std::move(word));
  }
  text.is_garbled = 3 * meaningless > letters;
  return text;
}

}  // namespace plimsoll
