// Types that attention and its gradient share on the CPU: the sizes that are fixed when a node is prepared, the
// pointers of one run, the buckets of relative distances, and the division of work among threads.
//
// Work is divided into items: one for each (sample, head), or, in the gradient, for each (sample, head of k and v) if
// heads share those. One thread computes an item from beginning to end, in an order that depends on the item alone, and
// no two items write the same bytes, so results have the same bits for any number of threads.
//
//   const AttentionProblem problem(graph, node);
//   const AttentionData data(arguments, problem.form);
//   for_each_attention_item(problem, problem.heads, data.sample_offsets, order, [&](auto sample, auto head, int) {});
#pragma once

#include <omp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/philox.h"
#include "graph/attention_form.h"

namespace plimsoll {

// Tiles have this many queries, one in each lane of a few vectors, and the second constant's number of keys. Both are
// the same on every machine, because they decide the order of sums. The scores of a tile take 48 KiB.
inline constexpr std::int64_t kAttentionQueryTile = 64;
inline constexpr std::int64_t kAttentionKeyTile = 192;

// Maps every difference t = query coordinate - key coordinate from -limit() to limit() to its bucket. Distances from
// `max_distance` on share one bucket, so a larger t is looked up at +-reach(). The kAttentionQueryTile entries past
// either end let a vector of consecutive differences be loaded at once.
class RelativeBuckets {
 public:
  RelativeBuckets(std::int64_t bins, std::int64_t max_distance);

  std::int64_t bins() const { return bins_; }
  std::int64_t reach() const { return reach_; }
  std::int64_t limit() const { return reach_ + kAttentionQueryTile; }
  std::int64_t entries() const { return 2 * limit() + 1; }

  // table[t + limit()] = scale * of_bins[bucket of t]: the bias of every difference for one head.
  void spread(const float* of_bins, float scale, float* table) const;
  // of_bins[bucket of t] += table[t + limit()]
  void gather(const double* table, double* of_bins) const;

 private:
  std::int64_t bins_;
  std::int64_t reach_;
  std::shared_ptr<const std::vector<std::int32_t>> buckets_;  // one for all with the same bins and distance
};

// How heads lie in the rows of a tensor.
struct AttentionRows {
  DType dtype = DType::kF32;   // F32, BF16 or F16
  std::int64_t width = 0;      // columns of a row
  std::int64_t head_size = 0;  // d

  // The row stride of scratch that holds one head's part of rows: a whole number of vectors on every machine.
  std::int64_t row_stride() const { return (head_size + 15) / 16 * 16; }
};

// It is also the form of the rows of q, of the output and of their gradients.
struct AttentionProblem : AttentionRows {
  // Throws InternalError naming the node if a type is unknown or an attribute makes no sense.
  AttentionProblem(const Graph& graph, const Node& node);

  // Returns the number of elements of one head's part of a sample as floats, which are needed if the tensors hold
  // halves.
  std::int64_t wide_elements() const { return is_half(dtype) ? longest * row_stride() : 0; }
  // Returns the row stride of a sample's transposed rows: whole tiles of pairs (dot_product_bf16.h).
  std::int64_t turned_stride() const { return (longest + 31) / 32 * 32; }

  // Returns the end of the keys that a tile of queries up to row `last` sees, in a sample up to row `end`.
  std::int64_t keys_end(std::int64_t last, std::int64_t end) const { return causal ? last : end; }

  AttentionRows of_keys;  // rows of k and v
  std::int64_t group;     // heads that share one of k and v
  bool causal;            // a row sees no later one
  bool dots;              // whether the products are those of dot_product_bf16
  std::int64_t longest;   // most rows of any sample
  std::int64_t heads;     // H
  std::int64_t samples;   // B
  float score_scale;      // 1 / sqrt(d)
  std::uint32_t site;
  bool dropout;
  std::uint32_t dropout_threshold;  // a probability is kept if its random bits are at least this
  float dropout_scale;
  AttentionForm form;
  std::vector<RelativeBuckets> buckets;  // one for each bias; an absent bias has four bins
  int threads;                           // number of threads that have scratch
};

// The inputs of one run, named as in graph/op.h.
struct AttentionData {
  AttentionData(const KernelArguments& arguments, const AttentionForm& form);

  const void *q, *k, *v;  // have the problem's dtype
  const std::int32_t* sample_offsets;
  const std::int32_t* key_mask;
  const std::int32_t* row_keys;
  PhiloxKey dropout_key;
  const std::int32_t* relative_coordinates = nullptr;  // nullptr without biases
  const float* tables[AttentionForm::kBiases] = {};
};

// The tensors of one run that only the gradient needs.
struct AttentionGradData {
  const void *doutput, *output;
  const float* log_sum_exp;
  void *dq, *dk, *dv;
};

// Fills `order` with the samples that are not empty, longest first; returns how many.
std::int64_t order_attention_samples(std::span<const std::int32_t> sample_offsets, std::int32_t* order);

// Calls body(sample, head, member) once for each item, of `heads` a sample, on up to `problem.threads` threads;
// `member` < threads says which scratch to use. The longest samples come first, and an idle thread takes the next item.
// `order` is scratch for B indices.
template <typename Body>
void for_each_attention_item(const AttentionProblem& problem, std::int64_t heads, const std::int32_t* sample_offsets,
                             std::int32_t* order, const Body& body) {
  const std::int64_t items =
      order_attention_samples({sample_offsets, static_cast<std::size_t>(problem.samples) + 1}, order) * heads;
  std::atomic<std::int64_t> next{0};
#pragma omp parallel num_threads(problem.threads)
  for (std::int64_t item = next++; item < items; item = next++) {
    body(std::int64_t{order[item / heads]}, item % heads, omp_get_thread_num());
  }
}

}  // namespace plimsoll
