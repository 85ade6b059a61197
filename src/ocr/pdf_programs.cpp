#include "ocr/pdf_programs.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/child_process.h"
#include "base/error.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Without the empty name in Python's path, no module is loaded from the current directory.
constexpr const char* kPythonCode =
    "import sys; sys.path = [place for place in sys.path if place]; from plimsoll.pdf import main; main()";
constexpr const char* kNoPrograms = "the programs that read PDF files are not installed";
constexpr const char* kPopplerRemedy = "apt-get install poppler-utils";
constexpr const char* kPythonRemedy =
    "pip install pypdfium2, in a Python that finds the package plimsoll (by PYTHONPATH, or its wheel)";

// A file whose name begins with "-" would be mistaken for an option.
std::string argument(const fs::path& path) { return fs::absolute(path).string(); }

std::optional<fs::path> find_python() {
  if (const char* const named = std::getenv("PLIMSOLL_PDF_PYTHON"); named != nullptr && *named != '\0') return named;
  return find_program("python3");
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const std::size_t before = text.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

[[noreturn]] void throw_missing(const char* what, const std::string& found, const std::string& allowed,
                                const std::string& remedy) {
  throw EnvironmentError({.what = what,
                          .where = "PATH",
                          .found = found,
                          .allowed = allowed,
                          .remedy = remedy + "; or turn the pages into pictures elsewhere"});
}

}  // namespace

PdfCommand PdfPrograms::by_python(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"-c", kPythonCode});
  return {.name = "pypdfium2", .program = python_, .arguments = std::move(arguments)};
}

PdfCommand PdfPrograms::info(const fs::path& file) const {
  if (!python_.empty()) return by_python({"info", argument(file)});
  return {.name = "pdfinfo", .program = info_, .arguments = {"-box", "-f", "1", "-l", "-1", argument(file)}};
}

PdfCommand PdfPrograms::text(const fs::path& file, int page) const {
  const std::string number = std::to_string(page + 1);
  if (!python_.empty()) return by_python({"text", argument(file), number});
  return {.name = "pdftotext",
          .program = text_,
          .arguments = {"-bbox", box_, "-enc", "UTF-8", "-f", number, "-l", number, argument(file), "-"}};
}

PdfCommand PdfPrograms::drawing(const fs::path& file, int page, int dpi) const {
  const std::string number = std::to_string(page + 1), dots = std::to_string(dpi);
  if (!python_.empty()) return by_python({"draw", argument(file), number, dots});
  return {.name = "pdftoppm",
          .program = drawing_,
          .arguments = {"-png", box_, "-q", "-r", dots, "-f", number, "-l", number, "-singlefile", argument(file)}};
}

PdfPrograms find_pdf_programs(PdfReader reader) {
  PdfPrograms programs;
  std::string missing;
  if (reader != PdfReader::kPypdfium2) {
    // All three are looked for at once, so that a run does not fail only at its first scan.
    const std::array<std::pair<const char*, fs::path*>, 3> wanted = {
        {{"pdfinfo", &programs.info_}, {"pdftotext", &programs.text_}, {"pdftoppm", &programs.drawing_}}};
    for (const auto& [name, place] : wanted) {
      const std::optional<fs::path> program = find_program(name);
      if (program) *place = *program;
      if (!program && missing.empty()) missing = fmt::format("no {}", name);
    }
    if (missing.empty()) {
      // pdftotext has the option since Poppler 21.03; without it, both go by the media box, so that words and picture
      // fit together. "-q" says nothing twice.
      const ChildResult help = run_child(programs.text_, {"-h"});
      const bool crops = (help.errors + help.output).find("-cropbox") != std::string::npos;
      programs.box_ = crops ? "-cropbox" : "-q";
      programs.description_ = "pdfinfo, pdftotext and pdftoppm (Poppler)";
      return programs;
    }
    if (reader == PdfReader::kPoppler) {
      throw_missing(kNoPrograms, missing, "pdfinfo, pdftotext and pdftoppm, of Poppler", kPopplerRemedy);
    }
    missing += ", and ";
  }
  if (const std::optional<fs::path> python = find_python()) {
    programs.python_ = *python;
    const PdfCommand version = programs.by_python({"version"});
    const ChildResult result = run_child(version.program, version.arguments);
    if (result.succeeded()) {
      programs.description_ = fmt::format("{} ({})", last_line(result.output), python->string());
      return programs;
    }
    missing += fmt::format("{} says: {}", python->string(), last_line(result.errors));
  } else {
    missing += "no python3";
  }
  if (reader == PdfReader::kPypdfium2) {
    throw_missing("the Python packages that read PDF files are not all there", missing,
                  "a Python with plimsoll and pypdfium2, python3 or the one that PLIMSOLL_PDF_PYTHON names",
                  kPythonRemedy);
  }
  throw_missing(kNoPrograms, missing, "Poppler's programs, or a Python with plimsoll and pypdfium2",
                fmt::format("{}; or {}", kPopplerRemedy, kPythonRemedy));
}

std::string describe_pdf_reader() {
  try {
    return find_pdf_programs(PdfReader::kAuto).description();
  } catch (const EnvironmentError& error) {
    return fmt::format("none ({}: {}, or {})", error.problem().found, kPopplerRemedy, kPythonRemedy);
  }
}

}  // namespace plimsoll
