// The order of training: a pure function of (seed, epoch), so that a resumed run repeats it and any worker can compute
// it.
//
// An epoch is a permutation of the examples, cut into updates of `train_batch_size` samples (the last one of an epoch
// may be smaller, as in Hugging Face's Trainer with drop_last off), each cut into micro-batches of m samples. Which
// samples form an update does not depend on m.
//
//   Sampler sampler(dataset.examples(), {.seed = 42, .train_batch_size = 16});
//   std::vector<std::uint32_t> order(sampler.size());
//   sampler.epoch_order(3, order);
//   sampler.update(order, 7);                       // the eighth update's examples
//   sampler.largest_text_rows(0, 12, 2);            // what the plan must hold: exact, over all micro-batches
//   sampler.leave_out(17);                          // a page that cannot be read any more
//
// A page that is left out leaves a gap: its update has fewer samples and divides its loss by fewer tokens, and every
// other sample stays in the micro-batch that it would be in. So nothing grows beyond the plan, and what a run does
// depends on the pages left out alone.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"

namespace plimsoll {

// Fisher-Yates from the end, i = n - 1 .. 1: swap i with floor(r * (i + 1) / 2^64), where r = output[1] * 2^32 +
// output[0] of Philox4x32-10 with key {seed low, seed high} and counter {i, epoch low, epoch high, 0x5348554C}.
void permute(std::uint64_t seed, std::uint64_t epoch, std::span<std::uint32_t> order);

struct SamplerOptions {
  std::uint64_t seed = 42;
  std::int64_t train_batch_size = 16;  // samples of an update: the effective batch
  bool shuffle = true;                 // off: in the data's order (evaluation)
  std::int64_t pad_to = 0;             // tokens that every sample's text is padded to; 0: none
};

class Sampler {
 public:
  Sampler(std::span<const Example> examples, const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  // Of every update from now on; not while a BatchSequence is in use.
  void leave_out(std::uint32_t page);
  bool leaves_out(std::uint32_t example) const;
  bool leaves_out_any() const { return !left_out_.empty(); }
  std::size_t size() const { return examples_.size(); }
  std::int64_t updates_per_epoch() const;
  // Micro-batches of update `update` of an epoch, and of a whole epoch.
  std::int64_t samples_in_update(std::int64_t update) const;
  std::int64_t micro_batches_in_update(std::int64_t update, std::int64_t samples_per_micro_batch) const;
  std::int64_t micro_batches_per_epoch(std::int64_t samples_per_micro_batch) const;

  // `order` has size() entries.
  void epoch_order(std::uint64_t epoch, std::span<std::uint32_t> order) const;
  // The examples of an update within an epoch's order.
  std::span<const std::uint32_t> update(std::span<const std::uint32_t> order, std::int64_t update) const;
  // Text rows and labelled tokens of some examples together.
  std::int64_t text_rows(std::span<const std::uint32_t> examples) const;
  std::int64_t labelled_tokens(std::span<const std::uint32_t> examples) const;

  // The most text rows of any micro-batch of the epochs [first, first + count).
  std::int64_t largest_text_rows(std::uint64_t first, std::uint64_t count, std::int64_t samples_per_micro_batch) const;

 private:
  std::span<const Example> examples_;
  SamplerOptions options_;
  std::vector<std::uint32_t> left_out_;  // pages, ascending
};

// The micro-batches of a run, or of what is left of it, one after the other. Thread-safe: loader threads ask for them
// in any order, though not far from one another. Keeps the order of two epochs.
//
//   BatchSequence sequence(sampler, 2, {.epoch = 3, .update = 7, .updates = 100});
class BatchSequence {
 public:
  struct Range {
    std::uint64_t epoch = 0;   // of the first update
    std::int64_t update = 0;   // the first, within its epoch
    std::int64_t updates = 0;  // how many in all, over as many epochs as it takes
  };
  struct Item {
    std::vector<std::uint32_t> examples;
    std::int32_t first_key = 0;  // of the first sample, within its update
    MicroBatchInfo info;
  };

  // `sampler` must outlive the sequence.
  BatchSequence(const Sampler& sampler, std::int64_t samples_per_micro_batch, Range range);

  std::uint64_t size() const { return size_; }
  std::int64_t samples_per_micro_batch() const { return micro_; }
  // Micro-batch `index` < size(). Allocates nothing once `item.examples` has its capacity. Where pages are left out,
  // micro-batches that hold others are numbered anew; one that holds none comes without examples, and with
  // `samples_in_update` 0 and `micro_batch` 0 for the first of an update that has lost all.
  void get(std::uint64_t index, Item& item);
  std::uint64_t host_bytes() const;

 private:
  struct Epoch {
    std::uint64_t number = ~std::uint64_t{0};
    std::vector<std::uint32_t> order;
  };
  // Takes the pages left out away from a micro-batch that begins at sample `begin` of its update.
  void remove_left_out(std::span<const std::uint32_t> update, std::size_t begin, Item& item) const;

  const Sampler& sampler_;
  std::int64_t micro_;
  Range range_;
  std::uint64_t first_ = 0;  // of the range's micro-batches, counted from the start of its first epoch
  std::uint64_t size_ = 0;
  std::mutex mutex_;
  std::array<Epoch, 2> epochs_;
};

}  // namespace plimsoll
