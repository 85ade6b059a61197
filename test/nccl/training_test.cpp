// Whole runs on several emulated GPUs: every stage trains the same bits, and the same losses as one process on the CPU.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gpu_ranks.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

using SetRun = std::function<void(SmallRun&)>;

nlohmann::json train(const fs::path& output, const SetRun& setup, Communicator* ranks, int stage) {
  SmallRun run(output);
  run.options.max_steps = 4;
  setup(run);
  run.ranks = ranks;
  run.zero_stage = stage;
  if (ranks != nullptr) {
    run.make_backend = [ranks] { return gpu_of_rank(*ranks); };
  }
  run.train();
  nlohmann::json said = {{"losses", nlohmann::json::array()}, {"norms", nlohmann::json::array()}};
  for (const StepReport& report : run.reports) {
    said["losses"].push_back(report.loss);
    said["norms"].push_back(report.gradient_norm);
  }
  said["choices"] = run.choices.algorithms;
  if (ranks != nullptr) {
    said["captures"] = cuda_emulator::graph_calls().captures;
    said["launches"] = cuda_emulator::graph_calls().launches;
    said["sent"] = ranks->traffic().sent_bytes;
  }
  return said;
}

class GpuTraining : public testing::Test {
 protected:
  // In processes of their own, because the CPU's threads do not survive a fork.
  nlohmann::json alone(const SetRun& setup) {
    const fs::path output = folder_.make("alone");
    return parse(Forked([&] { return train(output, setup, nullptr, 0).dump(); }).wait());
  }
  nlohmann::json together(int count, const SetRun& setup, int stage) {
    const fs::path output = folder_.make("stage" + std::to_string(stage));
    std::vector<nlohmann::json> all;
    for (const std::string& said :
         fork_ranks(count, [&](Communicator& ranks) { return train(output, setup, &ranks, stage).dump(); })) {
      all.push_back(parse(said));
      for (const char* key : {"losses", "norms", "choices", "captures", "launches"}) {
        EXPECT_EQ(all.back()[key], all.front()[key]) << key << " of rank " << all.size() - 1 << ", stage " << stage;
      }
      EXPECT_GT(all.back()["sent"], 0);
    }
    all.front()["model"] = std::to_string(std::hash<std::string>()(file_bytes(output / "model.safetensors")));
    return all.front();
  }
  void expect_same_in_every_stage(int ranks, const SetRun& setup, double tolerance, const std::vector<int>& stages) {
    const nlohmann::json expected = alone(setup);
    nlohmann::json first;
    for (const int stage : stages) {
      const nlohmann::json found = together(ranks, setup, stage);
      ASSERT_EQ(found["losses"].size(), expected["losses"].size()) << found;
      if (first.is_null()) first = found;
      for (const char* key : {"losses", "norms", "model"})
        EXPECT_EQ(found[key], first[key]) << key << ", stage " << stage;
      for (std::size_t i = 0; i < expected["losses"].size(); ++i) {
        const double loss = expected["losses"][i];
        EXPECT_NEAR(found["losses"][i].get<double>(), loss, tolerance * loss)
            << "stage " << stage << ", update " << i + 1;
      }
      EXPECT_GT(found["captures"], 0);
    }
  }

 private:
  static nlohmann::json parse(const std::string& said) {
    const nlohmann::json parsed = nlohmann::json::parse(said, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << said;
    return parsed.is_discarded() ? nlohmann::json::object() : parsed;
  }
  ScratchFolder folder_;
};

TEST_F(GpuTraining, EveryStageTrainsTheSameBits) {
  expect_same_in_every_stage(2, [](SmallRun& run) { run.micro_batch = 4; }, 1e-5, {0, 1, 2, 3});
}

TEST_F(GpuTraining, SoDoFourRanksWithMicroBatches) {
  expect_same_in_every_stage(4,
                             [](SmallRun& run) {
                               run.micro_batch = 1;
                               run.options.train_batch_size =
                                   6;  // so that two ranks have one micro-batch without pages
                               run.sums_each_micro_batch = true;
                               run.evaluates = true;
                             },
                             1e-5, {0, 3});
}

TEST_F(GpuTraining, SoDoHalves) {
  expect_same_in_every_stage(2,
                             [](SmallRun& run) {
                               run.micro_batch = 2;
                               run.options.precision = DType::kBF16;
                             },
                             2e-2, {0, 2});
}

}  // namespace
}  // namespace plimsoll::test
