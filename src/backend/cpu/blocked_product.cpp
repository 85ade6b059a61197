#include "backend/cpu/blocked_product.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/parallel.h"
#include "backend/scratch.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/blocked_product.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_transpose-inl.h"

#ifndef PLIMSOLL_BACKEND_CPU_BLOCKED_PRODUCT_ONCE
#define PLIMSOLL_BACKEND_CPU_BLOCKED_PRODUCT_ONCE
namespace plimsoll {

// An operand, or a part of one, as lines (rows of a, columns of b) of `inner` elements.
struct PanelSource {
  const std::uint16_t* data;
  std::int64_t stride;  // elements between lines, or, if a line is not contiguous, between its elements
  bool contiguous;      // a line's elements are neighbours; otherwise the lines' first elements are
  bool in_pairs;        // the layout of b's panels, see MicroKernel
  std::int64_t lines, inner;
};

// Says where a block of c goes.
struct BlockTarget {
  void* c;  // its first element
  std::int64_t row_stride;
  DType dtype;
  bool adds;                           // adds to c's old content
  const float* bias;                   // for the block's first column, or nullptr
  std::int64_t rows, columns, panels;  // panels: of columns, in a row of micro-blocks
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
  const hn::FixedTag<std::uint16_t, 8> d;
  for (std::int64_t p = 0; p < kPanelStep / 2; ++p, from += 2 * stride, to += 2 * kTileLines) {
    for (std::int64_t j = 0; j < kTiles * kTileLines; j += 8) {
      hn::StoreInterleaved2(hn::LoadU(d, from + j), hn::LoadU(d, from + stride + j), d,
                            to + j / kTileLines * kTileElements + j % kTileLines * 2);
    }
  }
}

// Transposes 16 x 16 pairs, which are moved like floats.
HWY_INLINE void transpose_pairs(const std::uint16_t* from, std::int64_t stride, std::uint16_t* to) {
  simd_transpose(reinterpret_cast<const float*>(from), stride / 2, kTileLines, kTileLines, reinterpret_cast<float*>(to),
                 kTileLines);
}

// Packs a whole step, whose first element is at `from`. A cache line may hold elements of two tiles, and rows whose
// distance is a large power of two soon leave the first cache again, so both tiles are read together.
HWY_INLINE void pack_whole_step(const std::uint16_t* from, std::int64_t stride, bool contiguous, bool in_pairs,
                                std::uint16_t* to) {
  if (!contiguous && in_pairs) {
    interleave(from, stride, to);
    return;
  }
  alignas(64) std::uint16_t pairs[kTiles * kTileElements];
  if (!contiguous) interleave(from, stride, pairs);
  for (std::int64_t tile = 0; tile < kTiles; ++tile, to += kTileElements) {
    if (!contiguous) {
      transpose_pairs(pairs + tile * kTileElements, 2 * kTileLines, to);
      continue;
    }
    const std::uint16_t* const lines = from + tile * kTileLines * stride;
    if (in_pairs) {
      transpose_pairs(lines, stride, to);
      continue;
    }
    for (std::int64_t i = 0; i < kTileLines; ++i) {
      std::memcpy(to + i * kPanelStep, lines + i * stride, kPanelStep * sizeof *to);
    }
  }
}

// Packs one step of a panel into `to`.
HWY_INLINE void pack_step(const PanelSource& source, std::int64_t panel, std::int64_t step, std::uint16_t* to) {
  const bool splits_pairs = source.contiguous && source.in_pairs && source.stride % 2 != 0;
  const std::int64_t line = panel * kPanelWidth, lines = std::min(source.lines - line, kPanelWidth);
  const std::int64_t k = step * kPanelStep, inner = std::min(source.inner - k, kPanelStep);
  const std::int64_t line_stride = source.contiguous ? source.stride : 1;
  const std::int64_t inner_stride = source.contiguous ? 1 : source.stride;
  const std::uint16_t* const from = source.data + line * line_stride + k * inner_stride;
  if (lines == kPanelWidth && inner == kPanelStep && !splits_pairs) {
    pack_whole_step(from, source.stride, source.contiguous, source.in_pairs, to);
    return;
  }
  alignas(64) std::uint16_t edge[kPanelStepElements] = {};
  const std::int64_t edge_stride = source.contiguous ? kPanelStep : kPanelWidth;
  for (std::int64_t i = 0; i < lines; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      edge[source.contiguous ? i * edge_stride + j : j * edge_stride + i] = from[i * line_stride + j * inner_stride];
    }
  }
  pack_whole_step(edge, edge_stride, source.contiguous, source.in_pairs, to);
}

// Packs the panels [begin, end) into `to`, where panel 0 begins.
void pack_panels(const PanelSource& source, std::int64_t begin, std::int64_t end, std::uint16_t* to) {
  const std::int64_t steps = (source.inner + kPanelStep - 1) / kPanelStep;
  for (std::int64_t panel = begin; panel < end; ++panel) {
    for (std::int64_t step = 0; step < steps; ++step) {
      pack_step(source, panel, step, to + (panel * steps + step) * kPanelStepElements);
    }
  }
}

