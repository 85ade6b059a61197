#include "backend/cpu/blocked_product.h"

#include <algorithm>

#include "backend/cpu/parallel.h"
#include "backend/scratch.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/blocked_product.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_transpose-inl.h"

#ifndef PLIMSOLL_BACKEND_CPU_BLOCKED_PRODUCT_ONCE
#define PLIMSOLL_BACKEND_CPU_BLOCKED_PRODUCT_ONCE
namespace plimsoll {

// An operand, or a part of one, as lines (rows of a, columns of b) of `inner` elements. Panels are made of all but
// contiguous rows of a, which are copied.
struct PanelSource {
  const std::uint16_t* data;
  std::int64_t stride;  // elements between lines, or, if a line is not contiguous, between its elements
  bool contiguous;      // a line's elements are neighbours; otherwise the lines' first elements are
  bool in_pairs;        // becomes b's panels, see MicroKernel, not a's
  std::int64_t lines, inner;
};

inline constexpr std::int64_t kTileLines = 16;
inline constexpr std::int64_t kTileElements = kTileLines * kPanelStep;
inline constexpr std::int64_t kTiles = kPanelWidth / kTileLines;  // of a panel's step

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// For 16 pairs p and two tiles of 16 lines j: to[p][j] of each = the pair (from[2 p][j], from[2 p + 1][j]).
HWY_INLINE void interleave(const std::uint16_t* from, std::int64_t stride, std::uint16_t* to) {
  const hn::CappedTag<std::uint32_t, kTileLines> d;
  const hn::Rebind<std::uint16_t, decltype(d)> halves;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t p = 0; p < kPanelStep / 2; ++p, from += 2 * stride, to += 2 * kTileLines) {
    for (std::int64_t j = 0; j < kTiles * kTileLines; j += lanes) {
      const auto even = hn::PromoteTo(d, hn::LoadU(halves, from + j));
      const auto odd = hn::PromoteTo(d, hn::LoadU(halves, from + stride + j));
      hn::StoreU(hn::Or(even, hn::ShiftLeft<16>(odd)), d,
                 reinterpret_cast<std::uint32_t*>(to + j / kTileLines * kTileElements + j % kTileLines * 2));
    }
  }
}

// Packs a whole step, whose first element is at `from`. A cache line may hold elements of two tiles, and rows whose
// distance is a large power of two soon leave the first cache again, so both tiles are read together.
HWY_INLINE void pack_whole_step(const std::uint16_t* from, std::int64_t stride, const PanelSource& source,
                                std::uint16_t* to, std::int64_t to_stride) {
  if (!source.contiguous && source.in_pairs) {
    interleave(from, stride, to);
    return;
  }
  alignas(64) std::uint16_t pairs[kTiles * kTileElements];
  if (!source.contiguous) interleave(from, stride, pairs);
  for (std::int64_t tile = 0; tile < kTiles; ++tile) {
    const std::uint16_t* const lines =
        source.contiguous ? from + tile * kTileLines * stride : pairs + tile * kTileElements;
    // Pairs are moved like floats.
    transpose_sixteen(reinterpret_cast<const float*>(lines), source.contiguous ? stride / 2 : kTileLines,
                      reinterpret_cast<float*>(to + tile * (source.in_pairs ? kTileElements : kTileLines * to_stride)),
                      source.in_pairs ? kTileLines : to_stride / 2);
  }
}

// Packs one step of a panel into `to`. Rows of a panel of a are `to_stride` elements apart.
void pack_step(const PanelSource& source, std::int64_t panel, std::int64_t step, std::uint16_t* to,
               std::int64_t to_stride) {
  const bool splits_pairs = source.contiguous && source.stride % 2 != 0;
  const std::int64_t line = panel * kPanelWidth, lines = std::min(source.lines - line, kPanelWidth);
  const std::int64_t k = step * kPanelStep, inner = std::min(source.inner - k, kPanelStep);
  const std::int64_t line_stride = source.contiguous ? source.stride : 1;
  const std::int64_t inner_stride = source.contiguous ? 1 : source.stride;
  const std::uint16_t* const from = source.data + line * line_stride + k * inner_stride;
  if (lines == kPanelWidth && inner == kPanelStep && !splits_pairs) {
    pack_whole_step(from, source.stride, source, to, to_stride);
    return;
  }
  alignas(64) std::uint16_t edge[kPanelStepElements] = {};
  const std::int64_t edge_stride = source.contiguous ? kPanelStep : kPanelWidth;
  for (std::int64_t i = 0; i < lines; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      edge[source.contiguous ? i * edge_stride + j : j * edge_stride + i] = from[i * line_stride + j * inner_stride];
    }
  }
  pack_whole_step(edge, edge_stride, source, to, to_stride);
}

