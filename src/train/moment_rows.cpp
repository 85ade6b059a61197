#include "train/moment_rows.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {
namespace {

std::int64_t count_slots(std::span<const std::int32_t> slots, std::int64_t table_rows) {
  return slots.empty() ? table_rows : std::int64_t{std::ranges::max(slots)} + 1;
}

}  // namespace

MomentRows::MomentRows(std::span<const std::int32_t> file, std::span<const std::int32_t> memory) {
  const auto table_rows = static_cast<std::int64_t>(std::max(file.size(), memory.size()));
  check(table_rows > 0 && (file.empty() || memory.empty() || file.size() == memory.size()),
        "slots are those of one table");
  const auto slot = [](std::span<const std::int32_t> slots, std::int64_t row) {
    return slots.empty() ? static_cast<std::int32_t>(row) : slots[static_cast<std::size_t>(row)];
  };
  rows_in_file_ = count_slots(file, table_rows);
  from_.assign(static_cast<std::size_t>(count_slots(memory, table_rows)), -1);
  for (std::int64_t row = 0; row < table_rows; ++row) {
    const std::int32_t here = slot(memory, row), there = slot(file, row);
    // A checkpoint of all rows has zeros for those that no page had.
    check(here >= 0 || there < 0 || file.empty(), "the run has a place for every moment of the checkpoint");
    if (here >= 0) from_[static_cast<std::size_t>(here)] = there;
  }
}

void MomentRows::read(const TensorSource& file, const TensorEntry& entry, std::uint64_t first,
                      std::span<std::byte> bytes) const {
  const std::uint64_t width = static_cast<std::uint64_t>(entry.type.shape.elements() / rows_in_file_);
  const std::size_t element_bytes = dtype_bytes(entry.type.dtype);
  while (!bytes.empty()) {
    const std::uint64_t column = first % width;
    const std::size_t count = std::min<std::uint64_t>(width - column, bytes.size() / element_bytes);
    const std::span<std::byte> part = bytes.first(count * element_bytes);
    const std::int32_t row = from_.at(first / width);
    if (row < 0) {
      std::fill(part.begin(), part.end(), std::byte{0});
    } else {
      file.read_elements(entry, static_cast<std::uint64_t>(row) * width + column, part);
    }
    first += count;
    bytes = bytes.subspan(part.size());
  }
}

std::vector<std::int32_t> slots_of(std::span<const std::int32_t> ids, std::int64_t rows) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(rows), -1);
  std::int32_t next = 0;
  for (const std::int32_t id : ids) slots.at(static_cast<std::size_t>(id)) = next++;
  return slots;
}

}  // namespace plimsoll
