// Work on one tile of queries other than matrix products, compiled once for each Highway target: transposing the
// queries, adding the three biases of a key to all of the tile's queries, and choosing which probabilities dropout
// keeps.
//
// In a tile, queries lie along a vector's lanes (kAttentionQueryTile columns) and keys or features down the rows, so
// softmax's maxima and sums need no sum across lanes, and one Philox call draws the bits for eight neighbouring keys'
// rows.
#if defined(PLIMSOLL_BACKEND_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_ATTENTION_TILE_INL_H_
#undef PLIMSOLL_BACKEND_CPU_ATTENTION_TILE_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "backend/cpu/attention_scratch.h"
#include "base/dropout.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/simd_transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE std::int64_t vector_lanes() { return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

// Neighbouring queries of one sample.
struct QueryTile {
  std::int64_t sample;   // the sample's first row
  std::int64_t first;    // the tile's first row
  std::int64_t count;    // 1..kAttentionQueryTile
  std::int64_t columns;  // count rounded up to whole vectors of every machine; values from count on are unspecified
};

HWY_INLINE QueryTile query_tile(std::int64_t sample, std::int64_t first, std::int64_t end) {
  const std::int64_t count = std::min(end - first, kAttentionQueryTile);
  return {sample, first, count, (count + 15) / 16 * 16};
}

// One head's part of a sample's rows; row i starts at `data`[i * stride].
struct HeadRows {
  float* data;
  std::int64_t stride;
};

// Returns the address of element `head_column` of row `first` of a tensor [n, width].
HWY_INLINE const void* head_part(const AttentionRows& of, const void* tensor, std::int64_t first, std::int64_t head) {
  return static_cast<const std::byte*>(tensor) +
         static_cast<std::size_t>(first * of.width + head * of.head_size) * dtype_bytes(of.dtype);
}
HWY_INLINE void* head_part(const AttentionRows& of, void* tensor, std::int64_t first, std::int64_t head) {
  return const_cast<void*>(head_part(of, const_cast<const void*>(tensor), first, head));
}

// to[c] = factor * from[c]
template <class T>
HWY_INLINE void widen_row(const T* from, float factor, std::int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const auto factors = hn::Set(d, factor);
  std::int64_t c = 0;
  for (; c + vector_lanes() <= count; c += vector_lanes()) {
    hn::StoreU(hn::Mul(factors, load_floats(d, from + c)), d, to + c);
  }
  for (; c < count; ++c) to[c] = factor * load_float(from + c);
}

// rows[i, c] = factor * the head's part of row first + i, 0 for c from head_size to stride.
HWY_INLINE void load_rows(const AttentionRows& of, const void* tensor, std::int64_t head, std::int64_t first,
                          std::int64_t count, float factor, float* rows) {
  const std::int64_t stride = of.row_stride();
  for_element_type(of.dtype, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(head_part(of, tensor, first, head));
    for (std::int64_t i = 0; i < count; ++i, from += of.width, rows += stride) {
      widen_row(from, factor, of.head_size, rows);
      for (std::int64_t c = of.head_size; c < stride; ++c) rows[c] = 0;
    }
  });
}

// Returns the head's part of a sample's rows as floats: in place, or, for halves, copied to `scratch`.
HWY_INLINE HeadRows head_rows(const AttentionRows& of, const void* tensor, std::int64_t head, std::int64_t first,
                              std::int64_t count, float* scratch) {
  if (!is_half(of.dtype)) {
    return {static_cast<float*>(const_cast<void*>(head_part(of, tensor, first, head))), of.width};
  }
  load_rows(of, tensor, head, first, count, 1, scratch);
  return {scratch, of.row_stride()};
}

