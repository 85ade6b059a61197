#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "base/error.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;

std::vector<Example> examples_of(std::size_t count) {
  std::mt19937 random(1);
  std::vector<Example> examples(count);
  for (Example& example : examples) {
    example.tokens = static_cast<std::uint16_t>(10 + random() % 500);
    example.loss_terms = static_cast<std::uint16_t>(example.tokens / 2);
  }
  return examples;
}

TEST(Permute, IsAPermutationThatSeedAndEpochDecide) {
  std::vector<std::uint32_t> a(1000), b(1000), sorted(1000);
  std::iota(sorted.begin(), sorted.end(), 0U);
  permute(42, 3, a);
  permute(42, 3, b);
  EXPECT_EQ(a, b);
  permute(42, 4, b);
  EXPECT_NE(a, b);
  permute(43, 3, b);
  EXPECT_NE(a, b);
  permute(42 + (std::uint64_t{1} << 32), 3, b);
  EXPECT_NE(a, b);
  std::sort(a.begin(), a.end());
  EXPECT_EQ(a, sorted);
  std::vector<std::uint32_t> one(1), none;
  permute(1, 1, one);
  permute(1, 1, none);
  EXPECT_THAT(one, ElementsAre(0));
}

// The order is part of a run's identity: it must never change. (Expected values from the formula, in Python.)
TEST(Permute, OrderIsFixedForAllTime) {
  std::vector<std::uint32_t> order(8);
  permute(42, 0, order);
  EXPECT_THAT(order, ElementsAre(4, 3, 5, 2, 6, 1, 7, 0));
  permute((std::uint64_t{7} << 32) | 5, (std::uint64_t{1} << 33) | 2, order);
  EXPECT_THAT(order, ElementsAre(2, 4, 1, 5, 7, 3, 0, 6));
}

// Every order of four is equally frequent: chi-squared over 24 orders, 23 degrees of freedom (99.9 % quantile: 49.7).
TEST(Permute, IsUnbiased) {
  std::map<std::vector<std::uint32_t>, int> seen;
  constexpr int kRounds = 24000;
  std::vector<std::uint32_t> order(4);
  for (int epoch = 0; epoch < kRounds; ++epoch) {
    permute(9, static_cast<std::uint64_t>(epoch), order);
    ++seen[order];
  }
  ASSERT_EQ(seen.size(), 24U);
  double chi_squared = 0;
  for (const auto& [key, count] : seen) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 49.7);
}

TEST(Sampler, CutsAnEpochIntoUpdates) {
  const auto examples = examples_of(21);
  const Sampler sampler(examples, {.seed = 1, .train_batch_size = 8});
  EXPECT_EQ(sampler.updates_per_epoch(), 3);
  EXPECT_EQ(sampler.samples_in_update(0), 8);
  EXPECT_EQ(sampler.samples_in_update(2), 5);
  EXPECT_DOUBLE_EQ(sampler.epochs_after(2), 16.0 / 21);
  EXPECT_DOUBLE_EQ(sampler.epochs_after(3), 1);
  EXPECT_DOUBLE_EQ(sampler.epochs_after(4), 1 + 8.0 / 21);
  EXPECT_EQ(sampler.micro_batches_in_update(0, 3), 3);
  EXPECT_EQ(sampler.micro_batches_in_update(2, 3), 2);
  EXPECT_EQ(sampler.micro_batches_per_epoch(3), 8);
  EXPECT_EQ(sampler.micro_batches_per_epoch(100), 3);
  std::vector<std::uint32_t> order(21);
  sampler.epoch_order(5, order);
  EXPECT_EQ(sampler.update(order, 2).data(), order.data() + 16);
  EXPECT_EQ(sampler.update(order, 2).size(), 5U);
  const Sampler in_order(examples, {.train_batch_size = 8, .order = SampleOrder::kSequential});
  in_order.epoch_order(5, order);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Sampler, KnowsTheLargestMicroBatchExactly) {
  const auto examples = examples_of(53);
  for (const std::int64_t pad_to : {0, 300}) {
    const Sampler sampler(examples, {.seed = 4, .train_batch_size = 8, .pad_to = pad_to});
    for (const std::int64_t micro : {1, 3, 8, 20}) {
      std::int64_t largest = 0;
      BatchSequence sequence(sampler, micro, {.epoch = 2, .updates = 3 * sampler.updates_per_epoch()});
      BatchSequence::Item item;
      for (std::uint64_t i = 0; i < sequence.size(); ++i) {
        sequence.get(i, item);
        std::int64_t rows = 0;
        for (const std::uint32_t e : item.examples) rows += std::max<std::int64_t>(examples[e].tokens, pad_to);
        largest = std::max(largest, rows);
      }
      EXPECT_EQ(sampler.largest_text_rows(2, 3, micro), largest);
    }
  }
}

