#include "fuzz/converted.h"

void plimsoll::fuzz::convert_json(std::string_view input) {
  convert_as(input, {"azure", "cord", "document-ai", "funsd", "google-vision", "label-studio", "pages", "tesseract",
                     "textract"});
}