// Returns where the head's part of a gradient's rows is summed: in place, or, for halves, in `scratch`.
HWY_INLINE HeadRows head_sums(const AttentionRows& of, void* tensor, std::int64_t head, std::int64_t first,
                              float* scratch) {
  if (is_half(of.dtype)) return {scratch, of.row_stride()};
  return {static_cast<float*>(head_part(of, tensor, first, head)), of.width};
}
// Sets `count` rows of both to 0.
HWY_INLINE void clear_sums(const HeadRows& a, const HeadRows& b, std::int64_t count, std::int64_t columns) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::fill_n(a.data + i * a.stride, columns, 0.0F);
    std::fill_n(b.data + i * b.stride, columns, 0.0F);
  }
}
// Stores the sums of halves from scratch to the gradient.
HWY_INLINE void store_sums(const AttentionRows& of, const HeadRows& sums, std::int64_t head, std::int64_t first,
                           std::int64_t count, void* tensor) {
  if (!is_half(of.dtype)) return;
  const hn::ScalableTag<float> d;
  for_element_type(of.dtype, [&](auto element) {
    auto* to = static_cast<decltype(element)*>(head_part(of, tensor, first, head));
    for (std::int64_t i = 0; i < count; ++i, to += of.width) {
      const float* const from = sums.data + i * sums.stride;
      std::int64_t c = 0;
      for (; c + vector_lanes() <= of.head_size; c += vector_lanes()) {
        store_floats(hn::LoadU(d, from + c), d, to + c);
      }
      for (; c < of.head_size; ++c) store_float(from[c], to + c);
    }
  });
}

// Transposes: columns[c, i] = rows[i, c]; columns beyond the tile's count become 0.
HWY_INLINE void turn_rows(const QueryTile& tile, const float* rows, std::int64_t stride, std::int64_t head_size,
                          float* columns) {
  simd_transpose(rows, stride, tile.count, head_size, columns, kAttentionQueryTile);
  for (std::int64_t c = 0; c < head_size; ++c) {
    float* const to = columns + c * kAttentionQueryTile;
    std::fill(to + tile.count, to + tile.columns, 0.0F);
  }
}

// Stores a tile's rows: the head's part of row tile.first + i of `tensor` = factors[i] * columns[c, i].
HWY_INLINE void store_tile(const AttentionProblem& problem, const QueryTile& tile, const float* columns,
                           const float* factors, std::int64_t head, void* tensor) {
  constexpr std::int64_t kRows = 16, kFeatures = 64;  // at a time
  const hn::ScalableTag<float> d;
  alignas(64) float rows[kRows * kFeatures];
  for_element_type(problem.dtype, [&](auto element) {
    for (std::int64_t i = 0; i < tile.count; i += kRows) {
      auto* const to = static_cast<decltype(element)*>(head_part(problem, tensor, tile.first + i, head));
      const std::int64_t count = std::min(kRows, tile.count - i);
      for (std::int64_t c = 0; c < problem.head_size; c += kFeatures) {
        const std::int64_t features = std::min(kFeatures, problem.head_size - c);
        simd_transpose(columns + c * kAttentionQueryTile + i, kAttentionQueryTile, features, count, rows, kFeatures);
        for (std::int64_t r = 0; r < count; ++r) {
          const float* const row = rows + r * kFeatures;
          auto* const part = to + r * problem.width + c;
          const auto factor = hn::Set(d, factors[i + r]);
          std::int64_t f = 0;
          for (; f + vector_lanes() <= features; f += vector_lanes()) {
            store_floats(hn::Mul(factor, hn::LoadU(d, row + f)), d, part + f);
          }
          for (; f < features; ++f) store_float(factors[i + r] * row[f], part + f);
        }
      }
    }
  });
}

HWY_INLINE void store_tile(const AttentionProblem& problem, const QueryTile& tile, const float* columns, float factor,
                           std::int64_t head, void* tensor) {
  float factors[kAttentionQueryTile];
  std::fill_n(factors, tile.count, factor);
  store_tile(problem, tile, columns, factors, head, tensor);
}

