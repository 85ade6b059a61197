// Tests updates with NaN or infinity: the finding, the files, the run's reaction, and replay.
#include <cmath>

#include "formats/safetensors.h"
#include "train/gradients.h"
#include "train/step_record.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

const std::string kWeight = "layoutlmv3.encoder.layer.0.intermediate.dense.weight";
const std::string kPositions = "layoutlmv3.embeddings.position_embeddings.weight";

// Returns a model directory with good weights.
fs::path trained_model(const ScratchFolder& folder) {
  SmallRun run(folder.make("good"));
  run.options.max_steps = 1;
  run.train();
  return run.options.output_dir;
}

void plant(const fs::path& model, const std::string& tensor, std::int64_t first, std::int64_t count, float value) {
  const fs::path path = model / "model.safetensors";
  const std::uint64_t offset = SafetensorsReader(path).at(tensor).offset_bytes;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset + 4 * static_cast<std::uint64_t>(first)));
  for (std::int64_t i = 0; i < count; ++i) file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  ASSERT_TRUE(file.good());
  fs::remove(model / "checksums.json");  // changed on purpose
}

Problem diverge(SmallRun& run) {
  try {
    run.train();
  } catch (const DivergedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kDiverged);
    return error.problem();
  }
  ADD_FAILURE() << "the run went on";
  return {};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void expect_same_replay(const fs::path& directory, const std::string& found) {
  CpuBackend backend(1);
  const Replay replay = replay_step(directory, backend);
  ASSERT_TRUE(replay.fault) << directory;
  EXPECT_TRUE(replay.same) << describe(*replay.fault);
  EXPECT_TRUE(has(found, describe(*replay.fault))) << found << "\n" << describe(*replay.fault);
}

// A file with such a weight is refused when it is read, so only an update can cause one: here the first, whose learning
// rate is not a finite float.
void lose_weights(SmallRun& run) {
  run.options.learning_rate = 1e39;
  run.options.schedule = {SchedulerType::kConstant};
}

TEST(NonFinite, AWeightIsNamed) {
  const ScratchFolder folder;
  for (const std::int64_t micro : {2, 4}) {
    SmallRun run(folder.make("run" + std::to_string(micro)));
    run.micro_batch = micro;
    if (micro == 2) {  // the step is recorded with its loss
      run.class_weights = {.named = {{"B-TOTAL", 4}}};
      run.loss.label_smoothing = 0.1;
    }
    lose_weights(run);
    const Problem problem = diverge(run);
    EXPECT_TRUE(has(problem.found, "before ")) << problem.found;
    EXPECT_TRUE(has(problem.found, ".weight' F32[")) << problem.found;
    EXPECT_TRUE(has(problem.where, "update 2, ")) << problem.where;
    EXPECT_TRUE(has(problem.where, "pages.jsonl:")) << problem.where;
    expect_same_replay(run.options.output_dir / "nonfinite-step-2", problem.found);
    EXPECT_TRUE(list_checkpoints(run.options.output_dir).empty()) << "weights that are lost are no checkpoint";
  }
}

// The product of finite weights overflows: the op that makes it is named, and no parameter has changed, whatever the
// update mode is.
TEST(NonFinite, AnOpIsNamedAndNothingChanges) {
  const ScratchFolder folder;
  const fs::path model = trained_model(folder);
  plant(model, kWeight, 0, 48, 3e38F);
  struct Mode {
    std::int64_t micro;
    std::optional<UpdateMode> update;
    double max_grad_norm;
    DType precision;
  };
  for (const Mode& mode : {Mode{2, {}, 1, DType::kF32}, Mode{4, {}, 1, DType::kF32}, Mode{4, {}, 0, DType::kF32},
                           Mode{2, {}, 0, DType::kF32}, Mode{4, UpdateMode::kInBackward, 0, DType::kF32},
                           Mode{4, UpdateMode::kTwoPasses, 1, DType::kF32}, Mode{4, {}, 1, DType::kBF16}}) {
    const ScratchFolder output;
    SmallRun run(output.make("run"));
    run.model = model;
    run.micro_batch = mode.micro;
    run.update = mode.update;
    run.options.max_grad_norm = mode.max_grad_norm;
    run.options.precision = mode.precision;
    const Problem problem = diverge(run);
    EXPECT_TRUE(has(problem.found, "linear 'layoutlmv3.encoder.layer.0.intermediate.dense' makes ")) << problem.found;
    const fs::path directory = run.options.output_dir / "nonfinite-step-1";
    expect_same_replay(directory, problem.found);
    EXPECT_EQ(file_bytes(directory / "model" / "model.safetensors"), file_bytes(model / "model.safetensors"));
    const ModelBundle bundle = open_weights_only(model.string());
    CpuBackend backend(1);
    EXPECT_FALSE(std::isfinite(
        compute_gradients(bundle, directory / "batch-0.safetensors", output.path() / "gradients", backend).loss));
  }
}

