// The scratch layout of attention and its gradient: one set of tiles for each thread, whatever the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/cpu/attention_problem.h"
#include "base/bytes.h"

namespace plimsoll {

// Hands out parts of a kernel's scratch, each aligned to kAlignmentBytes. Over nullptr it only counts, so the code that
// lays out scratch at run time also computes its size when the node is prepared.
class ScratchCursor {
 public:
  explicit ScratchCursor(std::byte* base) : base_(base) {}

  template <typename T>
  T* take(std::int64_t count) {
    T* const part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += round_up(static_cast<std::size_t>(count) * sizeof(T), kAlignmentBytes);
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

// The scratch of one bias and one head; see BiasRows.
struct BiasScratch {
  static constexpr std::int64_t kSlots = 256;

  // A bias that the node does not have is a row of zeros.
  BiasScratch(ScratchCursor& cursor, const RelativeBuckets& buckets, bool enabled)
      : table(cursor.take<float>(enabled ? buckets.entries() : 0)),
        queries(cursor.take<std::int32_t>(enabled ? kAttentionQueryTile : 0)),
        tags(cursor.take<std::int64_t>(enabled ? kSlots : 0)),
        rows(cursor.take<float>((enabled ? kSlots : 1) * kAttentionQueryTile)) {}

  float* table;
  std::int32_t* queries;  // coordinates of a tile's queries
  std::int64_t* tags;     // the coordinate that a slot's row belongs to
  float* rows;            // [kSlots, queries]
};

struct HeadBiasScratch {
  HeadBiasScratch(ScratchCursor& cursor, const AttentionProblem& problem)
      : position(cursor, problem.buckets[0], problem.form.has_bias[0]),
        x(cursor, problem.buckets[1], problem.form.has_bias[1]),
        y(cursor, problem.buckets[2], problem.form.has_bias[2]) {}

  BiasScratch position, x, y;
};

struct ForwardScratch {
  ForwardScratch(ScratchCursor& cursor, const AttentionProblem& problem)
      : query_rows(cursor.take<float>(kAttentionQueryTile * problem.row_stride())),
        queries(cursor.take<float>(problem.head_size * kAttentionQueryTile)),
        output(cursor.take<float>(problem.head_size * kAttentionQueryTile)),
        scores(cursor.take<float>(kAttentionKeyTile * kAttentionQueryTile)),
        largest(cursor.take<float>(kAttentionQueryTile)),
        tile_largest(cursor.take<float>(kAttentionQueryTile)),
        sums(cursor.take<float>(kAttentionQueryTile)),
        factors(cursor.take<float>(kAttentionQueryTile)),
        wide_k(cursor.take<float>(problem.wide_elements())),
        wide_v(cursor.take<float>(problem.wide_elements())),
        biases(cursor, problem) {}

  float* query_rows;                               // [queries, row stride]
  float *queries, *output;                         // [head_size, queries]
  float* scores;                                   // [keys, queries], then probabilities in their place
  float *largest, *tile_largest, *sums, *factors;  // [queries]
  float *wide_k, *wide_v;                          // [rows of a sample, row stride], copies of halves as floats
  HeadBiasScratch biases;
};

// The scratch of one bias table's gradient; see BiasSums.
struct BiasSumScratch {
  BiasSumScratch(ScratchCursor& cursor, const RelativeBuckets& buckets)
      : table(cursor.take<double>(buckets.entries())),
        tile_table(cursor.take<float>(buckets.entries())),
        tags(cursor.take<std::int64_t>(BiasScratch::kSlots)),
        rows(cursor.take<float>(BiasScratch::kSlots * kAttentionQueryTile)) {}

  double* table;      // by difference, as BiasScratch::table
  float* tile_table;  // the same for one tile of queries
  std::int64_t* tags;
  float* rows;
};

struct BackwardScratch {
  BackwardScratch(ScratchCursor& cursor, const AttentionProblem& problem, bool table_gradients)
      : queries(cursor.take<float>(problem.head_size * kAttentionQueryTile)),
        doutputs(cursor.take<float>(problem.head_size * kAttentionQueryTile)),
        dqueries(cursor.take<float>(problem.head_size * kAttentionQueryTile)),
        query_rows(cursor.take<float>(kAttentionQueryTile * problem.row_stride())),
        doutput_rows(cursor.take<float>(kAttentionQueryTile * problem.row_stride())),
        key_rows(cursor.take<float>(kAttentionKeyTile * problem.row_stride())),
        probabilities(cursor.take<float>(kAttentionKeyTile * kAttentionQueryTile)),
        dscores(cursor.take<float>(kAttentionKeyTile * kAttentionQueryTile)),
        log_sum_exp(cursor.take<float>(kAttentionQueryTile)),
        log_sum_rest(cursor.take<float>(kAttentionQueryTile)),
        output_dot_doutput(cursor.take<float>(kAttentionQueryTile)),
        largest(cursor.take<float>(kAttentionQueryTile)),
        wide_k(cursor.take<float>(problem.wide_elements())),
        wide_v(cursor.take<float>(problem.wide_elements())),
        wide_dk(cursor.take<float>(problem.wide_elements())),
        wide_dv(cursor.take<float>(problem.wide_elements())),
        biases(cursor, problem) {
    if (!table_gradients) return;
    for (std::size_t i = 0; i < AttentionForm::kBiases; ++i) {
      if (problem.form.has_bias[i]) bias_sums[i].emplace(cursor, problem.buckets[i]);
    }
  }

  float *queries, *doutputs, *dqueries;  // [head_size, queries]
  float *query_rows, *doutput_rows;      // [queries, row stride]
  float* key_rows;                       // [keys, row stride]: products whose rows are not whole vectors
  float *probabilities, *dscores;        // [keys, queries]: scores, then p m; dp, then ds
  float *log_sum_exp, *log_sum_rest, *output_dot_doutput, *largest;  // [queries]
  float *wide_k, *wide_v, *wide_dk, *wide_dv;  // [rows of a sample, row stride], copies of halves as floats
  HeadBiasScratch biases;
  std::optional<BiasSumScratch> bias_sums[AttentionForm::kBiases];
};

// The same for dot products of pairs: operands are bfloat16, two to a word. In "turned" [head_size / 2, queries] a word
// holds two features of a query; in "paired" [rows / 2, columns] a word holds two rows of a column.
struct DotForwardScratch {
  DotForwardScratch(ScratchCursor& cursor, const AttentionProblem& problem)
      : queries(cursor.take<std::uint32_t>(problem.head_size / 2 * kAttentionQueryTile)),
        v_columns(cursor.take<std::uint16_t>(problem.head_size * problem.turned_stride())),
        probabilities(cursor.take<std::uint32_t>(kAttentionKeyTile / 2 * kAttentionQueryTile)),
        scores(cursor.take<float>(kAttentionKeyTile * kAttentionQueryTile)),
        output(cursor.take<float>(problem.head_size * kAttentionQueryTile)),
        largest(cursor.take<float>(kAttentionQueryTile)),
        tile_largest(cursor.take<float>(kAttentionQueryTile)),
        sums(cursor.take<float>(kAttentionQueryTile)),
        factors(cursor.take<float>(kAttentionQueryTile)),
        biases(cursor, problem) {}

  std::uint32_t* queries;                          // turned
  std::uint16_t* v_columns;                        // [head_size, rows of the sample]
  std::uint32_t* probabilities;                    // [keys / 2, queries] paired
  float* scores;                                   // [keys, queries]
  float* output;                                   // [head_size, queries]
  float *largest, *tile_largest, *sums, *factors;  // [queries]
  HeadBiasScratch biases;
};

struct DotBackwardScratch {
  DotBackwardScratch(ScratchCursor& cursor, const AttentionProblem& problem, bool table_gradients)
      : queries(cursor.take<std::uint32_t>(problem.head_size / 2 * kAttentionQueryTile)),
        doutputs(cursor.take<std::uint32_t>(problem.head_size / 2 * kAttentionQueryTile)),
        q_pairs(cursor.take<std::uint32_t>(kAttentionQueryTile / 2 * problem.head_size)),
        doutput_pairs(cursor.take<std::uint32_t>(kAttentionQueryTile / 2 * problem.head_size)),
        k_columns(cursor.take<std::uint16_t>(problem.head_size * problem.turned_stride())),
        dscore_pairs(cursor.take<std::uint32_t>(kAttentionKeyTile / 2 * kAttentionQueryTile)),
        probability_rows(cursor.take<std::uint16_t>(kAttentionKeyTile * kAttentionQueryTile)),
        dscore_rows(cursor.take<std::uint16_t>(kAttentionKeyTile * kAttentionQueryTile)),
        scores(cursor.take<float>(kAttentionKeyTile * kAttentionQueryTile)),
        dscores(cursor.take<float>(kAttentionKeyTile * kAttentionQueryTile)),
        dqueries(cursor.take<float>(problem.head_size * kAttentionQueryTile)),
        log_sum_exp(cursor.take<float>(kAttentionQueryTile)),
        log_sum_rest(cursor.take<float>(kAttentionQueryTile)),
        output_dot_doutput(cursor.take<float>(kAttentionQueryTile)),
        largest(cursor.take<float>(kAttentionQueryTile)),
        wide_dk(cursor.take<float>(problem.wide_elements())),
        wide_dv(cursor.take<float>(problem.wide_elements())),
        biases(cursor, problem) {
    if (!table_gradients) return;
    for (std::size_t i = 0; i < AttentionForm::kBiases; ++i) {
      if (problem.form.has_bias[i]) bias_sums[i].emplace(cursor, problem.buckets[i]);
    }
  }

  std::uint32_t *queries, *doutputs;                                 // turned
  std::uint32_t *q_pairs, *doutput_pairs;                            // [queries / 2, head_size] paired
  std::uint16_t* k_columns;                                          // [head_size, rows of the sample]
  std::uint32_t* dscore_pairs;                                       // [keys / 2, queries] paired
  std::uint16_t *probability_rows, *dscore_rows;                     // [keys, queries]
  float *scores, *dscores;                                           // [keys, queries]
  float* dqueries;                                                   // [head_size, queries]
  float *log_sum_exp, *log_sum_rest, *output_dot_doutput, *largest;  // [queries]
  float *wide_dk, *wide_dv;                                          // [rows of a sample, row stride]
  HeadBiasScratch biases;
  std::optional<BiasSumScratch> bias_sums[AttentionForm::kBiases];
};

}  // namespace plimsoll
