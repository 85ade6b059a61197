// Compiles the examples of src/ocr.
#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/child_process.h"
#include "base/process.h"
#include "examples/use.h"
#include "ocr/pdf.h"
#include "ocr/pdf_programs.h"
#include "ocr/picture.h"
#include "ocr/find_documents.h"
#include "ocr/read_documents.h"
#include "ocr/reading_memory.h"
#include "ocr/reading_order.h"
#include "ocr/text_reader.h"
#include "ocr/text_readers.h"

namespace plimsoll {

void of_pdf() {
#include "ocr/pdf.h.inc"
}

void of_pdf_programs() {
#include "ocr/pdf_programs.h.inc"
}

void of_picture() {
#include "ocr/picture.h.inc"
}

void of_find_documents() {
#include "ocr/find_documents.h.inc"
}

void of_read_documents() {
#include "ocr/read_documents.h.inc"
}

void of_reading_memory() {
#include "ocr/reading_memory.h.inc"
}

void of_reading_order(const std::vector<Box>& boxes, const std::vector<std::string>& words) {
#include "ocr/reading_order.h.inc"
}

void of_text_readers() {
#include "ocr/text_readers.h.inc"
}

void of_text_reader(const Picture& picture) {
#include "ocr/text_reader.h.inc"
}

}  // namespace plimsoll
