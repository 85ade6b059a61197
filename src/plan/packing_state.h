// PackingState: a partial packing inside a fixed capacity, its consequences, and undo.
//
// Time is cut into sections: the moments whose set of living buffers is not a subset of a neighbouring moment's. No
// other moment can matter. A section is a column of `capacity` units (the greatest common divisor of all sizes); its
// living buffers are stacked in it without overlap, and a buffer has the same offset in all its sections:
//
//     capacity  ................    level   no buffer that is still to be placed starts lower in this section
//                spare  . [ C ]     spare   units above the level that no buffer needs: capacity - level - sizes,
//     level     --------+ [ C ]             every gap left open costs some; with none left there are no more gaps
//               [  A  ][B][ A']
//               section 0  1  2
//
// Three consequences of a placement are kept up to date; each can prove that nothing fits any more:
//   - the lowest place where each remaining buffer is free in all its sections, and so each section's level and spare,
//   - stacking a section's buffers, each no lower than its lowest place, must not rise above the capacity,
//   - where spare is short, a buffer's offset is the level plus sizes of some others plus at most the spare: offsets
//     that no such sum reaches in one of its sections are excluded (only where the capacity is few enough units).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/packing.h"

namespace plimsoll {

// A packing problem expressed in sections and units.
struct SectionedProblem {
  using Index = std::uint32_t;  // the index of a buffer, stored compactly

  // Throws InternalError if a buffer has no lifetime or no bytes.
  SectionedProblem(std::span<const Interval> intervals, std::size_t capacity_bytes);

  std::size_t unit_bytes = 1;
  std::int64_t capacity = 0;                // units
  std::vector<std::int64_t> size;           // of each buffer, units
  std::vector<std::size_t> first, last;     // the sections in which each buffer lives
  std::vector<std::vector<Index>> members;  // of each section, ascending

  std::size_t buffers() const { return size.size(); }
  std::size_t sections() const { return members.size(); }
  bool lives_in(std::size_t buffer, std::size_t section) const {
    return first[buffer] <= section && section <= last[buffer];
  }
  bool meet(std::size_t a, std::size_t b) const { return first[a] <= last[b] && first[b] <= last[a]; }
};

class PackingState {
 public:
  explicit PackingState(const SectionedProblem& problem);

  // Empties the packing. Returns false if even the empty one cannot be completed.
  bool reset();

  // Puts the buffer at its lowest offset. Returns false if the rest does not fit any more.
  bool place(std::size_t buffer);
  // Decides that no remaining buffer of the section starts at the section's level. Returns false as above.
  bool leave_gap(std::size_t section);

  // undo(mark()) reverts everything done since.
  std::size_t mark() const { return trail_.size(); }
  void undo(std::size_t mark);

  bool placed(std::size_t buffer) const { return placed_[buffer] != 0; }
  std::int64_t lowest(std::size_t buffer) const { return lowest_[buffer]; }  // its offset, once placed
  std::int64_t level(std::size_t section) const { return level_[section]; }
  std::int64_t spare(std::size_t section) const { return spare_[section]; }
  std::size_t remaining(std::size_t section) const { return remaining_[section]; }  // buffers still to be placed
  // The remaining buffers that live in this section and in the next one.
  std::size_t crossing(std::size_t section) const { return crossing_[section]; }
  // One plus how often the section was where a packing proved impossible. Undo and reset keep it.
  double blame(std::size_t section) const { return blame_[section]; }
  void swap_blame(std::vector<double>& blame) { blame_.swap(blame); }
  // The elementary steps since construction, which measure effort.
  std::int64_t work() const { return work_; }

 private:
  // One bit for each offset in units.
  static constexpr std::int64_t kGridUnits = 1024;
  using Offsets = std::array<std::uint64_t, kGridUnits / 64>;
  static void add_shifted(Offsets& offsets, std::int64_t by);
  static std::int64_t next_offset(const Offsets& offsets, std::int64_t from);  // kGridUnits: none

  enum class Kind : std::uint8_t { kLowest, kLevel, kStarters, kSpare, kPlaced };
  struct Change {
    Kind kind;
    std::size_t index;
    std::int64_t before;
  };

  void raise(std::size_t buffer, std::int64_t lowest);
  std::int64_t first_fit(std::size_t buffer, std::int64_t from);
  void touch(std::size_t section);
  void forget_touched();
  bool propagate();
  bool settle(std::size_t section);
  bool short_of_spare(std::size_t section) const;
  bool exclude_offsets(std::span<const std::size_t> sections);
  bool exclude_offsets_of(std::size_t buffer);
  const Offsets& offsets_in(std::size_t section);

  const SectionedProblem& problem_;
  const bool thorough_;  // check all sections of a buffer that has risen, not only those whose level rises
  std::vector<char> placed_;
  std::vector<std::int64_t> lowest_;
  std::vector<std::int64_t> level_, spare_, remaining_units_;
  std::vector<std::size_t> remaining_, crossing_;
  std::vector<std::int64_t> starters_;  // for each section: remaining buffers whose lowest offset is its level
  std::vector<std::vector<SectionedProblem::Index>> stacks_;  // for each section: placed buffers by offset
  std::vector<std::int64_t> top_;                             // for each section: the end of the placed buffers
  std::vector<double> blame_;
  std::vector<Change> trail_;
  std::int64_t work_ = 0;
  // The sections to check again.
  std::vector<std::size_t> touched_;
  std::vector<char> is_touched_;
  // Buffers of propagate(), kept between calls.
  std::vector<std::pair<std::int64_t, std::int64_t>> releases_;
  std::vector<Offsets> offsets_;
  std::vector<std::int64_t> offsets_round_, buffer_round_;
  std::int64_t round_ = 0;
};

}  // namespace plimsoll
