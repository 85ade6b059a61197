// The forms in which `predict` writes what it found: JSONL, one JSON list, or a table of fields (CSV).
//
//   FieldOutput output("csv", [&](const std::string& text) { file.write(text); });
//   output.add(line);
//   output.finish();
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll {

class FieldOutput {
 public:
  // `form`: jsonl, json or csv.
  FieldOutput(std::string form, std::function<void(const std::string&)> write);

  // Adds the line of a page, or of a document with its pages (cli/document_lines.h).
  void add(const nlohmann::json& line);
  // Writes what ends the output, after the last line.
  void finish();

 private:
  void begin();
  void add_rows(const nlohmann::json& page, const std::string& document, std::size_t number);

  std::string form_;
  std::function<void(const std::string&)> write_;
  bool begun_ = false, has_lines_ = false;
};

}  // namespace plimsoll
