// The functions in the rows of the table of formats, each in the file of its format, and what they share.
//
//   FoundPage page = new_page("scan.hocr", 2, 5);  // where: "scan.hocr, page 2"
//   add_word(page, {.text = " TOTAL ", .box = {10, 20, 60, 32}}, losses);
#pragma once

#include <filesystem>
#include <string>

#include "convert/evidence.h"
#include "convert/formats.h"
#include "convert/found_page.h"
#include "convert/json_node.h"
#include "convert/losses.h"
#include "convert/rectangle.h"

namespace plimsoll {

// Makes page `number` of `count` of a file. Its id is the file's name, with the number if there are several.
FoundPage new_page(const std::filesystem::path& file, int number, std::size_t count);

// Adds a word without the white space around it; one without text is counted as lost.
void add_word(FoundPage& page, FoundWord word, Losses& losses);
// Adds the words of a text, each with its share of the box; the whole box is their segment.
void add_divided(FoundPage& page, std::string_view text, const Rectangle& rectangle, Losses& losses);

// Returns the upright box around the corners of a list of points {x, y}, or of a list of numbers x, y, x, y, …; a
// coordinate that is left out is 0. Refuses a list without points.
Box box_of_points(const JsonNode& points);

// Labels the words from `begin` to the page's last as one entity, with B- and I-. `is_tag`: the label is that of a
// word, as B-TOTAL, I-TOTAL or S-TOTAL, and that of the first one; the others have I-.
void label_words(FoundPage& page, std::size_t begin, const std::string& label, bool is_tag);

// True for a label that says that words are outside every entity: "O" or "other", in any case.
bool is_outside(std::string_view label);

bool is_alto(const Evidence& evidence);
bool is_azure(const Evidence& evidence);
bool is_cord(const Evidence& evidence);
bool is_document_ai(const Evidence& evidence);
bool is_funsd(const Evidence& evidence);
bool is_google_vision(const Evidence& evidence);
bool is_hocr(const Evidence& evidence);
bool is_label_studio(const Evidence& evidence);
bool is_page_xml(const Evidence& evidence);
bool is_pages(const Evidence& evidence);
bool is_tesseract(const Evidence& evidence);
bool is_textract(const Evidence& evidence);
bool is_xfund(const Evidence& evidence);

void read_alto(const std::filesystem::path& file, const Reading& reading);
void read_azure(const std::filesystem::path& file, const Reading& reading);
void read_cord(const std::filesystem::path& file, const Reading& reading);
void read_document_ai(const std::filesystem::path& file, const Reading& reading);
void read_funsd(const std::filesystem::path& file, const Reading& reading);
void read_google_vision(const std::filesystem::path& file, const Reading& reading);
void read_hocr(const std::filesystem::path& file, const Reading& reading);
void read_label_studio(const std::filesystem::path& file, const Reading& reading);
void read_page_xml(const std::filesystem::path& file, const Reading& reading);
void read_pages(const std::filesystem::path& file, const Reading& reading);
void read_tesseract(const std::filesystem::path& file, const Reading& reading);
void read_textract(const std::filesystem::path& file, const Reading& reading);
void read_xfund(const std::filesystem::path& file, const Reading& reading);

std::unique_ptr<PageWriter> write_pages(const Writing& writing);
std::unique_ptr<PageWriter> write_label_studio(const Writing& writing);
std::unique_ptr<PageWriter> write_conll(const Writing& writing);

// Returns Label Studio's labelling configuration (XML) for pages with these names, and for labels that no page has yet.
std::string label_studio_config(const PageNames& names, const std::vector<std::string>& more);

}  // namespace plimsoll
