#include "data/loader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "data/batch_inputs.h"
#include "data/pages_fixture.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::image_file;
using test::ScratchFolder;
using test::small_processor;
using test::tokenized;

class LoaderTest : public testing::Test {
 protected:
  static constexpr std::size_t kPages = 23;

  void SetUp() override {
    const char* images[] = {"rgb.png", "rgb_420.jpg", "palette.png", "tall.png"};
    std::string text;
    for (std::size_t i = 0; i < kPages; ++i) {
      // Page i has its own image file, so that a test can damage a single one.
      fs::copy_file(image_file(images[i % 4]), folder_.path() / fmt::format("{}.img", i));
      text += fmt::format(R"({{"image": "{}.img", "width": 10, "height": 10, "words": ["{}", "B"],)", i,
                          std::string(1 + i % 7, 'A'));
      text += R"("boxes": [[0, 0, 1, 1], [2, 2, 9, 9]], "labels": ["O", "B-X"]})"
              "\n";
    }
    path_ = folder_.write("data.jsonl", text);
    open_data({});
  }

  void open_data(const CacheOptions& cache, const WindowOptions& windows = {},
                 std::optional<std::uint64_t> augment = std::nullopt) {
    dataset_ = std::make_unique<Dataset>(
        tokenized(path_), small_processor(),
        DatasetOptions{.windows = windows, .labels = LabelSet::parse("O,B-X"), .cache = cache, .augment = augment});
    sampler_ = std::make_unique<Sampler>(dataset_->examples(), SamplerOptions{.seed = 3, .train_batch_size = 6});
  }

  BatchShape shape() const { return test::shape_with_every_input(4, 80, {.size = 32, .patches_per_side = 2}); }
  BatchSequence::Range two_epochs() const { return {.epoch = 1, .update = 1, .updates = 7}; }
  // Returns every byte of every batch, one string each.
  std::vector<std::string> load_all(LoaderOptions options) { return load_all(options, two_epochs()); }
  std::vector<std::string> load_all(LoaderOptions options, BatchSequence::Range range) {
    BatchSequence sequence(*sampler_, 4, range);
    Loader loader(*dataset_, sequence, shape(), 0, options);
    std::vector<std::string> all;
    while (const Batch* batch = loader.next()) {
      all.push_back(bytes_of(*batch));
    }
    EXPECT_EQ(loader.next(), nullptr);
    return all;
  }
  static std::string bytes_of(const Batch& batch) {
    std::string bytes;
    for (const auto& [name, view] : batch.tensors()) bytes.append(static_cast<const char*>(view.raw()), view.bytes());
    for (const SampleReference& reference : batch.references()) bytes += fmt::format("{},", reference.page);
    return bytes;
  }

  ScratchFolder folder_;
  fs::path path_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Sampler> sampler_;
};

TEST_F(LoaderTest, BatchesDoNotDependOnWorkers) {
  const auto expected = load_all({.workers = 0});
  ASSERT_EQ(expected.size(), 2U * 7U);  // updates of 6 and 5 samples: two micro-batches each
  EXPECT_EQ(load_all({.workers = 1}), expected);
  EXPECT_EQ(load_all({.workers = 3}), expected);
  EXPECT_EQ(load_all({.workers = 5, .slots = 2}), expected);
  EXPECT_EQ(load_all({.workers = 2, .slots = 9}), expected);
}

