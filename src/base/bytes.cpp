#include "base/bytes.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace plimsoll {

std::size_t parse_bytes(std::string_view text, std::string_view option) {
  const auto fail = [&](std::string_view) -> UsageError {
    return UsageError({.what = "not a memory size",
                       .where = std::string(option),
                       .found = fmt::format("'{}'", text),
                       .allowed = "a positive number with a unit: 512MiB, 3GiB, 1.5g"});
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number > 0)) throw fail(text);
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(end - text.data()))) {
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  double factor = 0;
  if (unit.empty() || unit == "b") factor = 1;
  if (unit == "k" || unit == "kb" || unit == "kib") factor = static_cast<double>(kKiB);
  if (unit == "m" || unit == "mb" || unit == "mib") factor = static_cast<double>(kMiB);
  if (unit == "g" || unit == "gb" || unit == "gib") factor = static_cast<double>(kGiB);
  if (unit == "t" || unit == "tb" || unit == "tib") factor = static_cast<double>(kGiB) * 1024;
  const double bytes = number * factor;
  if (!(factor > 0) || !(bytes < 9.0e18)) throw fail(text);
  return static_cast<std::size_t>(std::llround(bytes));
}

std::string format_bytes(std::size_t bytes) {
  const double value = static_cast<double>(bytes);
  const auto with_unit = [](double number, std::string_view unit) {
    const int decimals = number < 10 ? 2 : number < 100 ? 1 : 0;
    return fmt::format("{:.{}f} {}", number, decimals, unit);
  };
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  if (bytes < kMiB) return with_unit(value / static_cast<double>(kKiB), "KiB");
  if (bytes < kGiB) return with_unit(value / static_cast<double>(kMiB), "MiB");
  return with_unit(value / static_cast<double>(kGiB), "GiB");
}

}  // namespace plimsoll
