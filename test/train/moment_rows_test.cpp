// Tests runs whose memory has only the rows of the data's tokens: the same bits, moments of these rows alone, and
// checkpoints that such runs, and others, resume.
#include "train/moment_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "formats/safetensors.h"
#include "support/expect_error.h"
#include "support/log_capture.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

constexpr const char* kTable = "layoutlmv3.embeddings.word_embeddings.weight";

struct Case {
  std::string name;
  std::function<void(SmallRun&)> setup;
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class MomentRowsOf : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<SmallRun> run_in(const std::string& name, bool knows_tokens) {
    auto run = std::make_unique<SmallRun>(folder_.make(name));
    run->options.save_steps = 3;
    run->options.weight_decay = 0.1;
    run->knows_tokens = knows_tokens;
    GetParam().setup(*run);
    return run;
  }
  static std::string model(const SmallRun& run) { return file_bytes(run.options.output_dir / "model.safetensors"); }
  static std::int64_t elements(const SmallRun& run, const std::string& state) {
    const SafetensorsReader file(checkpoint_path(run.options.output_dir, 6) / "optimizer.safetensors");
    return file.at(kTable + state).type.shape.elements();
  }

  ScratchFolder folder_;
};

TEST_P(MomentRowsOf, GiveTheSameBitsAsAllRows) {
  const auto all = run_in("all", false), some = run_in("some", true);
  all->train();
  some->train();
  EXPECT_TRUE(model(*some) == model(*all));
  // The data has about twenty tokens of a vocabulary of a thousand.
  EXPECT_LT(elements(*some, ".exp_avg"), elements(*all, ".exp_avg") / 20);
  EXPECT_EQ(elements(*some, ".exp_avg"), elements(*some, ".exp_avg_sq"));
}

// Pages that the run did not have at first add rows; of a checkpoint of all rows, those that had pages are kept.
TEST_P(MomentRowsOf, ResumeWithOtherPages) {
  std::string models[3];
  const std::pair<bool, bool> knows[3] = {{false, false}, {false, true}, {true, true}};  // at first, then
  for (std::size_t i = 0; i < 3; ++i) {
    const auto run = run_in("run" + std::to_string(i), knows[i].first);
    EXPECT_THROW(run->train(std::nullopt, 3), InterruptedError);
    run->knows_tokens = knows[i].second;
    run->rename_words("other");
    run->train(checkpoint_path(run->options.output_dir, 3));
    models[i] = model(*run);
    if (!knows[i].second) continue;
    EXPECT_LT(elements(*run, ".exp_avg"), 10 * elements(*run, ".slots"));  // of all rows it would be 48 times as many
  }
  EXPECT_TRUE(models[1] == models[0]);
  EXPECT_TRUE(models[2] == models[0]);
}

// So does a run that does not know its tokens.
TEST_P(MomentRowsOf, ResumeWhereAllRowsHaveMoments) {
  const auto all = run_in("all", false), some = run_in("some", true);
  all->train();
  EXPECT_THROW(some->train(std::nullopt, 3), InterruptedError);
  some->knows_tokens = false;
  some->train(checkpoint_path(some->options.output_dir, 3));
  EXPECT_TRUE(model(*some) == model(*all));
  EXPECT_EQ(elements(*some, ".exp_avg"), elements(*all, ".exp_avg"));
}

