#include "cli/field_output.h"

#include <utility>

#include "formats/json.h"

namespace plimsoll {
namespace {

// Returns a value as a cell of RFC 4180: in quotes if it has quotes, commas or line feeds.
std::string cell(const std::string& text) {
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string cell(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  if (found->is_string()) return cell(found->get<std::string>());
  return cell(json_text(*found));
}

// Returns what is written once, before everything else.
std::string head_of(const std::string& form) {
  return form == "csv" ? "document,id,page,label,text,confidence,x0,y0,x1,y1\n" : form == "json" ? "[" : "";
}

}  // namespace

// A part of a list has a line for each element.
FieldOutput::FieldOutput(const std::string& form, std::function<void(const std::string&)> write, bool is_part)
    : form_(is_part && form == "json" ? "jsonl" : form), write_(std::move(write)), begun_(is_part) {}

void FieldOutput::begin() {
  if (std::exchange(begun_, true)) return;
  if (const std::string head = head_of(form_); !head.empty()) write_(head);
}

void FieldOutput::add(const nlohmann::json& line) {
  begin();
  if (form_ != "csv") {
    const std::string text = json_text(line);
    const bool is_list = form_ == "json";
    write_(!is_list ? text + "\n" : (has_lines_ ? ",\n" : "\n") + text);
    has_lines_ = true;
    return;
  }
  const auto pages = line.find("pages");
  if (pages == line.end()) return add_rows(line, "", 0);
  const std::string document = cell(line, "document");
  for (std::size_t i = 0; i < pages->size(); ++i) add_rows((*pages)[i], document, i);
}

void FieldOutput::add_rows(const nlohmann::json& page, const std::string& document, std::size_t number) {
  const auto fields = page.find("fields");
  if (fields == page.end()) return;
  for (const nlohmann::json& field : *fields) {
    std::string row = document + "," + cell(page, "id") + "," + std::to_string(number + 1);
    for (const char* const key : {"label", "text", "confidence"}) row += "," + cell(field, key);
    const auto box = field.find("box");
    for (std::size_t side = 0; side < 4; ++side) row += "," + (box == field.end() ? "" : box->at(side).dump());
    write_(row + "\n");
  }
}

void FieldOutput::finish() {
  begin();
  if (form_ == "json") write_(has_lines_ ? "\n]\n" : "]\n");
}

FieldJoiner::FieldJoiner(std::string form, std::function<void(std::string_view)> write)
    : form_(std::move(form)), write_(std::move(write)) {
  if (const std::string head = head_of(form_); !head.empty()) write_(head);
}

void FieldJoiner::add(std::string_view bytes) {
  if (form_ != "json") return write_(bytes);
  while (!bytes.empty()) {
    if (!in_line_) write_(has_lines_ ? ",\n" : "\n");
    has_lines_ = true;
    const std::size_t end = bytes.find('\n');
    in_line_ = end == std::string_view::npos;
    write_(bytes.substr(0, end));
    bytes.remove_prefix(in_line_ ? bytes.size() : end + 1);
  }
}

void FieldJoiner::finish() {
  if (form_ == "json") write_(has_lines_ ? "\n]\n" : "]\n");
}

}  // namespace plimsoll
