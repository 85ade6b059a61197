// Which readers of PDF files a test can use here.
//
//   const PdfPython python;  // python/plimsoll of this checkout, in the interpreter that CMake found
//   SKIP_WITHOUT_PDF_READER(PdfReader::kPypdfium2);
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/child_process.h"
#include "ocr/pdf_programs.h"
#include "support/variable.h"

namespace plimsoll::test {

// The Python package of this checkout, while it lives.
class PdfPython {
 private:
  Variable interpreter_{"PLIMSOLL_PDF_PYTHON", PLIMSOLL_TEST_PYTHON};
  Variable package_{"PYTHONPATH", PLIMSOLL_TEST_PACKAGE};
  Variable no_caches_{"PYTHONDONTWRITEBYTECODE", "1"};
};

// What is missing for a reader; empty: nothing is. It does not ask our own code, whose faults must not skip a test.
inline std::string missing_for(PdfReader reader) {
  if (reader == PdfReader::kPypdfium2) {
    if (std::string(PLIMSOLL_TEST_PYTHON).empty()) return "no Python 3 is installed";
    const bool has = run_child(PLIMSOLL_TEST_PYTHON, {"-c", "import pypdfium2"}).succeeded();
    return has ? "" : std::string(PLIMSOLL_TEST_PYTHON) + " has no pypdfium2: scripts/install_test_tools.sh";
  }
  for (const char* name : {"pdfinfo", "pdftotext", "pdftoppm"}) {
    if (!find_program(name)) return std::string(name) + " is missing: apt-get install poppler-utils";
  }
  return "";
}

inline std::string name_of_reader(const testing::TestParamInfo<PdfReader>& reader) {
  return reader.param == PdfReader::kPoppler ? "Poppler" : "Pypdfium2";
}

#define SKIP_WITHOUT_PDF_READER(reader) \
  if (const std::string missing = test::missing_for(reader); !missing.empty()) GTEST_SKIP() << missing

}  // namespace plimsoll::test