INSTANTIATE_TEST_SUITE_P(, MomentRowsOf,
                         testing::Values(Case{"MicroBatches", [](SmallRun&) {}},
                                         Case{"BFloat16", [](SmallRun& run) { run.options.precision = DType::kBF16; }},
                                         Case{"AdamW8bit",
                                              [](SmallRun& run) {
                                                run.options.optim = OptimizerKind::kAdamW8bit;
                                                run.model_keys = {{"hidden_size", 256},
                                                                  {"coordinate_size", 43},
                                                                  {"shape_size", 42},
                                                                  {"num_attention_heads", 4}};
                                              }},
                                         Case{"EveryCheckpoint",  // each begins with the one before
                                              [](SmallRun& run) { run.options.save_steps = 1; }},
                                         Case{"BestModel",
                                              [](SmallRun& run) {
                                                run.evaluates = true;
                                                run.options.eval_steps = run.options.save_steps = 1;
                                                run.options.learning_rate = 0.3;  // the loss goes up and down
                                                run.options.load_best_model_at_end = true;
                                                run.options.metric_for_best_model = "loss";
                                              }},
                                         Case{"SkippedUpdates",
                                              [](SmallRun& run) {
                                                run.options.precision = DType::kF16;
                                                run.options.fp16_initial_scale = 0x1p36;
                                              }},
                                         Case{"OtherRate",
                                              [](SmallRun& run) {
                                                run.options.rates = {.rates = {{"*word_embeddings*", 0.05}}};
                                              }},
                                         Case{"Offload",
                                              [](SmallRun& run) {
                                                run.options.max_grad_norm = 0;
                                                run.micro_batch = 4;
                                                run.offload = true;
                                              }}),
                         [](const auto& test) { return test.param.name; });

// Changes the last bit of the table's last row in a model's file.
void damage_table(const fs::path& path) {
  const std::optional<StoredTensor> table = open_weights(path).stored(kTable);
  ASSERT_TRUE(table);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto last = static_cast<std::streamoff>(table->offset_bytes + 8000 * 48 * sizeof(float) - 1);
  file.seekg(last);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(last);
  file.put(byte);
}

// Rows that memory lacks come from the latest checkpoint, or if that is damaged from what the run began with.
TEST(RowsInFiles, OfADamagedCheckpointAreNotTaken) {
  const ScratchFolder folder;
  std::string models[2];
  for (const bool damages : {false, true}) {
    SmallRun run(folder.make(damages ? "damaged" : "whole"));
    run.options.save_steps = 3;
    run.options.max_steps = 9;
    run.options.weight_decay = 0.1;
    run.on_step = [&](const StepReport& report) {
      if (damages && report.step == 4) damage_table(checkpoint_path(run.options.output_dir, 3) / "model.safetensors");
    };
    const LogCapture log;
    run.train();
    EXPECT_EQ(log.has("has changed since; what is not in memory is saved from the model that the run began with"),
              damages)
        << log.text();
    models[damages ? 1 : 0] = file_bytes(run.options.output_dir / "model.safetensors");
  }
  EXPECT_TRUE(models[0] == models[1]);
}

// What the run began with has nothing to take its place.
TEST(RowsInFiles, OfADamagedModelAreRefused) {
  const ScratchFolder folder;
  SmallRun first(folder.make("first"));
  first.train();
  SmallRun run(folder.make("run"));
  run.model = first.options.output_dir;
  run.options.save_steps = 3;
  run.on_step = [&](const StepReport& report) {
    if (report.step == 1) damage_table(run.model / "model.safetensors");
  };
  expect_error<DataError>([&] { run.train(); }, {"cannot write the checkpoint of update 3", "has changed since", kTable,
                                                 "there is no earlier checkpoint"});
}

// Rewrites the slots of a checkpoint without checksums, as an older version might have left it.
void change_slots(const fs::path& checkpoint, const std::function<void(std::vector<std::int32_t>&)>& change) {
  const fs::path path = checkpoint / "optimizer.safetensors", changed = checkpoint / "changed";
  {
    const SafetensorsReader file(path);
    std::vector<TensorDeclaration> tensors;
    std::vector<std::vector<std::byte>> contents;
    for (const TensorEntry& entry : file.entries()) {
      std::vector<std::byte> bytes(entry.type.bytes());
      file.read(entry.name, bytes);
      TensorType type = entry.type;
      if (entry.name == std::string(kTable) + ".slots") {
        std::vector<std::int32_t> slots(bytes.size() / 4);
        std::memcpy(slots.data(), bytes.data(), bytes.size());
        change(slots);
        bytes.resize(4 * slots.size());
        std::memcpy(bytes.data(), slots.data(), bytes.size());
        type.shape = {std::ssize(slots)};
      }
      tensors.push_back({entry.name, type});
      contents.push_back(std::move(bytes));
    }
    SafetensorsWriter writer(changed, tensors);
    for (const std::vector<std::byte>& bytes : contents) writer.write(bytes);
    writer.finish();
  }
  fs::rename(changed, path);
  fs::remove(checkpoint / "checksums.json");
}

