// The forms in which `predict` writes what it found: JSONL, one JSON list, or a table of fields (CSV).
//
//   FieldOutput output("csv", [&](const std::string& text) { file.write(text); });
//   output.add(line);
//   output.finish();
//
// A part of an output has only what `add` writes, without what the whole has once: a list's brackets, a table's
// heading. FieldJoiner joins parts to the whole.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace plimsoll {

class FieldOutput {
 public:
  // `form` is jsonl, json or csv. `is_part`: only a part of an output is written.
  FieldOutput(const std::string& form, std::function<void(const std::string&)> write, bool is_part = false);

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

// Joins parts to the bytes of a whole output.
class FieldJoiner {
 public:
  FieldJoiner(std::string form, std::function<void(std::string_view)> write);

  // Adds the next bytes of the parts, cut anywhere.
  void add(std::string_view bytes);
  void finish();

 private:
  std::string form_;
  std::function<void(std::string_view)> write_;
  bool has_lines_ = false, in_line_ = false;
};

}  // namespace plimsoll
