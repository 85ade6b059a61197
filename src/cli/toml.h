// Parses TOML (toml.io, version 1.0) by toml++ into the values that JSON has, in the file's order.
//
//   const TomlFile file = parse_toml("[train]\nmax_steps = 1000\n");
//   file.values["train"]["max_steps"];   // 1000
//   file.lines.at("train.max_steps");    // 2
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plimsoll {

struct TomlFile {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  std::map<std::string, std::size_t> lines;  // of each key outside lists, with the keys of its tables before it
};

// Says where a text stops being TOML: line and column from 1, and the fault in toml++'s words.
class TomlError : public std::runtime_error {
 public:
  TomlError(const std::string& fault, std::size_t line, std::size_t column)
      : std::runtime_error(fault), line_(line), column_(column) {}
  std::size_t line() const { return line_; }
  std::size_t column() const { return column_; }

 private:
  std::size_t line_, column_;
};

// Dates, and numbers that are not finite, become strings as TOML writes them. Throws TomlError; also if a key has more
// than 100 parts.
TomlFile parse_toml(std::string_view text);

}  // namespace plimsoll
