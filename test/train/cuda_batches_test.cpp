// Products that an emulated GPU computes at once: a run has the same bits with them and without, and takes them only
// where `tune` found that they are the same and faster.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "cublaslt_emulator.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class CudaBatches : public testing::Test {
 protected:
  CudaBatches() { settle(); }
  ~CudaBatches() override { settle(); }

  struct Outcome {
    std::string model{};
    int batches = 0;                           // calls for several products at once, in steps
    std::size_t together = 0, one_by_one = 0;  // choices
  };

  // `prepare` changes the small run.
  Outcome trained(
      const std::string& name, const std::function<void(SmallRun&)>& prepare = [](SmallRun&) {}) {
    SmallRun run(folder_.make(name));
    run.options.max_steps = 3;
    run.make_backend = [] { return std::make_unique<CudaBackend>(); };
    prepare(run);
    run.with_interrupt = [](Interrupt&) { cuda_emulator::lt_calls().batches = 0; };  // after tuning
    run.train();
    const bool adapts = run.parts.lora_rank > 0;
    Outcome outcome{
        .model = file_bytes(run.options.output_dir / (adapts ? "adapter_model.safetensors" : "model.safetensors")),
        .batches = cuda_emulator::lt_calls().batches};
    for (const auto& [product, algorithm] : run.choices.algorithms) {
      if (product.find(" x") == std::string::npos) continue;
      ++(algorithm == "one at a time" ? outcome.one_by_one : outcome.together);
    }
    return outcome;
  }

  ScratchFolder folder_;

 private:
  static void settle() {
    cuda_emulator::set_product_times(1, 1, 1);
    cuda_emulator::refuse_batches(false);
    cuda_emulator::sum_otherwise_in_batches(false);
    cuda_emulator::set_batch_time(1);
  }
};

TEST_F(CudaBatches, GiveTheSameBitsAsSingleProducts) {
  const Outcome batched = trained("batched");
  EXPECT_GT(batched.together, 0U);
  cuda_emulator::refuse_batches(true);
  const Outcome single = trained("single");
  const Outcome eager = trained("eager", [](SmallRun& run) {
    run.make_backend = [] {
      auto backend = std::make_unique<CudaBackend>();
      backend->start_one_by_one();
      return backend;
    };
  });
  EXPECT_TRUE(eager.model == single.model);
  cuda_emulator::refuse_batches(false);
  const Outcome apart = trained("apart", [](SmallRun& run) {
    run.make_backend = [] {
      auto backend = std::make_unique<CudaBackend>();
      backend->multiply_one_by_one();
      return backend;
    };
  });
  EXPECT_EQ(apart.batches, 0);
  EXPECT_TRUE(apart.model == single.model);
  EXPECT_GT(batched.batches, 0);
  EXPECT_EQ(single.batches, 0);
  EXPECT_EQ(single.together, 0U);
  EXPECT_EQ(single.one_by_one, batched.together + batched.one_by_one);
  EXPECT_TRUE(batched.model == single.model);
}

// With gradients summed over micro-batches, in halves, with adapters, whose maps are small, and where updates come
// early.
TEST_F(CudaBatches, GiveTheSameBitsInEveryKindOfStep) {
  const std::vector<std::pair<std::string, std::function<void(SmallRun&)>>> kinds = {
      {"whole", [](SmallRun& run) { run.micro_batch = run.options.train_batch_size; }},
      {"halves", [](SmallRun& run) { run.options.precision = DType::kBF16; }},
      {"early",
       [](SmallRun& run) {
         run.micro_batch = run.options.train_batch_size;
         run.options.max_grad_norm = 0;
         run.update = UpdateMode::kInBackward;
       }},
      {"adapters", [this](SmallRun& run) {
         run.model = folder_.path() / "batched";
         run.parts.lora_rank = 4;
       }}};
  trained("batched");
  for (const auto& [name, prepare] : kinds) {
    SCOPED_TRACE(name);
    cuda_emulator::refuse_batches(false);
    const Outcome batched = trained(name + "_batched", prepare);
    cuda_emulator::refuse_batches(true);
    const Outcome single = trained(name + "_single", prepare);
    EXPECT_GT(batched.batches, 0);
    EXPECT_TRUE(batched.model == single.model);
  }
}

TEST_F(CudaBatches, AreLeftOutWhereTheirBitsDiffer) {
  const Outcome single = trained("single", [](SmallRun&) { cuda_emulator::refuse_batches(true); });
  cuda_emulator::refuse_batches(false);
  cuda_emulator::sum_otherwise_in_batches(true);
  const Outcome other = trained("other");
  EXPECT_EQ(other.together, 0U);
  EXPECT_TRUE(other.model == single.model);
}

TEST_F(CudaBatches, AreLeftOutWhereTheyAreSlower) {
  cuda_emulator::set_batch_time(9);
  const Outcome slow = trained("slow");
  EXPECT_EQ(slow.together, 0U);
  EXPECT_GT(slow.one_by_one, 0U);
}

}  // namespace
}  // namespace plimsoll