// With windows of four tokens, pages have one to three windows.
TEST_F(LoaderTest, ShowsTheNextBatchWithoutTakingTheOneInUse) {
  BatchSequence sequence(*sampler_, 4, two_epochs());
  Loader loader(*dataset_, sequence, shape(), 0, {.workers = 1});
  const std::vector<std::string> expected = load_all({.workers = 0});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Batch* const batch = loader.next();
    const Batch* ahead = nullptr;
    while (i + 1 < expected.size() && (ahead = loader.peek()) == nullptr) std::this_thread::yield();
    EXPECT_NE(batch, ahead);
    EXPECT_EQ(bytes_of(*batch), expected[i]);
    if (ahead != nullptr) {
      EXPECT_EQ(bytes_of(*ahead), expected[i + 1]);
    }
  }
  EXPECT_EQ(loader.peek(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST_F(LoaderTest, ACacheChangesNoByteOfABatch) {
  const WindowOptions windows{.max_length = 6, .stride = 1};
  const CacheOptions cache{.directory = folder_ / "cache", .threads = 2};
  open_data({}, windows);
  const std::uint64_t plain_bytes = dataset_->workers_host_bytes(2, 0);
  const auto expected = load_all({.workers = 2});
  open_data(cache, windows);
  EXPECT_GT(dataset_->size(), kPages);
  EXPECT_GT(dataset_->workers_host_bytes(2, 0), plain_bytes) << "what is mapped counts";
  EXPECT_EQ(load_all({.workers = 2}), expected) << "just made";
  open_data(cache, windows);
  // Without its images only the cache is left.
  for (std::size_t i = 0; i < kPages; ++i) fs::remove(folder_.path() / fmt::format("{}.img", i));
  for (const int workers : {0, 1, 3}) EXPECT_EQ(load_all({.workers = workers}), expected);
}

TEST_F(LoaderTest, AugmentedBatchesDependOnSeedEpochAndPageAlone) {
  const auto plain = load_all({.workers = 2});
  open_data({}, {}, 7);
  const auto expected = load_all({.workers = 0});
  EXPECT_NE(expected, plain);
  EXPECT_EQ(load_all({.workers = 3}), expected);
  // A run that was resumed at the second epoch's first update.
  const auto rest = load_all({.workers = 2}, {.epoch = 2, .update = 0, .updates = 4});
  ASSERT_EQ(rest.size(), 8U);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.end() - 8));
  open_data({}, {}, 8);
  EXPECT_NE(load_all({.workers = 0}), expected);
}

// Every page of a damaged file comes from its image, wherever the damage is.
TEST_F(LoaderTest, ASpoiltCacheChangesNoByteOfABatch) {
  const CacheOptions cache{.directory = folder_ / "cache", .threads = 2};
  const auto expected = load_all({.workers = 2});
  open_data(cache);
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    if (entry.path().extension() != ".pages") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (std::size_t at = 1000; at + 1000 < entry.file_size(); at += 2000) file.seekp(static_cast<int>(at)).put('!');
  }
  open_data(cache);
  EXPECT_EQ(load_all({.workers = 3}), expected);
}

TEST_F(LoaderTest, BatchesHoldTheirExamples) {
  BatchSequence sequence(*sampler_, 4, two_epochs());
  BatchSequence::Item item;
  Loader loader(*dataset_, sequence, shape(), 20, {.workers = 2});
  Dataset::Scratch scratch;
  EncodedExample example;
  std::vector<std::uint8_t> pixels(dataset_->image_processor().pixel_count());
  for (std::uint64_t i = 0; i < sequence.size(); ++i) {
    const Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    sequence.get(i, item);
    EXPECT_EQ(batch->info(), item.info);
    ASSERT_EQ(batch->samples(), static_cast<std::int64_t>(item.examples.size()));
    EXPECT_EQ(batch->text_rows(), 20 * batch->samples());
    for (std::size_t b = 0; b < item.examples.size(); ++b) {
      EXPECT_EQ(batch->references()[b].example, item.examples[b]);
      dataset_->load(item.examples[b], scratch, example, pixels);
      const auto ids = batch->tensor("input_ids").span<std::int32_t>().subspan(20 * b, example.input_ids.size());
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), example.input_ids.begin()));
      const auto values = batch->tensor("pixel_values").span<std::uint8_t>().subspan(pixels.size() * b, pixels.size());
      EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), values.begin()));
      EXPECT_EQ(batch->tensor("row_keys")
                    .span<std::int32_t>()[static_cast<std::size_t>(
                        2 * batch->tensor("sample_offsets").span<std::int32_t>()[b])],
                item.keys[b]);
    }
  }
}

