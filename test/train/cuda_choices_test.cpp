// Tests algorithms that a CUDA run chooses by time: they pass from a checkpoint, a record or the machine's file to the
// next run, which then has the same bits. The emulated cuBLASLt has three, which sum differently.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "cublaslt_emulator.h"
#include "support/expect_error.h"
#include "support/log_capture.h"
#include "train/step_bench.h"
#include "train/step_record.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

struct CudaSmallRun : SmallRun {
  explicit CudaSmallRun(const fs::path& output_dir) : SmallRun(output_dir) {
    options.max_steps = 4;
    options.save_steps = 2;
    make_backend = [] { return std::make_unique<CudaBackend>(); };
  }
};

class CudaChoices : public testing::Test {
 protected:
  CudaChoices() { prefer(1); }
  ~CudaChoices() override {
    cuda_emulator::set_product_times(1, 1, 1);
    cuda_emulator::set_lt_version(130100);
  }

  // Makes an algorithm the fastest.
  static void prefer(int algorithm) {
    cuda_emulator::set_product_times(algorithm == 0 ? 1 : 5, algorithm == 1 ? 1 : 5, algorithm == 2 ? 1 : 5);
  }
  static std::string model_of(const SmallRun& run) { return file_bytes(run.options.output_dir / "model.safetensors"); }
  static fs::path first_checkpoint(const SmallRun& run) { return checkpoint_path(run.options.output_dir, 2); }
  static void edit_state(const fs::path& checkpoint, const std::function<void(nlohmann::json&)>& edit) {
    nlohmann::json state = nlohmann::json::parse(file_bytes(checkpoint / "trainer_state.json"));
    edit(state);
    std::ofstream(checkpoint / "trainer_state.json") << state.dump();
    fs::remove(checkpoint / "checksums.json");  // changed on purpose
  }
  bool logged(const std::string& part) const { return log_.has(part); }

  ScratchFolder folder_;
  LogCapture log_;
};

TEST_F(CudaChoices, AreThoseOfTheCheckpointInARunThatGoesOn) {
  CudaSmallRun run(folder_.make("run"));
  run.train();
  const Choices chosen = run.choices;
  EXPECT_NE(chosen.device.find("cuBLAS 130100"), std::string::npos);
  EXPECT_GT(chosen.algorithms.size(), 10U);
  EXPECT_EQ(read_trainer_state(first_checkpoint(run)).choices, chosen);
  const std::string whole = model_of(run);

  prefer(2);
  run.train(first_checkpoint(run));
  EXPECT_EQ(run.choices, chosen);
  EXPECT_TRUE(model_of(run) == whole);
  EXPECT_FALSE(logged("choosing algorithms again")) << log_.text();

  // Without the choices the run would end differently; an old checkpoint, which has none, still loads.
  edit_state(first_checkpoint(run), [](nlohmann::json& state) { state.erase("choices"); });
  run.train(first_checkpoint(run));
  EXPECT_NE(run.choices, chosen);
  EXPECT_FALSE(model_of(run) == whole);
}

TEST_F(CudaChoices, OfAnotherDeviceAreMadeAnewWithAWarning) {
  CudaSmallRun run(folder_.make("run"));
  run.train();
  const std::string recorded = run.choices.device;
  const fs::path checkpoint = first_checkpoint(run);
  cuda_emulator::set_lt_version(130200);
  prefer(2);
  EXPECT_EQ(run.train(checkpoint).steps_here, 2);
  EXPECT_TRUE(logged(checkpoint.string() + " is from a run on " + recorded)) << log_.text();
  EXPECT_TRUE(logged("cuBLAS 130200: choosing algorithms again, so numbers may differ in their last bits"))
      << log_.text();
  EXPECT_NE(run.choices.device, recorded);
  EXPECT_EQ(read_trainer_state(checkpoint_path(run.options.output_dir, 4)).choices, run.choices);

  log_.clear();
  run.make_backend = nullptr;
  EXPECT_EQ(run.train(checkpoint).steps_here, 2);
  EXPECT_TRUE(logged("this run is on cpu")) << log_.text();
}

