#include "convert/losses.h"

#include <fmt/format.h>

#include "base/counted.h"

namespace plimsoll {

void Losses::add(const Loss& loss, const std::string& where, std::uint64_t count) {
  if (count == 0) return;
  Count& kind = counts_[loss.one];
  if (kind.count == 0) {
    kind.many = loss.many;
    kind.first_place = where;
  }
  kind.count += count;
}

std::vector<std::string> Losses::lines() const {
  std::vector<std::string> lines;
  for (const auto& [one, kind] : counts_) {
    lines.push_back(fmt::format("{} ({}{})", counted(kind.count, one, kind.many), kind.count > 1 ? "first: " : "",
                                kind.first_place));
  }
  return lines;
}

}  // namespace plimsoll
