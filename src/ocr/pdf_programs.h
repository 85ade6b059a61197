// The programs that read PDF files for this one: Poppler's pdfinfo, pdftotext and pdftoppm, or a Python that has the
// package plimsoll with pypdfium2 (python/plimsoll/pdf.py), which replaces them and writes the same output.
//
//   const PdfPrograms programs = find_pdf_programs(PdfReader::kAuto);
//   const PdfCommand command = programs.info("contract.pdf");
//   const ChildResult result = run_child(command.program, command.arguments);
//
// Poppler is under the GPL, so it is neither linked nor shipped. PDFium is under the Apache licence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

enum class PdfReader : std::uint8_t {
  kAuto,  // Poppler if its programs are installed, else pypdfium2
  kPoppler,
  kPypdfium2
};

// A program with its arguments; `name` is its name in messages.
struct PdfCommand {
  std::string name{};
  std::filesystem::path program{};
  std::vector<std::string> arguments{};
};

class PdfPrograms {
 public:
  // Its output has a line "Pages: N", and for each page "Page 1 size: 595.276 x 841.89 pts", and by Poppler "Page 1
  // MediaBox: 0 0 595.276 841.89" too, which is what its other programs read and draw.
  PdfCommand info(const std::filesystem::path& file) const;
  // Its output has the words of a page, from 0, with their boxes, for parse_pdf_text (ocr/pdf.h).
  PdfCommand text(const std::filesystem::path& file, int page) const;
  // Returns whether that gives a word's letters from left to right, whatever their language.
  bool gives_visual_order() const { return python_.empty(); }
  // Its output is a PNG file of a page, from 0.
  PdfCommand drawing(const std::filesystem::path& file, int page, int dpi) const;

  // Returns "pdfinfo, pdftotext and pdftoppm (Poppler)" or "pypdfium2 5.15.2 (/usr/bin/python3)".
  const std::string& description() const { return description_; }

 private:
  friend PdfPrograms find_pdf_programs(PdfReader reader);
  PdfCommand by_python(std::vector<std::string> arguments) const;

  std::filesystem::path python_{};  // empty: Poppler's programs below are used
  std::filesystem::path info_{}, text_{}, drawing_{};
  std::string box_{};  // the option by which Poppler's programs go by the crop box
  std::string description_{};
};

// Looks in PATH for Poppler's programs; for Python, at $PLIMSOLL_PDF_PYTHON, which the package sets to the Python that
// it runs in, and in PATH for python3. Throws EnvironmentError naming what is missing and how to install each reader.
PdfPrograms find_pdf_programs(PdfReader reader);

// Returns what `plimsoll --version` says about it: the description, or what is missing.
std::string describe_pdf_reader();

}  // namespace plimsoll
