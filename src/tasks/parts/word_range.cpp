#include "tasks/parts/word_range.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "data/page_faults.h"

namespace plimsoll {

std::optional<WordRange> read_word_range(const nlohmann::json& value, std::size_t words) {
  const auto number = [&](const char* key) {
    return value.is_object() && value.contains(key) && value.at(key).is_number_integer()
               ? value.at(key).get<std::int64_t>()
               : std::int64_t{-1};
  };
  const std::int64_t begin = number("start_word"), end = number("end_word");
  if (begin < 0 || end <= begin || end > static_cast<std::int64_t>(words)) return std::nullopt;
  return WordRange{static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

std::string found_word_range(const nlohmann::json& value, std::size_t words) {
  return fmt::format("{} on a page of {}", shown(value), counted(words, "word"));
}

}  // namespace plimsoll