// An error comes in order, after every batch before it, whichever worker met it.
TEST_F(LoaderTest, RethrowsInOrder) {
  BatchSequence sequence(*sampler_, 4, two_epochs());
  BatchSequence::Item item;
  sequence.get(5, item);
  const std::uint32_t spoilt = dataset_->examples()[item.examples.front()].page;
  std::uint64_t first_bad = 0;
  for (bool found = false; !found; first_bad += found ? 0 : 1) {
    sequence.get(first_bad, item);
    for (const std::uint32_t e : item.examples) found = found || dataset_->examples()[e].page == spoilt;
  }
  fs::remove(folder_.path() / fmt::format("{}.img", spoilt));
  for (const int workers : {0, 1, 4}) {
    Loader loader(*dataset_, sequence, shape(), 0, {.workers = workers});
    for (std::uint64_t i = 0; i < first_bad; ++i) ASSERT_NE(loader.next(), nullptr);
    try {
      loader.next();
      ADD_FAILURE() << "a page that is gone was loaded";
    } catch (const BadPageError& error) {
      EXPECT_EQ(error.page(), spoilt);
      EXPECT_THAT(error.problem().where, testing::HasSubstr(fmt::format("data.jsonl:{}", spoilt + 1)));
    }
    EXPECT_THROW(loader.next(), BadPageError) << "and again";
  }
}

// The rest of an update has the same samples in the same micro-batches, numbered and counted without the gaps.
TEST_F(LoaderTest, LeavesPagesOut) {
  const BatchSequence::Range range = two_epochs();
  for (const std::int64_t micro : {1, 2, 4, 6}) {
    BatchSequence whole(*sampler_, micro, range);
    Sampler fewer(dataset_->examples(), sampler_->options());
    BatchSequence::Item item;
    whole.get(0, item);
    const std::uint32_t first = dataset_->examples()[item.examples.front()].page;
    for (const std::uint32_t page : {first, 3U, 4U}) fewer.leave_out(page);
    BatchSequence sequence(fewer, micro, range);
    ASSERT_EQ(sequence.size(), whole.size());
    struct Update {
      std::int64_t samples = 0, labelled = 0, rows = 0;
      std::uint32_t micro_batches = 0;
    };
    std::map<std::pair<std::uint64_t, std::uint64_t>, Update> updates;
    BatchSequence::Item kept;
    for (std::uint64_t i = 0; i < whole.size(); ++i) {
      whole.get(i, item);
      sequence.get(i, kept);
      std::erase_if(item.examples, [&](std::uint32_t example) { return fewer.leaves_out(example); });
      EXPECT_EQ(kept.examples, item.examples);
      if (kept.examples.empty()) continue;
      Update& update = updates[{kept.info.epoch, kept.info.update}];
      EXPECT_EQ(kept.keys.front(), update.samples);
      EXPECT_EQ(kept.info.micro_batch, update.micro_batches);
      ++update.micro_batches;
      update.samples += static_cast<std::int64_t>(kept.examples.size());
      update.labelled += fewer.loss_weight(kept.examples);
      update.rows += fewer.text_rows(kept.examples);
    }
    for (std::uint64_t i = 0; i < sequence.size(); ++i) {
      sequence.get(i, kept);
      const Update& update = updates[{kept.info.epoch, kept.info.update}];
      EXPECT_EQ(kept.info.samples_in_update, update.samples);
      EXPECT_EQ(kept.info.loss_weight_in_update, update.labelled);
      EXPECT_EQ(kept.info.text_rows_in_update, update.rows);
      if (!kept.examples.empty()) {
        EXPECT_EQ(kept.info.micro_batches, update.micro_batches);
      }
    }
  }
}

