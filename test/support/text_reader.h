// Skips tests where no page can be read by OCR.
//
//   SKIP_WITHOUT_TEXT_READER();
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"
#include "ocr/text_reader.h"

#define SKIP_WITHOUT_TEXT_READER()                                                                     \
  try {                                                                                                \
    open_text_reader({});                                                                              \
  } catch (const Error& error) {                                                                       \
    GTEST_SKIP() << "pages cannot be read here (apt-get install libtesseract-dev tesseract-ocr-eng): " \
                 << error.what();                                                                      \
  }                                                                                                    \
  static_assert(true, "a semicolon follows")