TEST(NonFinite, AFrozenModelInCodesAndAdaptersAreReplayedToo) {
  const ScratchFolder folder;
  const fs::path model = trained_model(folder);
  plant(model, kWeight, 0, 48, 3e38F);
  PartsRequest codes, adapters, both;
  codes.freeze = {"layoutlmv3.encoder.*", "layoutlmv3.embeddings.word_embeddings.*"};
  codes.frozen_weights = DType::kNF4;
  adapters.lora_rank = both.lora_rank = 2;
  both.frozen_weights = DType::kQ8;
  for (const PartsRequest* parts : {&codes, &adapters, &both}) {
    const ScratchFolder output;
    SmallRun run(output.make("run"));
    run.model = model;
    run.parts = *parts;
    const Problem problem = diverge(run);
    EXPECT_TRUE(has(problem.found, "linear 'layoutlmv3.encoder.layer.0.intermediate.dense' makes ")) << problem.found;
    expect_same_replay(run.options.output_dir / "nonfinite-step-1", problem.found);
  }
}

TEST(NonFinite, MendedWeightsReplayFinite) {
  const ScratchFolder folder;
  const fs::path model = trained_model(folder);
  SmallRun run(folder.make("run"));
  run.model = model;
  plant(model, kWeight, 0, 48, 3e38F);
  diverge(run);
  const fs::path directory = run.options.output_dir / "nonfinite-step-1";
  plant(directory / "model", kWeight, 0, 48, 0);
  CpuBackend backend(1);
  const Replay replay = replay_step(directory, backend);
  EXPECT_FALSE(replay.fault) << describe(*replay.fault);
  EXPECT_FALSE(replay.same);
}

TEST(NonFinite, ABlownUpLearningRateLeavesAGoodCheckpoint) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.options.learning_rate = 1e30;
  run.options.schedule = {SchedulerType::kConstant};
  const Problem problem = diverge(run);
  EXPECT_TRUE(has(problem.where, "update 2, ")) << problem.where;
  EXPECT_TRUE(has(problem.remedy, "checkpoint-1")) << problem.remedy;
  expect_same_replay(run.options.output_dir / "nonfinite-step-2", problem.found);
  ASSERT_EQ(list_checkpoints(run.options.output_dir), std::vector<std::int64_t>{1});
  const SafetensorsReader weights(checkpoint_path(run.options.output_dir, 1) / "model.safetensors");
  for (const TensorEntry& entry : weights.entries()) {
    std::vector<float> values(static_cast<std::size_t>(entry.type.shape.elements()));
    weights.read(entry.name, std::as_writable_bytes(std::span(values)));
    for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << entry.name;
  }
}