// Stores `width` neighbours of a row of c.
template <class T>
HWY_INLINE void store_part(const float* from, const BlockTarget& target, const float* bias, std::int64_t width, T* to) {
  const hn::CappedTag<float, kTileLines> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t j = 0;
  for (; j + lanes <= width; j += lanes) {
    auto value = hn::LoadU(d, from + j);
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + j));
    if (target.adds) value = hn::Add(value, load_floats(d, to + j));
    store_floats(value, d, to + j);
  }
  for (; j < width; ++j) {
    float value = from[j];
    if (bias != nullptr) value += bias[j];
    if (target.adds) value += load_float(to + j);
    store_float(value, to + j);
  }
}

// Stores a block of c, which is made of micro-blocks.
void store_block(const float* block, const BlockTarget& target) {
  for_element_type(target.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::int64_t i = 0; i < target.rows; ++i) {
      T* const to = static_cast<T*>(target.c) + i * target.row_stride;
      const float* from = block + i / kPanelWidth * target.panels * kMicroBlock + i % kPanelWidth * kPanelWidth;
      for (std::int64_t j = 0; j < target.columns; j += kPanelWidth, from += kMicroBlock) {
        store_part(from, target, target.bias == nullptr ? nullptr : target.bias + j,
                   std::min(kPanelWidth, target.columns - j), to + j);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(pack_panels);
HWY_EXPORT(store_block);

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

// Says into how many blocks c is divided: a multiple of the threads, or many.
struct Grid {
  Grid(std::int64_t row_panels, std::int64_t column_panels, const Blocking& blocking, std::int64_t threads)
      : rows(over(row_panels * kPanelWidth, blocking.rows)),
        columns(over(column_panels * kPanelWidth, blocking.columns)) {
    constexpr std::int64_t kMany = 4;
    while (rows * columns % threads != 0 && rows * columns < kMany * threads) {
      const std::int64_t row_size = row_panels / rows, column_size = column_panels / columns;
      if (std::max(row_size, column_size) < 2) return;
      ++(row_size >= column_size ? rows : columns);
    }
  }
  std::int64_t rows, columns;
};

void pack(const PanelSource& source, std::uint16_t* to) {
  const auto pack_some = HWY_DYNAMIC_DISPATCH(pack_panels);
  parallel_for(over(source.lines, kPanelWidth), 1,
               [&](std::int64_t begin, std::int64_t end) { pack_some(source, begin, end, to); });
}

// Returns the lines of `range` and inner elements of `inner`, of an operand with `lines` lines.
PanelSource part_of(const void* data, bool contiguous, bool in_pairs, std::int64_t lines, std::int64_t all_inner,
                    const Range& range, const Range& inner) {
  const std::int64_t stride = contiguous ? all_inner : lines;
  const std::int64_t first = contiguous ? range.begin * stride + inner.begin : inner.begin * stride + range.begin;
  return {static_cast<const std::uint16_t*>(data) + first, stride, contiguous, in_pairs, range.size(), inner.size()};
}

}  // namespace

struct BlockedProduct::Part {
  const MatmulShape& shape;  // of the whole product
  Range rows, columns, inner;
};

BlockedProduct::BlockedProduct(const MicroKernel& kernel, const MatmulShape& largest, int threads)
    : BlockedProduct(kernel, largest, threads, kernel.blocking) {}

BlockedProduct::BlockedProduct(const MicroKernel& kernel, const MatmulShape& largest, int threads,
                               const Blocking& blocking)
    : kernel_(kernel), largest_(largest), blocking_(blocking), threads_(threads) {
  check(largest.operands == DType::kBF16, "blocked products have operands of bfloat16");
  // With many threads, each gets a smaller part of c.
  constexpr std::int64_t kMostBlocks = 4 << 20;  // floats of all threads
  while (threads * blocking_.rows * blocking_.columns > kMostBlocks) {
    std::int64_t& larger = blocking_.rows > blocking_.columns ? blocking_.rows : blocking_.columns;
    if (larger < 4 * kPanelWidth) break;
    larger = padded(larger / 2, kPanelWidth);
  }
  const std::int64_t inner = padded(packed_inner(largest), kPanelStep);
  const auto packed_bytes = [&](std::int64_t lines, std::int64_t block) {
    const std::size_t most = std::max(bytes_of(DType::kBF16, block * inner), blocking_.packed_bytes);
    return std::min(most, bytes_of(DType::kBF16, padded(lines, kPanelWidth) * inner));
  };
  ScratchLayout layout;
  a_at_ = layout.add_bytes(packed_bytes(largest.rows, blocking_.rows));
  b_at_ = layout.add_bytes(packed_bytes(largest.columns, blocking_.columns));
  block_floats_ = std::min(blocking_.rows, padded(largest.rows, kPanelWidth)) *
                  std::min(blocking_.columns, padded(largest.columns, kPanelWidth));
  c_at_ = layout.add<float>(threads * block_floats_);
  scratch_bytes_ = layout.bytes();
}

// Returns how many lines are packed at a time.
std::int64_t BlockedProduct::packed_lines(std::int64_t lines, std::int64_t inner, std::int64_t block) const {
  const std::size_t line_bytes = bytes_of(DType::kBF16, padded(inner, kPanelStep));
  const auto most = static_cast<std::int64_t>(blocking_.packed_bytes / line_bytes);
  return std::min(lines, std::max(block, most / kPanelWidth * kPanelWidth));
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
            !shape.packed_b,
        "a product is one of those for which scratch was laid out");
  const std::int64_t most_inner = packed_inner(shape), inner_parts = over(shape.inner, most_inner);
  const std::int64_t column_parts = over(shape.columns, packed_lines(shape.columns, most_inner, blocking_.columns));
  const std::int64_t row_parts = over(shape.rows, packed_lines(shape.rows, most_inner, blocking_.rows));
  auto* const packed_a = reinterpret_cast<std::uint16_t*>(scratch + a_at_);
  auto* const packed_b = reinterpret_cast<std::uint16_t*>(scratch + b_at_);
  for (std::int64_t column_part = 0; column_part < column_parts; ++column_part) {
    const Range columns = part_range(shape.columns, kPanelWidth, column_parts, column_part);
    for (std::int64_t begin = 0; begin < shape.inner; begin += most_inner) {
      const Range inner{begin, std::min(shape.inner, begin + most_inner)};
      pack(part_of(b, shape.transposed_b, true, shape.columns, shape.inner, columns, inner), packed_b);
      for (std::int64_t row_part = 0; row_part < row_parts; ++row_part) {
        const Range rows = part_range(shape.rows, kPanelWidth, row_parts, row_part);
        const bool is_packed = column_part > 0 && row_parts * inner_parts == 1;
        if (!is_packed) pack(part_of(a, !shape.transposed_a, false, shape.rows, shape.inner, rows, inner), packed_a);
        multiply({shape, rows, columns, inner}, bias, c, scratch);
      }
    }
  }
}

// Multiplies the packed operands.
void BlockedProduct::multiply(const Part& part, const float* bias, void* c, std::byte* scratch) const {
  const auto* const packed_a = reinterpret_cast<const std::uint16_t*>(scratch + a_at_);
  const auto* const packed_b = reinterpret_cast<const std::uint16_t*>(scratch + b_at_);
  const MatmulShape& shape = part.shape;
  const std::int64_t row_panels = over(part.rows.size(), kPanelWidth);
  const std::int64_t column_panels = over(part.columns.size(), kPanelWidth);
  const std::int64_t steps = over(part.inner.size(), kPanelStep), block_steps = blocking_.inner / kPanelStep;
  const std::int64_t row_stride = shape.row_stride == 0 ? shape.columns : shape.row_stride;
  const Grid grid(row_panels, column_panels, blocking_, threads_);
  const auto store = HWY_DYNAMIC_DISPATCH(store_block);
  parallel_for(grid.rows * grid.columns, 1, [&](std::int64_t begin, std::int64_t end) {
    float* const block = reinterpret_cast<float*>(scratch + c_at_) + omp_get_thread_num() * block_floats_;
    for (std::int64_t item = begin; item < end; ++item) {  // the blocks of a thread share their columns
      const Range rows = part_range(row_panels, 1, grid.rows, item % grid.rows);
      const Range columns = part_range(column_panels, 1, grid.columns, item / grid.rows);
      kernel_.begin();
      for (std::int64_t step = 0; step < steps; step += block_steps) {
        const std::int64_t count = std::min(block_steps, steps - step);
        for (std::int64_t first = rows.begin; first < rows.end; first += blocking_.together) {
          const std::int64_t last = std::min(rows.end, first + blocking_.together);
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            const std::uint16_t* const b = packed_b + (j * steps + step) * kPanelStepElements;
            for (std::int64_t i = first; i < last; ++i) {
              const std::int64_t micro_block = (i - rows.begin) * columns.size() + j - columns.begin;
              kernel_.multiply(packed_a + (i * steps + step) * kPanelStepElements, b, count,
                               block + micro_block * kMicroBlock, step > 0);
            }
          }
        }
      }
      kernel_.end();
      const std::int64_t row = part.rows.begin + rows.begin * kPanelWidth;
      const std::int64_t column = part.columns.begin + columns.begin * kPanelWidth;
      const bool is_first = part.inner.begin == 0;
      store(block, {.c = static_cast<std::byte*>(c) + bytes_of(shape.result, row * row_stride + column),
                    .row_stride = row_stride,
                    .dtype = shape.result,
                    .adds = shape.accumulate || !is_first,
                    .bias = shape.bias && is_first ? bias + column : nullptr,
                    .rows = std::min(part.rows.end - row, rows.size() * kPanelWidth),
                    .columns = std::min(part.columns.end - column, columns.size() * kPanelWidth),
                    .panels = columns.size()});
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
