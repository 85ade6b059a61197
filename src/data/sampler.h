// The order of training is a pure function of (seed, epoch), so that a resumed run repeats it and any worker can
// compute it.
//
// An epoch is a permutation of the examples, cut into updates of `train_batch_size` samples (the last one of an epoch
// may be smaller, as in Hugging Face's Trainer), each cut into micro-batches of m samples. Which samples form an update
// does not depend on m.
//
//   Sampler sampler(dataset.examples(), {.seed = 42, .train_batch_size = 16});
//   std::vector<std::uint32_t> order(sampler.size());
//   sampler.epoch_order(3, order);
//   sampler.update(order, 7);                       // the eighth update's examples
//   sampler.largest_text_rows(0, 12, 2);            // the plan's size: exact, over all micro-batches
//   sampler.leave_out(17);                          // a page that can no longer be read
//
// A page that is left out leaves a gap: its update has fewer samples and divides its loss by fewer tokens, and every
// other sample stays in its micro-batch. So nothing grows beyond the plan, and results depend only on which pages are
// left out.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"

namespace plimsoll {

// Shuffles by Fisher-Yates from the end, i = n - 1 .. 1: swaps i with floor(r * (i + 1) / 2^64), where r = output[1] *
// 2^32 + output[0] of Philox4x32-10 with key {seed low, seed high} and counter {i, epoch low, epoch high, 0x5348554C}.
void permute(std::uint64_t seed, std::uint64_t epoch, std::span<std::uint32_t> order);

// The order of an epoch's samples (train_sampling_strategy of `transformers`): at random; in the data's order; or at
// random in groups of samples of similar length, as in get_length_grouped_indices of `transformers`.
enum class SampleOrder : std::uint8_t { kRandom, kSequential, kByLength };

struct SamplerOptions {
  std::uint64_t seed = 42;
  std::int64_t train_batch_size = 16;  // samples per update: the effective batch
  SampleOrder order = SampleOrder::kRandom;
  std::int64_t multiple = 1;  // an epoch has a multiple of this many samples; the rest at its end is left out
  std::int64_t pad_to = 0;    // tokens that every sample's text is padded to; 0: no padding
  int rank = 0, ranks = 1;    // of the processes that share every update
};

class Sampler {
 public:
  // Throws UsageError if there are fewer examples than `multiple`.
  // `loss_weights`: Dataset::loss_weights of the examples' data set.
  Sampler(std::span<const Example> examples, const SamplerOptions& options, std::span<const float> loss_weights = {});

  const SamplerOptions& options() const { return options_; }
  // Leaves the page out of every update from now on; not allowed while a BatchSequence is in use.
  void leave_out(std::uint32_t page);
  bool leaves_out(std::uint32_t example) const;
  bool leaves_out_any() const { return !left_out_.empty(); }
  std::size_t size() const { return examples_.size(); }
  std::span<const Example> examples() const { return examples_; }
  // Returns how many of the examples an epoch has.
  std::int64_t samples_per_epoch() const;
  std::int64_t updates_per_epoch() const;
  // Returns how many epochs so many updates are, by their samples: the last update of an epoch may have fewer.
  double epochs_after(std::int64_t updates) const;
  // Return the samples and micro-batches of update `update` of an epoch, and the micro-batches of a whole epoch.
  std::int64_t samples_in_update(std::int64_t update) const;
  // With ranks, they are counted per rank: all ranks have equally many micro-batches, of which the last may be empty.
  std::int64_t micro_batches_in_update(std::int64_t update, std::int64_t samples_per_micro_batch) const;
  std::int64_t micro_batches_per_epoch(std::int64_t samples_per_micro_batch) const;

  // `order` must have size() entries.
  void epoch_order(std::uint64_t epoch, std::span<std::uint32_t> order) const;
  // Returns the examples of an update within an epoch's order.
  std::span<const std::uint32_t> update(std::span<const std::uint32_t> order, std::int64_t update) const;
  // Deals an update's samples to the ranks, so that each has equally many (or one less) with about equally many tokens:
  // sorted by length, from the first rank to the last and back. `places` becomes the places of that rank's samples in
  // `update`, ascending; nothing is allocated if it has room for all of the update's samples.
  void deal(std::span<const std::uint32_t> update, int rank, std::vector<std::uint32_t>& places) const;
  // Return the text rows of some examples together, their labels, and the divisor of their mean loss: their labels, or
  // the sum of their class weights.
  std::int64_t text_rows(std::span<const std::uint32_t> examples) const;
  std::int64_t loss_terms(std::span<const std::uint32_t> examples) const;
  double loss_weight(std::span<const std::uint32_t> examples) const;