// Stores output rows and their log_sum_exp once a tile of queries has met every key; `columns` holds sums of exp(score
// - largest) v.
HWY_INLINE void store_outputs(const AttentionProblem& problem, const QueryTile& tile, const float* columns,
                              const float* sums, const float* largest, std::int64_t head, void* output,
                              float* log_sum_exp) {
  float factors[kAttentionQueryTile];
  for (std::int64_t i = 0; i < tile.count; ++i) {
    const std::int64_t row = tile.first + i;
    const float sum = sums[i];  // is 0 only where every key is masked
    factors[i] = sum == 0 ? 0 : problem.dropout_scale / sum;
    float* const pair = log_sum_exp + 2 * (row * problem.heads + head);
    const double exact = double{largest[i]} + std::log(double{sum});
    pair[0] = sum == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(exact);
    pair[1] = std::isfinite(pair[0]) ? static_cast<float>(exact - double{pair[0]}) : 0;
  }
  store_tile(problem, tile, columns, factors, head, output);
}

// Returns the sum of a[c] * b[c] over the head's part of one row.
HWY_INLINE float dot(const AttentionProblem& problem, const void* a_tensor, const void* b_tensor, std::int64_t head,
                     std::int64_t row) {
  float sum = 0;
  for_element_type(problem.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* const a = static_cast<const T*>(head_part(problem, a_tensor, row, head));
    const auto* const b = static_cast<const T*>(head_part(problem, b_tensor, row, head));
    const hn::ScalableTag<float> d;
    auto sums = hn::Zero(d);
    std::int64_t c = 0;
    for (; c + vector_lanes() <= problem.head_size; c += vector_lanes()) {
      sums = hn::MulAdd(load_floats(d, a + c), load_floats(d, b + c), sums);
    }
    sum = simd_sum(d, sums);
    for (; c < problem.head_size; ++c) sum += load_float(a + c) * load_float(b + c);
  });
  return sum;
}

// Loads what softmax's gradient needs of a tile's queries before they meet any key; columns without a query get 0.
HWY_INLINE void load_row_sums(const AttentionProblem& problem, const AttentionGradData& grad, const QueryTile& tile,
                              std::int64_t head, float* log_sum_exp, float* log_sum_rest, float* output_dot_doutput) {
  std::fill_n(log_sum_exp, kAttentionQueryTile, 0.0F);
  std::fill_n(log_sum_rest, kAttentionQueryTile, 0.0F);
  std::fill_n(output_dot_doutput, kAttentionQueryTile, 0.0F);
  for (std::int64_t i = 0; i < tile.count; ++i) {
    const std::int64_t row = tile.first + i;
    const float* const pair = grad.log_sum_exp + 2 * (row * problem.heads + head);
    // With every key masked, log_sum_exp and all scores are -infinity; using 0 gives probabilities of 0 and not NaN.
    log_sum_exp[i] = pair[0] == -std::numeric_limits<float>::infinity() ? 0 : pair[0];
    log_sum_rest[i] = pair[1];
    output_dot_doutput[i] = dot(problem, grad.doutput, grad.output, head, row);
  }
}

// One bias for a tile's queries: row(key)[i] is the bias of query i and a key with that coordinate.
//
// Where the queries' coordinates are consecutive (positions inside text or image), a row is a slice of the table.
// Otherwise rows are looked up once and kept in a small cache by coordinate: pieces of a word share its box, words of a
// line share their y1, and image tokens form a grid of 14 columns and lines.
class BiasRows {
 public:
  // Fills the head's table. `coordinates` is the column of relative_coordinates to use, with row r at coordinates[3 r].
  HWY_INLINE BiasRows(const BiasScratch& scratch, const RelativeBuckets& buckets, bool enabled, const float* of_bins,
                      float scale, const std::int32_t* coordinates)
      : scratch_(scratch),
        centre_(enabled ? scratch.table + buckets.limit() : nullptr),
        reach_(buckets.reach()),
        coordinates_(coordinates),
        enabled_(enabled) {
    if (enabled_) {
      buckets.spread(of_bins, scale, scratch_.table);
    } else {
      std::fill_n(scratch_.rows, kAttentionQueryTile, 0.0F);
    }
  }

  HWY_INLINE void start(const QueryTile& tile) {
    if (!enabled_) return;
    columns_ = tile.columns;
    consecutive_ = true;
    for (std::int64_t i = 0; i < tile.count; ++i) {
      scratch_.queries[i] = coordinates_[3 * (tile.first + i)];
      consecutive_ = consecutive_ && scratch_.queries[i] == std::int64_t{scratch_.queries[0]} + i;
    }
    for (std::int64_t i = tile.count; i < columns_; ++i) scratch_.queries[i] = 0;
    if (!consecutive_) std::fill_n(scratch_.tags, BiasScratch::kSlots, kNoTag);
  }

