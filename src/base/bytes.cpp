#include "base/bytes.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace plimsoll {

std::size_t parse_bytes(std::string_view text, std::string_view option) {
  const auto fail = [&](std::string remedy) -> UsageError {
    return UsageError({.what = "not a memory size",
                       .where = std::string(option),
                       .found = fmt::format("'{}'", text),
                       .allowed = "a positive number with a unit: 512MiB, 3GiB, 1.5g; 4GB is 4 * 1000^3 bytes",
                       .remedy = std::move(remedy)});
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number > 0)) throw fail("");
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(end - text.data()))) {
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (unit.empty() && number < static_cast<double>(kMiB)) {
    constexpr double kManyGibibytes = 128;  // one GPU or workstation rarely has more
    throw fail(fmt::format("did you mean {:g}{}?", number, number > kManyGibibytes ? "MiB" : "GiB"));
  }
  double factor = unit.empty() || unit == "b" ? 1 : 0;
  double binary = 1, decimal = 1;
  for (const char* letter : {"k", "m", "g", "t", "p", "e"}) {
    binary *= 1024;
    decimal *= 1000;
    if (unit == letter || unit == std::string(letter) + "ib") factor = binary;
    if (unit == std::string(letter) + "b") factor = decimal;
  }
  const double bytes = number * factor;
  if (factor > 0 && bytes >= 9.0e18) {
    throw UsageError({.what = "a memory size is too large",
                      .where = std::string(option),
                      .found = fmt::format("'{}'", text),
                      .allowed = "less than 8,000,000 TiB",
                      .remedy = "pass the memory that the run may use, such as 16GiB"});
  }
  if (!(bytes >= 1) || !(bytes < 9.0e18)) throw fail("");
  return static_cast<std::size_t>(bytes);
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
