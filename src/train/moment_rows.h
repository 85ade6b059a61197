// MomentRows: which row of a table each row of its moments belongs to, in a checkpoint and in memory, where only some
// rows have moments (ModelOptions::word_rows). A checkpoint says so in "<table>.slots", i32[R]: each row's place among
// the moments, or -1. A run that resumes with other data, or with all rows, keeps those rows apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/tensor_source.h"

namespace plimsoll {

inline constexpr std::string_view kSlotsSuffix = ".slots";

class MomentRows {
 public:
  // For each row of the table, its row among the moments, or -1; empty: every row has its own, in order. One of them
  // is not empty.
  MomentRows(std::span<const std::int32_t> file, std::span<const std::int32_t> memory);

  std::int64_t rows_in_file() const { return rows_in_file_; }
  std::int64_t rows_in_memory() const { return static_cast<std::int64_t>(from_.size()); }

  // Fills `bytes`, which are the moments' elements from `first` on, in memory's order. A row that the file lacks is 0.
  // Precondition: the entry has whole rows.
  void read(const TensorSource& file, const TensorEntry& entry, std::uint64_t first, std::span<std::byte> bytes) const;

 private:
  std::int64_t rows_in_file_ = 0;
  std::vector<std::int32_t> from_;  // the file's row for each of memory's; -1: none
};

// Returns the slot of each of `rows` rows if those of `ids`, ascending, have moments: 0 for the first of them.
std::vector<std::int32_t> slots_of(std::span<const std::int32_t> ids, std::int64_t rows);

}  // namespace plimsoll