  // True if query i's coordinate is the first one's plus i. Then differences to a key either run on from
  // first_difference(key) or fall into the same bucket.
  bool consecutive() const { return consecutive_; }
  HWY_INLINE std::int64_t first_difference(std::int64_t key) const {
    const std::int64_t t = std::int64_t{scratch_.queries[0]} - coordinates_[3 * key];
    return std::clamp(t, -reach_ - kAttentionQueryTile, reach_);
  }
  const std::int32_t* queries() const { return scratch_.queries; }
  std::int32_t coordinate(std::int64_t key) const { return coordinates_[3 * key]; }

  // Returns the bias row of the key in row `key`; it is valid until the next call.
  HWY_INLINE const float* row(std::int64_t key) const {
    if (!enabled_) return scratch_.rows;
    if (consecutive_) return centre_ + first_difference(key);
    const std::int32_t at = coordinate(key);
    const std::int64_t slot = static_cast<std::uint32_t>(at) % BiasScratch::kSlots;
    float* const row = scratch_.rows + slot * kAttentionQueryTile;
    if (scratch_.tags[slot] != at) {
      scratch_.tags[slot] = at;
      look_up(at, row);
    }
    return row;
  }

 private:
  static constexpr std::int64_t kNoTag = std::numeric_limits<std::int64_t>::max();

  HWY_INLINE void look_up(std::int32_t key_coordinate, float* row) const {
    const hn::ScalableTag<float> d;
    const hn::RebindToSigned<decltype(d)> di;
    const auto key = hn::Set(di, key_coordinate);
    const auto most = hn::Set(di, static_cast<std::int32_t>(reach_));
    for (std::int64_t i = 0; i < columns_; i += vector_lanes()) {
      const auto t = hn::Sub(hn::Load(di, scratch_.queries + i), key);
      hn::Store(hn::GatherIndex(d, centre_, hn::Max(hn::Neg(most), hn::Min(t, most))), d, row + i);
    }
  }

  BiasScratch scratch_;
  const float* centre_;
  std::int64_t reach_;
  const std::int32_t* coordinates_;
  bool enabled_;
  bool consecutive_ = false;
  std::int64_t columns_ = 0;
};

// The three biases of one head, or which keys are not seen.
struct HeadBiases {
  HWY_INLINE HeadBiases(const HeadBiasScratch& scratch, const AttentionProblem& problem, const AttentionData& data,
                        std::int64_t head)
      : position(make(scratch.position, problem, data, head, 0)),
        x(make(scratch.x, problem, data, head, 1)),
        y(make(scratch.y, problem, data, head, 2)),
        has_any(problem.form.tables() > 0),
        causal(problem.causal) {}

  HWY_INLINE void start(const QueryTile& tile) {
    position.start(tile);
    x.start(tile);
    y.start(tile);
  }