// Copies `lines` contiguous lines of `inner` elements, each padded with zeros to whole steps.
void copy_lines(const std::uint16_t* from, std::int64_t stride, std::int64_t lines, std::int64_t inner,
                std::uint16_t* to, std::int64_t to_stride) {
  const hn::CappedTag<std::uint16_t, kPanelStep> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = inner / lanes * lanes, padded_inner = (inner + kPanelStep - 1) / kPanelStep * kPanelStep;
  for (std::int64_t i = 0; i < lines; ++i, from += stride, to += to_stride) {
    for (std::int64_t k = 0; k < whole; k += lanes) hn::StoreU(hn::LoadU(d, from + k), d, to + k);
    std::fill(std::copy(from + whole, from + inner, to + whole), to + padded_inner, std::uint16_t{0});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(copy_lines);
HWY_EXPORT(pack_step);

namespace {

std::int64_t over(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit; }
std::int64_t padded(std::int64_t count, std::int64_t unit) { return over(count, unit) * unit; }

struct Range {
  std::int64_t size() const { return end - begin; }
  std::int64_t begin, end;
};

// Returns part `index` of `parts` nearly equal ones of [0, count), in units of `unit` elements.
Range part_range(std::int64_t count, std::int64_t unit, std::int64_t parts, std::int64_t index) {
  const std::int64_t units = over(count, unit);
  return {units * index / parts * unit, std::min(count, units * (index + 1) / parts * unit)};
}

// Returns the columns of a block that is `inner` elements deep.
std::int64_t block_columns(const Blocking& blocking, std::int64_t inner) {
  return std::min(blocking.columns, std::max(kPanelWidth, blocking.block / inner / kPanelWidth * kPanelWidth));
}

// Says into how many blocks c is divided: a multiple of the threads, or many.
struct Grid {
  Grid(std::int64_t row_panels, std::int64_t column_panels, std::int64_t most_rows, std::int64_t most_columns,
       std::int64_t threads)
      : rows(over(row_panels * kPanelWidth, most_rows)), columns(over(column_panels * kPanelWidth, most_columns)) {
    constexpr std::int64_t kMany = 4;
    while (rows * columns % threads != 0 && rows * columns < kMany * threads) {
      const std::int64_t row_size = row_panels / rows, column_size = column_panels / columns;
      if (std::max(row_size, column_size) < 2) return;
      ++(row_size >= column_size ? rows : columns);
    }
  }
  std::int64_t rows, columns;
};

// Packs all panels of b, in the order in which the matrix lies in memory.
void pack(const PanelSource& source, std::uint16_t* to) {
  const auto pack_one = HWY_DYNAMIC_DISPATCH(pack_step);
  const std::int64_t panels = over(source.lines, kPanelWidth), steps = over(source.inner, kPanelStep);
  const Range all_panels{0, panels}, all_steps{0, steps};
  parallel_for(source.contiguous ? panels : steps, 1, [&](std::int64_t begin, std::int64_t end) {
    const Range outer{begin, end}, &inner = source.contiguous ? all_steps : all_panels;
    for (std::int64_t i = outer.begin; i < outer.end; ++i) {
      for (std::int64_t j = inner.begin; j < inner.end; ++j) {
        const std::int64_t panel = source.contiguous ? i : j, step = source.contiguous ? j : i;
        pack_one(source, panel, step, to + (panel * steps + step) * kPanelStepElements, 0);
      }
    }
  });
}

// Returns the lines of `range` and inner elements of `inner`, of an operand with `lines` lines.
PanelSource part_of(const void* data, bool contiguous, bool in_pairs, std::int64_t lines, std::int64_t all_inner,
                    const Range& range, const Range& inner) {
  const std::int64_t stride = contiguous ? all_inner : lines;
  const std::int64_t first = contiguous ? range.begin * stride + inner.begin : inner.begin * stride + range.begin;
  return {static_cast<const std::uint16_t*>(data) + first, stride, contiguous, in_pairs, range.size(), inner.size()};
}

// The packed columns of b, and what all threads do with them.
struct Work {
  const MatmulShape& shape;  // of the whole product
  PanelSource a;             // all rows, and the inner elements that b was packed with
  const std::uint16_t* packed_b;
  Range columns;  // of c
  bool is_first;  // of the parts of the inner dimension
  const float* bias;
  void* c;
  std::int64_t row_panels, column_panels, steps, step_parts;
  Grid grid;
};

// Returns how many panels of a are packed at once. Rows that have to be transposed lie side by side in memory's lines,
// which processors fetch in pairs.
std::int64_t panels_of_a(bool contiguous) { return contiguous ? 1 : 2; }

// A thread's blocks of c.
class Multiplier {
 public:
  struct Room {
    std::uint16_t* panels;  // panels_of_a()
    std::int64_t panel_stride;
    float* sums;  // a micro-block, and then, between the parts of the inner dimension, the sums of a block of c
  };

  Multiplier(const MicroKernel& kernel, const Work& work, const Room& room)
      : kernel_(kernel), work_(work), room_(room) {}

  // Multiplies the blocks [begin, end) of the grid. Neighbours share their columns.
  void run(std::int64_t begin, std::int64_t end) {
    kernel_.begin();
    for (Place place{begin, 0, rows_of(begin).begin}; place.item < end;) {
      const std::int64_t panels = group_size(place);
      const Place next = after(place);
      pack_group(place, panels);
      multiply(place, panels, next.item < end && work_.a.contiguous ? rows_at(next) : NextLines{});
      place = next;
    }
    store_simply(finished_);
    kernel_.end();
  }

 private:
  // The first panel of a that is packed next, or a part of it, and the block of c that it is multiplied for: block
  // after block, and in each all rows before the next part.
  struct Place {
    std::int64_t item, step_part, row;
  };

  std::int64_t group_size(const Place& place) const {
    return std::min(panels_of_a(work_.a.contiguous), rows_of(place.item).end - place.row);
  }
  Place after(Place place) const {
    const Range rows = rows_of(place.item);
    if ((place.row += group_size(place)) < rows.end) return place;
    if (++place.step_part < work_.step_parts) return {place.item, place.step_part, rows.begin};
    return {place.item + 1, 0, rows_of(place.item + 1).begin};
  }
  Range rows_of(std::int64_t item) const {
    return part_range(work_.row_panels, 1, work_.grid.rows, item % work_.grid.rows);
  }
  Range columns_of(std::int64_t item) const {
    return part_range(work_.column_panels, 1, work_.grid.columns, item / work_.grid.rows);
  }
  Range steps_of(const Place& place) const { return part_range(work_.steps, 1, work_.step_parts, place.step_part); }
  Range inner_of(const Place& place) const {
    const Range steps = steps_of(place);
    return {steps.begin * kPanelStep, std::min(work_.a.inner, steps.end * kPanelStep)};
  }
  std::int64_t real_rows(std::int64_t row) const { return std::min(kPanelWidth, work_.a.lines - row * kPanelWidth); }
  std::uint16_t* panel(std::int64_t which) const { return room_.panels + which * kPanelWidth * room_.panel_stride; }

  // Returns the rows that are copied into a panel.
  NextLines rows_at(const Place& place) const {
    const Range inner = inner_of(place);
    const std::int64_t stride = work_.a.stride;
    return {.from = reinterpret_cast<const std::byte*>(work_.a.data + place.row * kPanelWidth * stride + inner.begin),
            .row_bytes = stride * 2,
            .rows = real_rows(place.row),
            .row_lines = over(inner.size(), kPanelStep)};
  }

  // Rows of a panel beyond the matrix's last one stay as they are, because their sums are not stored.
  void pack_group(const Place& place, std::int64_t panels) const {
    if (work_.a.contiguous) {
      const Range inner = inner_of(place);
      HWY_DYNAMIC_DISPATCH(copy_lines)
      (work_.a.data + place.row * kPanelWidth * work_.a.stride + inner.begin, work_.a.stride, real_rows(place.row),
       inner.size(), panel(0), room_.panel_stride);
      return;
    }
    const auto pack_one = HWY_DYNAMIC_DISPATCH(pack_step);
    const Range steps = steps_of(place);
    for (std::int64_t step = steps.begin; step < steps.end; ++step) {
      for (std::int64_t i = 0; i < panels; ++i) {
        pack_one(work_.a, place.row + i, step, panel(i) + (step - steps.begin) * kPanelStep, room_.panel_stride);
      }
    }
  }

  // Multiplies a group of panels by the block's columns, and has the rows that are copied next fetched, a share with
  // each micro-block.
  void multiply(const Place& place, std::int64_t panels, NextLines next) {
    const Range steps = steps_of(place), columns = columns_of(place.item);
    const std::int64_t share = over(next.rows, panels * columns.size());
    std::int64_t left = next.rows;
    for (std::int64_t i = 0; i < panels; ++i) {
      for (std::int64_t j = 0; j < columns.size(); ++j) {
        const std::uint16_t* const b =
            work_.packed_b + ((columns.begin + j) * work_.steps + steps.begin) * kPanelStepElements;
        next.rows = std::min(share, left);
        kernel_.multiply(panel(i), room_.panel_stride, b, steps.size(), room_.sums, {.next = next, .store = finished_});
        finished_ = finish(place, place.row + i, j);
        next.from += next.rows * next.row_bytes;
        left -= next.rows;
      }
    }
  }

  // Says what becomes of a micro-block: between the parts of the inner dimension its sums are kept.
  BlockStore finish(const Place& place, std::int64_t row_panel, std::int64_t column) const {
    const Range columns = columns_of(place.item);
    BlockStore store = store_of(row_panel, columns.begin + column);
    if (work_.step_parts == 1) return store;
    const std::int64_t in_block = (row_panel - rows_of(place.item).begin) * columns.size() + column;
    float* const kept = room_.sums + kMicroBlock * (1 + in_block);
    if (place.step_part + 1 < work_.step_parts) return keep_at(kept, place.step_part > 0);
    store.plus = kept;
    return store;
  }

  BlockStore keep_at(float* kept, bool adds) const {
    return {.from = room_.sums,
            .to = kept,
            .row_bytes = kPanelWidth * static_cast<std::int64_t>(sizeof(float)),
            .rows = kPanelWidth,
            .columns = kPanelWidth,
            .adds = adds,
            .is_read_soon = true};
  }

  BlockStore store_of(std::int64_t row_panel, std::int64_t column_panel) const {
    const MatmulShape& shape = work_.shape;
    const std::int64_t row = row_panel * kPanelWidth, column = work_.columns.begin + column_panel * kPanelWidth;
    const std::int64_t row_stride = shape.row_stride == 0 ? shape.columns : shape.row_stride;
    return {.from = room_.sums,
            .to = static_cast<std::byte*>(work_.c) + bytes_of(shape.result, row * row_stride + column),
            .bias = shape.bias && work_.is_first ? work_.bias + column : nullptr,
            .row_bytes = static_cast<std::int64_t>(bytes_of(shape.result, row_stride)),
            .rows = real_rows(row_panel),
            .columns = std::min(kPanelWidth, work_.columns.end - column),
            .in_halves = shape.result == DType::kBF16,
            .adds = shape.accumulate || !work_.is_first};
  }

  const MicroKernel& kernel_;
  const Work& work_;
  Room room_;
  BlockStore finished_;  // is stored while the next micro-block is multiplied
};

}  // namespace

BlockedProduct::BlockedProduct(const MicroKernel& kernel, const MatmulShape& largest, int threads)
    : BlockedProduct(kernel, largest, threads, kernel.blocking) {}

BlockedProduct::BlockedProduct(const MicroKernel& kernel, const MatmulShape& largest, int threads,
                               const Blocking& blocking)
    : kernel_(kernel), largest_(largest), blocking_(blocking), threads_(threads) {
  check(largest.operands == DType::kBF16, "blocked products have operands of bfloat16");
  check(blocking.part <= blocking.inner, "a panel has room for a part");
  const std::int64_t inner = padded(packed_inner(largest), kPanelStep);
  const bool keeps_blocks = inner > blocking_.inner;  // of c, between the parts of the inner dimension
  // With many threads, each gets a smaller part of c.
  constexpr std::int64_t kMostBlocks = 4 << 20;  // floats of all threads
  while (keeps_blocks && threads * blocking_.rows * blocking_.columns > kMostBlocks) {
    std::int64_t& larger = blocking_.rows > blocking_.columns ? blocking_.rows : blocking_.columns;
    if (larger < 4 * kPanelWidth) break;
    larger = padded(larger / 2, kPanelWidth);
  }
  const std::int64_t all_columns = padded(largest.columns, kPanelWidth);
  // Another line, so that rows whose distance would be a power of two do not meet in the same sets of the first cache.
  panel_stride_ = std::min(inner, blocking_.inner) + kPanelStep;
  const std::int64_t block =
      std::min(blocking_.rows, padded(largest.rows, kPanelWidth)) * std::min(blocking_.columns, all_columns);
  block_floats_ = kMicroBlock + (keeps_blocks ? block : 0);
  const std::size_t most_packed = std::max(bytes_of(DType::kBF16, kPanelWidth * inner), blocking_.packed_bytes);
  ScratchLayout layout;
  b_at_ = layout.add_bytes(std::min(most_packed, bytes_of(DType::kBF16, all_columns * inner)));
  a_at_ = layout.add<std::uint16_t>(threads * panels_of_a(!largest.transposed_a) * kPanelWidth * panel_stride_);
  c_at_ = layout.add<float>(threads * block_floats_);
  scratch_bytes_ = layout.bytes();
}

// Returns how many columns are packed at a time.
std::int64_t BlockedProduct::packed_columns(const MatmulShape& shape) const {
  const std::size_t column_bytes = bytes_of(DType::kBF16, padded(packed_inner(shape), kPanelStep));
  const auto most = static_cast<std::int64_t>(blocking_.packed_bytes / column_bytes);
  return std::min(shape.columns, std::max(kPanelWidth, most / kPanelWidth * kPanelWidth));
}

// A sum that is stored in halves must not be added to later.
std::int64_t BlockedProduct::packed_inner(const MatmulShape& shape) const {
  return shape.result == DType::kF32 ? std::min(shape.inner, blocking_.packed_inner) : shape.inner;
}

void BlockedProduct::run(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c,
                         std::byte* scratch) const {
  check(shape.result == DType::kF32 || !shape.accumulate, "a blocked product adds to sums of F32 only");
  check(omp_get_max_threads() <= threads_, "each thread has a block of its own in scratch");
  check(shape.rows > 0 && shape.columns > 0 && shape.inner > 0 && shape.rows <= largest_.rows &&
            shape.columns <= largest_.columns && shape.inner <= largest_.inner && shape.result == largest_.result &&
            (largest_.transposed_a || !shape.transposed_a) && !shape.packed_b,
        "a product is one of those for which scratch was laid out");
  const std::int64_t most_inner = packed_inner(shape);
  const std::int64_t column_parts = over(shape.columns, packed_columns(shape));
  auto* const packed_b = reinterpret_cast<std::uint16_t*>(scratch + b_at_);
  for (std::int64_t column_part = 0; column_part < column_parts; ++column_part) {
    const Range columns = part_range(shape.columns, kPanelWidth, column_parts, column_part);
    for (std::int64_t begin = 0; begin < shape.inner; begin += most_inner) {
      const Range inner{begin, std::min(shape.inner, begin + most_inner)};
      pack(part_of(b, shape.transposed_b, true, shape.columns, shape.inner, columns, inner), packed_b);
      const std::int64_t row_panels = over(shape.rows, kPanelWidth), column_panels = over(columns.size(), kPanelWidth);
      const std::int64_t steps = over(inner.size(), kPanelStep);
      const bool is_one_part = steps * kPanelStep <= blocking_.inner;
      const std::int64_t block_inner = is_one_part ? steps * kPanelStep : blocking_.part;
      const Work work{
          .shape = shape,
          .a = part_of(a, !shape.transposed_a, false, shape.rows, shape.inner, {0, shape.rows}, inner),
          .packed_b = packed_b,
          .columns = columns,
          .is_first = begin == 0,
          .bias = bias,
          .c = c,
          .row_panels = row_panels,
          .column_panels = column_panels,
          .steps = steps,
          .step_parts = over(steps, block_inner / kPanelStep),
          .grid = Grid(row_panels, column_panels, blocking_.rows, block_columns(blocking_, block_inner), threads_)};
      parallel_for(work.grid.rows * work.grid.columns, 1, [&](std::int64_t first, std::int64_t end) {
        const std::int64_t thread = omp_get_thread_num();
        const Multiplier::Room room{
            .panels = reinterpret_cast<std::uint16_t*>(scratch + a_at_) +
                      thread * panels_of_a(!largest_.transposed_a) * kPanelWidth * panel_stride_,
            .panel_stride = panel_stride_,
            .sums = reinterpret_cast<float*>(scratch + c_at_) + thread * block_floats_};
        Multiplier(kernel_, work, room).run(first, end);
      });
    }
  }
}

}  // namespace plimsoll
#endif  // HWY_ONCE