  // Returns the most text rows of any micro-batch, of any rank, of the epochs [first, first + count).
  std::int64_t largest_text_rows(std::uint64_t first, std::uint64_t count, std::int64_t samples_per_micro_batch) const;

 private:
  void group_by_length(std::span<std::uint32_t> order) const;

  std::span<const Example> examples_;
  std::span<const float> loss_weights_;
  SamplerOptions options_;
  std::vector<std::uint32_t> left_out_;  // pages, ascending
};

// How updates of pairs are cut into chunks of single samples: the two pages of a pair may be in different chunks. A
// chunk has as many samples as possible within these limits of samples and text rows; the longest page must fit.
struct ChunkLimits {
  std::int64_t samples = 1;
  std::int64_t text_rows = 0;
};
// Cuts the samples of the pairs in `update`; `begins` becomes the first sample of each chunk. Returns the most text
// rows of any chunk.
std::int64_t cut_into_chunks(std::span<const Example> examples, std::span<const std::uint32_t> update,
                             const ChunkLimits& limits, std::vector<std::uint32_t>& begins);

// The micro-batches of a run, or of the rest of it, in order. Thread-safe: loader threads ask for them in any order,
// though not far from one another. Keeps the order of two epochs.
//
// With chunks, each update comes twice: all its chunks, then all of them again.
//
//   BatchSequence sequence(sampler, 2, {.epoch = 3, .update = 7, .updates = 100});
class BatchSequence {
 public:
  struct Range {
    std::uint64_t epoch = 0;   // epoch of the first update
    std::int64_t update = 0;   // the first, within its epoch
    std::int64_t updates = 0;  // number of updates, over as many epochs as they take
  };
  struct Item {
    std::vector<std::uint32_t> examples;
    std::vector<std::int32_t> keys;  // of each sample: its index within the update
    MicroBatchInfo info;
    // If a pair is split between two chunks, each has one of its samples: an item begins with the first example's side
    // `first_side` and ends with the last example's side `last_side`.
    int first_side = 0, last_side = 1;
  };

  // `sampler` must outlive the sequence.
  BatchSequence(const Sampler& sampler, std::int64_t samples_per_micro_batch, Range range);
  // For pairs, in one process.
  BatchSequence(const Sampler& sampler, const ChunkLimits& chunks, Range range);

  std::uint64_t size() const { return size_; }
  // Returns the most examples of an item.
  std::int64_t examples_per_micro_batch() const { return chunks_ ? chunks_->samples / 2 + 1 : micro_; }
  std::int64_t samples_per_micro_batch() const { return chunks_ ? chunks_->samples : micro_; }
  int ranks() const { return sampler_.options().ranks; }
  // Gets micro-batch `index` < size(), of the sampler's rank. Allocates nothing once `item.examples` and `item.keys`
  // have their capacity. If pages are left out, the micro-batches that are not empty are renumbered; an empty one has
  // no examples, and with `samples_in_update` 0 and `micro_batch` 0 if it is the first of an update that has lost all.
  // With ranks nothing is renumbered: a rank's empty micro-batches take part in the exchange of gradients.
  void get(std::uint64_t index, Item& item);
  std::uint64_t host_bytes() const;

 private:
  struct Epoch {
    std::uint64_t number = ~std::uint64_t{0};
    std::vector<std::uint32_t> order;
    // With chunks. `order` has each update's `kept` pairs, which are not left out, at the update's beginning; `begins`
    // has the chunks of all updates, and update u's items are those from first_items[u] on.
    std::vector<std::uint32_t> kept, begins, first_chunks, first_items;
  };
  // Puts the epoch's order, and with chunks how it is cut, into `epoch`.
  void fill(std::uint64_t number, Epoch& epoch) const;
  void cut(Epoch& epoch) const;
  void get_chunk(std::uint64_t index, Item& item);
  Epoch& epoch_of(std::uint64_t number);
  // Removes left-out pages from a micro-batch that begins at sample `begin` of its update.
  void remove_left_out(std::span<const std::uint32_t> update, std::size_t begin, Item& item) const;
  // Fills a micro-batch of one of several ranks.
  void get_of_rank(std::span<const std::uint32_t> update, std::int64_t micro_batch, Item& item);

  const Sampler& sampler_;
  std::int64_t micro_;
  std::optional<ChunkLimits> chunks_;
  Range range_;
  std::uint64_t first_ = 0;  // the range's first micro-batch, counted from the start of its first epoch
  std::uint64_t size_ = 0;
  std::mutex mutex_;
  std::array<Epoch, 2> epochs_;
  std::vector<std::uint32_t> places_;  // of this rank's samples within an update
  std::vector<std::uint64_t> ends_;    // with chunks: of the epochs, in items from the first epoch's start
};

}  // namespace plimsoll
