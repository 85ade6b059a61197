// PDF files, read by other programs (ocr/pdf_programs.h).
//
//   const PdfFile file("contract.pdf", find_pdf_programs(PdfReader::kAuto));
//   const PdfText text = file.read_text(0);
//   file.write_picture(0, 150, "contract-1.png");
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/page.h"
#include "ocr/pdf_programs.h"

namespace plimsoll {

struct PdfWord {
  std::string text{};
  Box box{};  // in points, 1/72 inch, from the page's upper left corner
};

struct PdfSize {
  double width = 0, height = 0;  // in points; swapped, perhaps, if the page is shown turned
};

struct PdfText {
  double width = 0, height = 0;  // of the page, in points; swapped, perhaps, if the page is shown turned
  std::vector<PdfWord> words{};
  // The program found this wrong with the page and went on; a page without words may be damaged.
  std::string fault{};
  // The letters have no meaning: the file says how they look, but not which characters they are.
  bool is_garbled = false;
};

class PdfFile {
 public:
  // Throws DataError if the file is not a PDF, is damaged, or needs a password.
  PdfFile(std::filesystem::path path, PdfPrograms programs);

  int pages() const { return static_cast<int>(sizes_.size()); }
  // Returns a page's size in points, from the file's own list of its pages; zeros if that does not say.
  PdfSize size(int page) const { return sizes_.at(static_cast<std::size_t>(page)); }
  // Returns the words of a page, from 0, in their order in the file. Thread-safe. Throws DataError.
  PdfText read_text(int page) const;
  // Draws a page, from 0, into a PNG file, in one step. Thread-safe. Throws DataError, EnvironmentError.
  void write_picture(int page, int dpi, const std::filesystem::path& png) const;

 private:
  std::filesystem::path path_;
  PdfPrograms programs_;
  std::vector<PdfSize> sizes_{};
};

// Reads the pages' sizes in the output of `pdfinfo -box -l -1`, which plimsoll.pdf also writes: at least as large as a
// page is drawn, and zeros for one that it does not name.
std::vector<PdfSize> parse_pdf_sizes(const std::string& info, int pages);

// Reads the output of `pdftotext -bbox`, whose format plimsoll.pdf also writes. Broken text gives fewer words.
PdfText parse_pdf_text(const std::string& xhtml);

}  // namespace plimsoll
