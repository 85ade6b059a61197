// The sums for one bias table's gradient, compiled once for each Highway target.
#if defined(PLIMSOLL_BACKEND_CPU_ATTENTION_BIAS_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_ATTENTION_BIAS_SUMS_INL_H_
#undef PLIMSOLL_BACKEND_CPU_ATTENTION_BIAS_SUMS_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_ATTENTION_BIAS_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "backend/cpu/attention_scratch.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Sums the gradient of one bias table for one head. Gradients of scores are first summed in float, over one tile's
// queries and the sample's keys of one coordinate (or, where the queries' coordinates are consecutive, of one
// difference), then in double by difference over the whole item.
class BiasSums {
 public:
  BiasSums(const BiasSumScratch& scratch, const RelativeBuckets& buckets, const BiasRows& biases)
      : scratch_(scratch), buckets_(buckets), biases_(biases) {
    std::fill_n(scratch_.table, buckets_.entries(), 0.0);
    std::fill_n(scratch_.tile_table, buckets_.entries(), 0.0F);
    std::fill_n(scratch_.tags, BiasScratch::kSlots, kNoTag);
  }

  HWY_INLINE void add(const QueryTile& tile, std::int64_t key, const float* dscores) {
    if (biases_.consecutive()) {
      add_row(dscores, tile.count, scratch_.tile_table + buckets_.limit() + biases_.first_difference(key));
      return;
    }
    const std::int32_t coordinate = biases_.coordinate(key);
    const std::int64_t slot = static_cast<std::uint32_t>(coordinate) % BiasScratch::kSlots;
    float* const row = scratch_.rows + slot * kAttentionQueryTile;
    if (scratch_.tags[slot] != coordinate) {
      flush(tile, slot);
      scratch_.tags[slot] = coordinate;
      std::fill_n(row, kAttentionQueryTile, 0.0F);
    }
    add_row(dscores, tile.count, row);
  }

  HWY_INLINE void finish(const QueryTile& tile) {
    if (!biases_.consecutive()) {
      for (std::int64_t slot = 0; slot < BiasScratch::kSlots; ++slot) flush(tile, slot);
      return;
    }
    for (std::int64_t i = 0; i < buckets_.entries(); ++i) {
      scratch_.table[i] += scratch_.tile_table[i];
      scratch_.tile_table[i] = 0;
    }
  }

  // Writes the sums by bin.
  HWY_INLINE void store(double* of_bins) const {
    std::fill_n(of_bins, buckets_.bins(), 0.0);
    buckets_.gather(scratch_.table, of_bins);
  }

 private:
  static constexpr std::int64_t kNoTag = std::numeric_limits<std::int64_t>::max();

  HWY_INLINE static void add_row(const float* from, std::int64_t count, float* to) {
    const hn::ScalableTag<float> d;
    std::int64_t i = 0;
    for (; i + vector_lanes() <= count; i += vector_lanes()) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::Load(d, from + i)), d, to + i);
    }
    for (; i < count; ++i) to[i] += from[i];
  }

  HWY_INLINE void flush(const QueryTile& tile, std::int64_t slot) {
    if (scratch_.tags[slot] == kNoTag) return;
    const float* const row = scratch_.rows + slot * kAttentionQueryTile;
    for (std::int64_t i = 0; i < tile.count; ++i) {
      const std::int64_t t = biases_.queries()[i] - scratch_.tags[slot];
      scratch_.table[std::clamp(t, -buckets_.reach(), buckets_.reach()) + buckets_.limit()] += row[i];
    }
    scratch_.tags[slot] = kNoTag;
  }

  BiasSumScratch scratch_;
  const RelativeBuckets& buckets_;
  const BiasRows& biases_;
};

// The gradient sums of all three tables for one (sample, head); a table that needs no gradient has none.
class HeadBiasSums {
 public:
  HeadBiasSums(const AttentionProblem& problem, const HeadBiases& biases,
               const std::optional<BiasSumScratch> (&scratch)[AttentionForm::kBiases])
      : problem_(problem) {
    const BiasRows* const rows[AttentionForm::kBiases] = {&biases.position, &biases.x, &biases.y};
    for (std::size_t i = 0; i < AttentionForm::kBiases; ++i) {
      if (scratch[i]) sums_[i].emplace(*scratch[i], problem.buckets[i], *rows[i]);
    }
  }

  // Adds dscores[keys, kAttentionQueryTile] for `keys` keys.
  HWY_INLINE void add(const QueryTile& tile, std::int64_t first_key, std::int64_t keys, const float* dscores) {
    for (std::optional<BiasSums>& table : sums_) {
      for (std::int64_t j = 0; table && j < keys; ++j) {
        table->add(tile, first_key + j, dscores + j * kAttentionQueryTile);
      }
    }
  }

  HWY_INLINE void finish(const QueryTile& tile) {
    for (std::optional<BiasSums>& table : sums_) {
      if (table) table->finish(tile);
    }
  }

  // Writes the bins of one table after the other.
  HWY_INLINE void store(double* of_bins) const {
    for (std::size_t i = 0; i < AttentionForm::kBiases; ++i) {
      if (!sums_[i]) continue;
      sums_[i]->store(of_bins);
      of_bins += problem_.buckets[i].bins();
    }
  }

 private:
  const AttentionProblem& problem_;
  std::optional<BiasSums> sums_[AttentionForm::kBiases];
};

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per target