TEST(MomentRowsInFiles, DamagedSlotsAreRefused) {
  using Slots = std::vector<std::int32_t>;
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.save_steps = 3;
  EXPECT_THROW(run.train(std::nullopt, 3), InterruptedError);
  const fs::path saved = checkpoint_path(run.options.output_dir, 3);
  const auto first = [](Slots& slots) {
    return std::ranges::find_if(slots, [](std::int32_t slot) { return slot >= 0; });
  };
  const std::function<void(Slots&)> damages[] = {[](Slots& slots) { slots.assign(slots.size(), -1); },
                                                 [&](Slots& slots) { *first(slots) = 1; },
                                                 [&](Slots& slots) { *first(slots) = -2; },
                                                 [&](Slots& slots) { *first(slots) = 1'000'000; },
                                                 [&](Slots& slots) { *first(slots) = -1; },
                                                 [](Slots& slots) { slots.push_back(-1); },
                                                 [](Slots& slots) { slots.clear(); }};
  for (const auto& damage : damages) {
    const fs::path copy = folder.path() / "copy" / "checkpoint-3";
    fs::remove_all(copy.parent_path());
    fs::create_directories(copy.parent_path());
    fs::copy(saved, copy, fs::copy_options::recursive);
    change_slots(copy, damage);
    EXPECT_THROW(run.train(copy), DataError) << &damage - damages;
  }
}

class OneTensor : public TensorSource {
 public:
  explicit OneTensor(std::vector<float> values) : TensorSource("memory"), values_(std::move(values)) {
    set_entries({{.name = "m", .type = {DType::kF32, {static_cast<std::int64_t>(values_.size())}}}});
  }

 private:
  void read_range(std::size_t, std::uint64_t first, std::span<std::byte> to) const override {
    std::memcpy(to.data(), values_.data() + first, to.size());
  }
  std::vector<float> values_;
};

TEST(MomentRows, GoWhereTheirRowsAre) {
  const OneTensor file({1, 2, 3, 4, 5, 6});  // rows 0, 2 and 3 of five, two columns
  const std::vector<std::int32_t> there = {0, -1, 1, 2, -1}, here = {-1, -1, 3, 0, 1};
  const auto read = [&](std::vector<std::int32_t> of_file, std::vector<std::int32_t> of_memory, std::uint64_t first,
                        std::size_t count) {
    std::vector<float> values(count, -1);
    MomentRows(of_file, of_memory).read(file, file.at("m"), first, std::as_writable_bytes(std::span(values)));
    return values;
  };
  EXPECT_EQ(read(there, {0, 3, 1, 2, 4}, 0, 10), (std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0, 0, 0}));
  EXPECT_EQ(read(there, {}, 0, 10), (std::vector<float>{1, 2, 0, 0, 3, 4, 5, 6, 0, 0}));
  EXPECT_EQ(read(there, {}, 3, 4), (std::vector<float>{0, 3, 4, 5}));  // pieces may begin within a row
  EXPECT_EQ(read({}, {2, 1, 0}, 0, 6), (std::vector<float>{5, 6, 3, 4, 1, 2}));
  EXPECT_THROW(MomentRows(there, here), InternalError);  // row 0 has nowhere to go
  EXPECT_EQ(slots_of(std::vector<std::int32_t>{1, 3}, 5), (std::vector<std::int32_t>{-1, 0, -1, 1, -1}));
}

}  // namespace
}  // namespace plimsoll::test