TEST(Sampler, LeavesOutWhatFillsNoWholeBatch) {
  const auto examples = examples_of(23);
  const Sampler sampler(examples, {.seed = 1, .train_batch_size = 8, .multiple = 4});
  EXPECT_EQ(sampler.samples_per_epoch(), 20);
  EXPECT_EQ(sampler.updates_per_epoch(), 3);
  EXPECT_EQ(sampler.samples_in_update(2), 4);
  EXPECT_EQ(sampler.micro_batches_per_epoch(3), 3 + 3 + 2);
  BatchSequence sequence(sampler, 3, {.epoch = 0, .updates = 2 * sampler.updates_per_epoch()});
  BatchSequence::Item item;
  std::size_t seen = 0;
  for (std::uint64_t i = 0; i < sequence.size(); ++i) {
    sequence.get(i, item);
    seen += item.examples.size();
  }
  EXPECT_EQ(seen, 40U);
  EXPECT_THROW(Sampler(examples, {.train_batch_size = 24, .multiple = 24}), UsageError);
}

// As get_length_grouped_indices of transformers groups a permutation.
TEST(Sampler, GroupsByLength) {
  for (const std::size_t count : {1U, 7U, 64U, 500U}) {
    const auto examples = examples_of(count);
    const std::int64_t batch = 4;
    const Sampler sampler(examples, {.seed = 3, .train_batch_size = batch, .order = SampleOrder::kByLength});
    std::vector<std::uint32_t> order(count), expected(count);
    sampler.epoch_order(2, order);
    permute(3, 2, expected);
    const auto longer = [&](std::uint32_t a, std::uint32_t b) {
      return examples[a].tokens != examples[b].tokens ? examples[a].tokens > examples[b].tokens : a < b;
    };
    const std::size_t group = 4 * std::max<std::size_t>(1, std::min<std::size_t>(50, count / 16));
    std::vector<std::vector<std::uint32_t>> groups;
    for (std::size_t begin = 0; begin < count; begin += group) {
      groups.emplace_back(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                          expected.begin() + static_cast<std::ptrdiff_t>(std::min(begin + group, count)));
      std::ranges::sort(groups.back(), longer);
    }
    const auto longest = std::ranges::max_element(
        groups, [&](const auto& a, const auto& b) { return examples[a[0]].tokens < examples[b[0]].tokens; });
    std::swap(groups[0][0], (*longest)[0]);
    expected.clear();
    for (const auto& each : groups) expected.insert(expected.end(), each.begin(), each.end());
    EXPECT_EQ(order, expected) << count;
  }
}