TEST_F(CudaChoices, ThatMakeNoSenseAreRefused) {
  CudaSmallRun run(folder_.make("run"));
  run.train();
  const fs::path checkpoint = first_checkpoint(run);
  const std::string name = run.choices.algorithms.begin()->first;
  const std::string good = run.choices.algorithms.begin()->second;
  const auto refuses = [&](const nlohmann::json& choice, std::initializer_list<std::string_view> parts) {
    edit_state(checkpoint, [&](nlohmann::json& state) { state["choices"]["algorithms"][name] = choice; });
    expect_error<DataError>([&] { run.train(checkpoint); }, parts);
  };
  refuses("fast", {checkpoint.string(), name, "'fast'", "128 hexadecimal digits"});
  refuses(std::string(15, '0') + "9" + good.substr(16), {checkpoint.string(), name, "does not run on this device"});
  refuses(7, {checkpoint.string(), "trainer_state.json", "cannot read a table of chosen algorithms"});
  edit_state(checkpoint, [](nlohmann::json& state) { state["choices"] = "none"; });
  expect_error<DataError>([&] { run.train(checkpoint); }, {checkpoint.string(), "a table of chosen algorithms"});
}

TEST_F(CudaChoices, OfAMachineAreTheSameInItsNextRun) {
  CudaSmallRun first(folder_.make("first")), second(folder_.make("second")), elsewhere(folder_.make("elsewhere"));
  first.cache = second.cache = folder_.path() / "cache";
  first.train();
  EXPECT_TRUE(logged("timed the algorithms of")) << log_.text();
  prefer(2);
  log_.clear();
  second.train();
  EXPECT_EQ(second.choices, first.choices);
  EXPECT_TRUE(model_of(second) == model_of(first));
  EXPECT_EQ(log_.text(), "");
  elsewhere.train();
  EXPECT_NE(elsewhere.choices, first.choices);
  EXPECT_FALSE(model_of(elsewhere) == model_of(first));
}

TEST_F(CudaChoices, OfAMachineAreAddedToAndNeverChanged) {
  CudaSmallRun first(folder_.make("first")), larger(folder_.make("larger")), again(folder_.make("again"));
  first.cache = larger.cache = again.cache = folder_.path() / "cache";
  larger.micro_batch = 4;
  first.train();
  prefer(2);
  larger.train();
  EXPECT_FALSE(std::ranges::includes(first.choices.algorithms, larger.choices.algorithms));
  again.train();
  EXPECT_EQ(again.choices, first.choices);
  EXPECT_TRUE(model_of(again) == model_of(first));
}

TEST_F(CudaChoices, OfAMachineThatCannotBeReadAreMadeAgain) {
  CudaSmallRun run(folder_.make("run"));
  run.cache = folder_.path() / "cache";
  run.train();
  const fs::path file = fs::directory_iterator(run.cache)->path();
  const std::string good = file_bytes(file);
  for (const std::string& bad : {good.substr(0, good.size() / 2), std::string("{}"), std::string()}) {
    std::ofstream(file) << bad;
    log_.clear();
    run.train();
    EXPECT_TRUE(logged(file.string()) && logged("rebuilding it")) << log_.text();
    EXPECT_EQ(file_bytes(file), good);
  }
}

TEST_F(CudaChoices, OfAStepThatWentWrongAreThoseOfItsReplay) {
  CudaSmallRun good(folder_.make("good")), run(folder_.make("run"));
  good.options.max_steps = 1;
  good.train();
  run.model = good.options.output_dir;
  run.options.learning_rate = 1e30;  // the second update's products are not finite
  run.options.schedule = {SchedulerType::kConstant};
  EXPECT_THROW(run.train(), DivergedError);
  const fs::path record = run.options.output_dir / "nonfinite-step-2";
  ASSERT_TRUE(fs::exists(record / "step.json"));
  prefer(2);
  CudaBackend backend, other;
  EXPECT_TRUE(replay_step(record, backend).same);
  nlohmann::json json = nlohmann::json::parse(file_bytes(record / "step.json"));
  json.erase("choices");
  std::ofstream(record / "step.json") << json.dump();
  const Replay without = replay_step(record, other);
  EXPECT_TRUE(without.fault);
  EXPECT_FALSE(without.same);

  // A benchmarked step makes choices, too.
  StepBenchOptions bench{.steps = 1};
  bench.choices.cache = folder_.path() / "cache";
  bench_step(open_weights_only(run.model.string()), record / "batch-0.safetensors", bench, other);
  EXPECT_EQ(std::distance(fs::directory_iterator(bench.choices.cache), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace plimsoll
