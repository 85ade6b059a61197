// Compiles the examples of src/convert.
#include "convert/convert.h"

#include <filesystem>
#include <string>
#include <string_view>

#include "convert/evidence.h"
#include "convert/formats.h"
#include "convert/found_page.h"
#include "convert/json_node.h"
#include "convert/lines.h"
#include "convert/losses.h"
#include "convert/pages_file.h"
#include "convert/pictures.h"
#include "convert/readers.h"
#include "convert/rectangle.h"
#include "convert/xml.h"
#include "examples/use.h"

namespace plimsoll::examples {

void of_convert() {
#include "convert/convert.h.inc"
}

void of_evidence() {
#include "convert/evidence.h.inc"
}

void of_formats(const std::filesystem::path& path) {
#include "convert/formats.h.inc"
}

void of_found_page() {
#include "convert/found_page.h.inc"
}

void of_json_node(const nlohmann::json& json) {
#include "convert/json_node.h.inc"
}

void of_lines() {
#include "convert/lines.h.inc"
}

void of_losses() {
#include "convert/losses.h.inc"
}

void of_pages_file() {
#include "convert/pages_file.h.inc"
}

void of_pictures(FoundPage& page, Losses& losses) {
#include "convert/pictures.h.inc"
}

void of_readers(Losses& losses) {
#include "convert/readers.h.inc"
}

void of_rectangle() {
#include "convert/rectangle.h.inc"
}

void of_xml(std::string_view text) {
#include "convert/xml.h.inc"
}

}  // namespace plimsoll::examples