// Only the longest page has this position: with it an update overflows, without it nothing is wrong.
TEST(NonFinite, SkippingLeavesTheBadPageOut) {
  const ScratchFolder folder;
  const fs::path model = trained_model(folder);
  std::int64_t longest = 0;
  {
    const ModelBundle bundle = open_model(model.string());
    const auto data = open_dataset(
        bundle, {.data = {SmallRun(folder.make("data")).data_folder() / "pages.jsonl"}, .box_format = BoxFormat::k1000},
        false);
    for (const Example& example : data->examples()) longest = std::max<std::int64_t>(longest, example.tokens);
    plant(model, kPositions, 48 * (bundle.facts().token.pad_id + longest), 48, 3e38F);
  }
  for (const std::int64_t micro : {2, 4}) {
    SmallRun run(folder.make("run" + std::to_string(micro)));
    run.model = model;
    run.micro_batch = micro;
    run.options.skip_nonfinite = true;
    run.options.log_order = true;
    const TrainSummary summary = run.train();
    EXPECT_EQ(summary.steps, 6);
    // There are two updates per epoch, one or both of which have such a page.
    EXPECT_GE(summary.skipped_updates, 3);
    EXPECT_LT(summary.skipped_updates, 6);
    int records = 0;
    for (const auto& entry : fs::directory_iterator(run.options.output_dir)) {
      records += entry.path().filename().string().starts_with("nonfinite-step-") ? 1 : 0;
    }
    EXPECT_EQ(records, 1) << "the first is enough";
    EXPECT_TRUE(std::isfinite(summary.last_loss.value_or(NAN)));
  }
}

TEST(NonFinite, SkippingDoesNotOutliveTheWeights) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  lose_weights(run);
  run.options.skip_nonfinite = true;
  const Problem problem = diverge(run);
  EXPECT_TRUE(has(problem.what, "does not help"));
  EXPECT_FALSE(has(problem.remedy, "--on-nonfinite")) << problem.remedy;
  EXPECT_FALSE(has(problem.found, "-nan")) << problem.found;
}

TEST(NonFinite, LookingAtEveryOutputChangesNoBit) {
  const ScratchFolder folder;
  int name = 0;
  for (const std::int64_t micro : {2, 4}) {
    for (const bool offload : {false, true}) {
      for (const DType precision : {DType::kF32, DType::kBF16, DType::kF16}) {
        SmallRun plain(folder.make("plain" + std::to_string(name))),
            looked(folder.make("looked" + std::to_string(name)));
        ++name;
        for (SmallRun* run : {&plain, &looked}) {
          run->micro_batch = micro;
          run->offload = offload;
          run->options.precision = precision;
          run->options.save_steps = 6;
        }
        looked.options.detect_anomaly = looked.options.skip_nonfinite = true;
        plain.train();
        looked.train();
        for (const char* file : {"model.safetensors", "checkpoint-6/optimizer.safetensors"}) {
          EXPECT_TRUE(file_bytes(plain.options.output_dir / file) == file_bytes(looked.options.output_dir / file))
              << file << ", micro-batches of " << micro << ", offloaded " << offload << ", "
              << precision_name(precision);
        }
      }
    }
  }
}

TEST(NonFinite, LookingFindsTheSame) {
  const ScratchFolder folder;
  const fs::path model = trained_model(folder);
  plant(model, kWeight, 0, 48, 3e38F);
  for (const bool offload : {false, true}) {
    const ScratchFolder output;
    SmallRun run(output.make("run"));
    run.model = model;
    run.offload = offload;
    run.options.detect_anomaly = true;
    const Problem problem = diverge(run);
    EXPECT_TRUE(has(problem.found, "linear 'layoutlmv3.encoder.layer.0.intermediate.dense' makes ")) << problem.found;
    expect_same_replay(run.options.output_dir / "nonfinite-step-1", problem.found);
  }
}

// The update itself causes the fault and is found when it does.
TEST(NonFinite, LookingFindsTheUpdateThatLosesAWeight) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  lose_weights(run);
  run.options.detect_anomaly = true;
  const Problem problem = diverge(run);
  EXPECT_TRUE(has(problem.where, "update 1, ")) << problem.where;
  EXPECT_TRUE(has(problem.found, "adamw")) << problem.found;
  EXPECT_TRUE(list_checkpoints(run.options.output_dir).empty());
}

}  // namespace
}  // namespace plimsoll