// Ranks share every update: each sample is dealt once, with the key that it has in a run of one process, and ranks have
// equal work. An update of fewer samples leaves a rank without any, and it has as many micro-batches all the same.
TEST(BatchSequence, DealsUpdatesToRanks) {
  const auto examples = examples_of(61);
  for (const int ranks : {2, 3, 4}) {
    for (const std::int64_t micro : {1, 2, 4}) {
      std::map<std::pair<std::uint64_t, std::uint64_t>, std::map<std::int32_t, std::uint32_t>> dealt;
      std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::int64_t>> tokens;
      std::vector<std::uint64_t> sizes;
      for (int rank = 0; rank < ranks; ++rank) {
        const Sampler sampler(examples, {.seed = 5, .train_batch_size = 12, .rank = rank, .ranks = ranks});
        BatchSequence sequence(sampler, micro, {.epoch = 1, .update = 0, .updates = 6});
        sizes.push_back(sequence.size());
        BatchSequence::Item item;
        for (std::uint64_t i = 0; i < sequence.size(); ++i) {
          sequence.get(i, item);
          const std::pair update(item.info.epoch, item.info.update);
          ASSERT_EQ(item.examples.size(), item.keys.size());
          EXPECT_LE(item.examples.size(), static_cast<std::size_t>(micro));
          auto& counts = tokens[update];
          counts.resize(static_cast<std::size_t>(ranks));
          for (std::size_t e = 0; e < item.examples.size(); ++e) {
            EXPECT_TRUE(dealt[update].emplace(item.keys[e], item.examples[e]).second) << "dealt twice";
            counts[static_cast<std::size_t>(rank)] += examples[item.examples[e]].tokens;
          }
          EXPECT_EQ(item.info.samples_in_update, sampler.samples_in_update(static_cast<std::int64_t>(update.second)));
        }
      }
      for (const std::uint64_t size : sizes) EXPECT_EQ(size, sizes.front());
      const Sampler alone(examples, {.seed = 5, .train_batch_size = 12});
      std::vector<std::uint32_t> order(examples.size());
      for (const auto& [update, samples] : dealt) {
        alone.epoch_order(update.first, order);
        const auto expected = alone.update(order, static_cast<std::int64_t>(update.second));
        ASSERT_EQ(samples.size(), expected.size());
        for (const auto& [key, example] : samples) EXPECT_EQ(example, expected[static_cast<std::size_t>(key)]);
        const auto [least, most] = std::ranges::minmax(tokens[update]);
        if (expected.size() == 12) {
          EXPECT_LE(most - least, 510) << "by no more than one page";
        }
      }
    }
  }
}

TEST(BatchSequence, WalksOverEpochs) {
  const auto examples = examples_of(21);
  const Sampler sampler(examples, {.seed = 1, .train_batch_size = 8});
  // From the second update of epoch 4, five updates: 2 of epoch 4, 3 of epoch 5.
  BatchSequence sequence(sampler, 3, {.epoch = 4, .update = 1, .updates = 5});
  ASSERT_EQ(sequence.size(), 3U + 2U + 3U + 3U + 2U);
  std::vector<std::uint32_t> order(21);
  BatchSequence::Item item;
  std::uint64_t index = 0;
  for (const auto& [epoch, update] : {std::pair{4, 1}, {4, 2}, {5, 0}, {5, 1}, {5, 2}}) {
    sampler.epoch_order(static_cast<std::uint64_t>(epoch), order);
    const auto samples = sampler.update(order, update);
    std::vector<std::uint32_t> seen;
    for (std::uint32_t m = 0; m < sampler.micro_batches_in_update(update, 3); ++m) {
      sequence.get(index++, item);
      EXPECT_EQ(item.keys.front(), static_cast<std::int32_t>(seen.size()));
      EXPECT_EQ(item.info, (MicroBatchInfo{.epoch = static_cast<std::uint64_t>(epoch),
                                           .update = static_cast<std::uint64_t>(update),
                                           .micro_batch = m,
                                           .micro_batches = update == 2 ? 2U : 3U,
                                           .samples_in_update = update == 2 ? 5 : 8,
                                           .loss_weight_in_update = sampler.loss_weight(samples),
                                           .loss_terms_in_update = sampler.loss_terms(samples),
                                           .text_rows_in_update = sampler.text_rows(samples)}));
      seen.insert(seen.end(), item.examples.begin(), item.examples.end());
    }
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), samples.begin(), samples.end()));
  }
  // Asking again, and out of order, gives the same.
  BatchSequence::Item again;
  for (const std::uint64_t i : {12U, 0U, 5U, 4U}) {
    sequence.get(i, item);
    BatchSequence(sampler, 3, {.epoch = 4, .update = 1, .updates = 5}).get(i, again);
    EXPECT_EQ(item.examples, again.examples);
    EXPECT_EQ(item.info, again.info);
  }
}

// Pairs of which the pages have lengths of their own.
std::vector<Example> pairs_of(std::size_t count) {
  std::vector<Example> pairs(count);
  for (std::size_t i = 0; i < count; ++i) {
    pairs[i].page = static_cast<std::uint32_t>(i);
    pairs[i].begin = 3 + static_cast<std::uint32_t>(i * 7 % 11);
    pairs[i].tokens = static_cast<std::uint16_t>(pairs[i].begin + 2 + i * 5 % 13);
    pairs[i].loss_terms = 1;
  }
  return pairs;
}