  // Sets scores[j, i] to factor * scores[j, i] + the biases of query i and key first_key + j, or to -infinity where the
  // key is masked or, if causal, later than the query; raises `largest`, one for each column, to the greatest score.
  HWY_INLINE void add_to(const QueryTile& tile, std::int64_t first_key, std::int64_t keys, const std::int32_t* key_mask,
                         float factor, float* scores, float* largest) const {
    const hn::ScalableTag<float> d;
    const std::int64_t lanes = vector_lanes();
    for (std::int64_t j = 0; j < keys; ++j) {
      float* const row = scores + j * kAttentionQueryTile;
      if (key_mask[first_key + j] == 0) {
        std::fill_n(row, tile.columns, -std::numeric_limits<float>::infinity());
        continue;
      }
      if (!has_any) {
        const std::int64_t later = causal ? first_key + j - tile.first : 0;  // this many queries do not see the key
        for (std::int64_t i = 0; i < tile.columns; i += lanes) {
          auto score = hn::Mul(hn::Load(d, row + i), hn::Set(d, factor));
          if (i < later) {
            const auto shut = hn::FirstN(d, static_cast<std::size_t>(std::min(later - i, lanes)));
            score = hn::IfThenElse(shut, hn::Set(d, -std::numeric_limits<float>::infinity()), score);
          }
          hn::Store(score, d, row + i);
          hn::Store(hn::Max(score, hn::Load(d, largest + i)), d, largest + i);
        }
        continue;
      }
      const float* const by_position = position.row(first_key + j);
      const float* const by_x = x.row(first_key + j);
      const float* const by_y = y.row(first_key + j);
      for (std::int64_t i = 0; i < tile.columns; i += lanes) {
        const auto biases =
            hn::Add(hn::Add(hn::LoadU(d, by_position + i), hn::LoadU(d, by_x + i)), hn::LoadU(d, by_y + i));
        const auto score = hn::MulAdd(hn::Load(d, row + i), hn::Set(d, factor), biases);
        hn::Store(score, d, row + i);
        hn::Store(hn::Max(score, hn::Load(d, largest + i)), d, largest + i);
      }
    }
  }

  BiasRows position, x, y;
  bool has_any, causal;  // not both

 private:
  HWY_INLINE static BiasRows make(const BiasScratch& scratch, const AttentionProblem& problem,
                                  const AttentionData& data, std::int64_t head, std::size_t which) {
    const RelativeBuckets& buckets = problem.buckets[which];
    if (!problem.form.has_bias[which]) return BiasRows(scratch, buckets, false, nullptr, 0, nullptr);
    return BiasRows(scratch, buckets, true, data.tables[which] + head * buckets.bins(), problem.score_scale,
                    data.relative_coordinates + which);
  }
};

// Says which probabilities of one vector of queries dropout keeps, key after key. One Philox call serves eight keys; it
// is made at the first of the next eight.
class KeptKeys {
 public:
  // Serves the queries from tile.first + column on.
  HWY_INLINE KeptKeys(const AttentionProblem& problem, const AttentionData& data, std::int64_t head,
                      const QueryTile& tile, std::int64_t column)
      : key_(data.dropout_key),
        site_(problem.site | (static_cast<std::uint32_t>(head) << 16)),
        sample_(static_cast<std::uint32_t>(data.row_keys[2 * tile.sample])),
        query_(static_cast<std::uint32_t>(tile.first + column - tile.sample)),
        threshold_(problem.dropout_threshold << 16),
        first_(tile.sample) {}

  // Returns the mask of queries for which the key in row `key` is kept.
  HWY_INLINE auto kept(std::int64_t key) {
    const hn::ScalableTag<float> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto at = static_cast<std::uint32_t>(key - first_);
    if (at / 8 != eight_) draw(at / 8);
    const auto bits = hn::Load(du, bits_ + at % 8 * vector_lanes());
    return hn::RebindMask(d, hn::Not(hn::Lt(bits, hn::Set(du, threshold_))));
  }

 private:
  HWY_INLINE void draw(std::uint32_t eight) {
    const hn::ScalableTag<std::uint32_t> du;
    hn::Vec<decltype(du)> words[4];
    simd_philox4x32<kDropoutRounds>(du, hn::Iota(du, query_), hn::Set(du, eight), hn::Set(du, site_),
                                    hn::Set(du, sample_), key_[0], key_[1], words[0], words[1], words[2], words[3]);
    for (std::int64_t i = 0; i < 4; ++i) {
      hn::Store(hn::ShiftLeft<16>(words[i]), du, bits_ + 2 * i * vector_lanes());
      hn::Store(words[i], du, bits_ + (2 * i + 1) * vector_lanes());
    }
    eight_ = eight;
  }

  PhiloxKey key_;
  std::uint32_t site_, sample_, query_;
  std::uint32_t threshold_;  // compared with bits in the upper half of a word; the lower half does not matter
  std::int64_t first_;
  std::uint32_t eight_ = std::numeric_limits<std::uint32_t>::max();  // no key / 8 equals this
  HWY_ALIGN std::uint32_t bits_[8 * hn::MaxLanes(hn::ScalableTag<float>())];
};

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per target
