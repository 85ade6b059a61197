#include "tasks/parts/word_range.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "base/counted.h"
#include "data/page_faults.h"

namespace plimsoll {

std::optional<WordRange> read_word_range(const nlohmann::json& value, std::size_t words) {
  // 3.0 is 3: tables with gaps hold all numbers as floats.
  const auto number = [&](const char* key) {
    const nlohmann::json found = value.is_object() ? value.value(key, nlohmann::json()) : nlohmann::json();
    if (found.is_number_integer()) return found.get<std::int64_t>();
    constexpr double kMost = 1e15;
    const double real = found.is_number() ? found.get<double>() : -1;
    return real == std::floor(real) && std::abs(real) < kMost ? static_cast<std::int64_t>(real) : std::int64_t{-1};
  };
  const std::int64_t begin = number("start_word"), end = number("end_word");
  if (begin < 0 || end <= begin || end > static_cast<std::int64_t>(words)) return std::nullopt;
  return WordRange{static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

std::string found_word_range(const nlohmann::json& value, std::size_t words) {
  return fmt::format("{} on a page of {}", shown(value), counted(words, "word"));
}

}  // namespace plimsoll