// Each update comes twice, cut the same way: every page once, in order, in chunks that hold as many as the limits
// allow.
TEST(BatchSequence, CutsPairsIntoChunksTwice) {
  const auto pairs = pairs_of(23);
  for (const bool leaves_out : {false, true}) {
    Sampler sampler(pairs, {.seed = 5, .train_batch_size = 6});
    if (leaves_out) {
      for (const std::uint32_t page : {3U, 8U, 9U}) sampler.leave_out(page);
    }
    for (const ChunkLimits limits :
         {ChunkLimits{1, 14}, ChunkLimits{3, 14}, ChunkLimits{4, 30}, ChunkLimits{64, 999}}) {
      const std::int64_t updates = 3 * sampler.updates_per_epoch() + 1;  // the last one in another epoch
      BatchSequence sequence(sampler, limits, {.epoch = 2, .update = 1, .updates = updates});
      BatchSequence::Item item;
      std::uint64_t next = 0;
      std::vector<std::uint32_t> order(pairs.size());
      for (std::int64_t u = 1; u <= updates; ++u) {
        const std::uint64_t epoch = 2 + static_cast<std::uint64_t>(u / sampler.updates_per_epoch());
        sampler.epoch_order(epoch, order);
        std::vector<std::uint32_t> kept;
        for (const std::uint32_t pair : sampler.update(order, u % sampler.updates_per_epoch())) {
          if (!sampler.leaves_out(pair)) kept.push_back(pair);
        }
        for (const bool first_pass : {true, false}) {
          std::int64_t sample = 0;
          for (std::uint32_t chunk = 0, chunks = 1; chunk < chunks; ++chunk) {
            ASSERT_LT(next, sequence.size());
            sequence.get(next++, item);
            EXPECT_EQ(item.info.epoch, epoch);
            EXPECT_EQ(item.info.update, static_cast<std::uint64_t>(u % sampler.updates_per_epoch()));
            EXPECT_EQ(item.info.first_pass, first_pass);
            EXPECT_EQ(item.info.micro_batch, chunk);
            EXPECT_EQ(item.info.first_sample, sample);
            EXPECT_EQ(item.info.samples_in_update, static_cast<std::int64_t>(kept.size()));
            EXPECT_EQ(item.info.loss_weight_in_update, static_cast<double>(kept.size()));
            EXPECT_EQ(item.info.text_rows_in_update, sampler.text_rows(kept));
            chunks = item.info.micro_batches;
            std::int64_t samples = 0, rows = 0;
            for (std::size_t e = 0; e < item.examples.size(); ++e) {
              const Example& pair = pairs[item.examples[e]];
              for (int side = 0; side < 2; ++side) {
                if ((e == 0 && side < item.first_side) || (e + 1 == item.examples.size() && side > item.last_side)) {
                  continue;
                }
                EXPECT_EQ(item.examples[e], kept[static_cast<std::size_t>(sample) / 2]);
                EXPECT_EQ(item.keys[e], static_cast<std::int32_t>(sample / 2));
                EXPECT_EQ(side, static_cast<int>(sample % 2));
                rows += side == 0 ? pair.begin : pair.tokens - pair.begin;
                ++samples;
                ++sample;
              }
            }
            EXPECT_LE(samples, limits.samples);
            EXPECT_LE(rows, limits.text_rows);
            if (static_cast<std::size_t>(sample) == 2 * kept.size()) continue;
            const Example& then = pairs[kept[static_cast<std::size_t>(sample) / 2]];
            const std::int64_t more =
                sample % 2 == 0 ? std::int64_t{then.begin} : std::int64_t{then.tokens} - then.begin;
            EXPECT_TRUE(samples == limits.samples || rows + more > limits.text_rows) << "a page more has room";
          }
          EXPECT_EQ(static_cast<std::size_t>(sample), 2 * kept.size());
        }
      }
      EXPECT_EQ(next, sequence.size());
    }
  }
}

}  // namespace
}  // namespace plimsoll