// A batch without samples stands for an update that has lost all its pages; it comes once.
TEST_F(LoaderTest, AnUpdateWithoutPagesIsSeen) {
  BatchSequence sequence(*sampler_, 2, two_epochs());
  BatchSequence::Item item;
  for (std::uint64_t i = 3; i < 6; ++i) {  // the second update: three micro-batches of two
    sequence.get(i, item);
    ASSERT_EQ(item.info.update, 2U);
    for (const std::uint32_t example : item.examples) sampler_->leave_out(dataset_->examples()[example].page);
  }
  for (const int workers : {0, 2}) {
    Loader loader(*dataset_, sequence, shape(), 0, {.workers = workers});
    std::vector<std::uint64_t> empty;
    std::uint64_t last = 0;
    while (const Batch* batch = loader.next()) {
      if (batch->samples() == 0) empty.push_back(batch->info().update);
      if (batch->info().epoch == 1) last = batch->info().update;
    }
    EXPECT_EQ(empty, std::vector<std::uint64_t>{2}) << workers << " workers";
    EXPECT_EQ(last, 3U);
  }
}

// Waiting for a batch, and making one, both check the interrupt; later batches are what they would have been.
TEST_F(LoaderTest, AnInterruptEndsTheWait) {
  const auto expected = load_all({.workers = 0});
  BatchSequence sequence(*sampler_, 4, two_epochs());
  for (const int workers : {0, 1, 3}) {
    Loader loader(*dataset_, sequence, shape(), 0, {.workers = workers});
    Interrupt interrupt, quiet;
    interrupt.request_save();
    std::vector<std::string> all;
    while (all.size() < expected.size()) {
      if (const Batch* batch = loader.next(all.size() % 2 == 0 ? &interrupt : &quiet)) {
        all.push_back(bytes_of(*batch));
      } else if (const Batch* later = loader.next()) {
        all.push_back(bytes_of(*later));
      }
    }
    EXPECT_EQ(all, expected) << workers << " workers";
  }
}

TEST_F(LoaderTest, StopsCleanlyAtAnyMoment) {
  BatchSequence sequence(*sampler_, 4, two_epochs());
  for (int taken = 0; taken < 5; ++taken) {
    Loader loader(*dataset_, sequence, shape(), 0, {.workers = 3});
    for (int i = 0; i < taken; ++i) ASSERT_NE(loader.next(), nullptr);
  }
}

TEST_F(LoaderTest, SaysWhatItHolds) {
  const BatchSequence sequence(*sampler_, 4, two_epochs());
  const std::uint64_t two = Loader::host_bytes(*dataset_, sequence, shape(), {.workers = 2});
  const std::uint64_t three = Loader::host_bytes(*dataset_, sequence, shape(), {.workers = 3});
  constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;
  const auto workers = [this](int count, std::uint64_t decoding) {
    return dataset_->workers_host_bytes(count, decoding);
  };
  BatchShape bytes = shape();
  bytes.pixel_type = DType::kU8;
  EXPECT_EQ(three - two, Batch::host_bytes(bytes) + workers(3, kPlenty) - workers(2, kPlenty));
  EXPECT_GT(two, 3 * Batch::host_bytes(bytes));
  EXPECT_EQ(Batch::host_bytes(shape()) - Batch::host_bytes(bytes), 3U * 4 * 3 * 32 * 32) << "of floats, a quarter";
  const std::uint64_t decode_bytes = workers(2, kPlenty) - workers(2, 0);  // the largest image's
  EXPECT_GE(decode_bytes, read_image_info(image_file("rgb_420.jpg")).decode_bytes);
  EXPECT_GT(workers(1, 0), decode_bytes) << "one image is decoded whatever the limit";
  EXPECT_EQ(workers(3, kPlenty) - workers(3, 0), 2 * decode_bytes);
  EXPECT_EQ(workers(3, 2 * decode_bytes) - workers(3, 0), decode_bytes);
}

}  // namespace
}  // namespace plimsoll
