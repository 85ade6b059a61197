// Sends a signal at any moment of a run: unfinished work is dropped, finished work is saved, and the final result does
// not change.
#include "base/interrupt.h"

#include <csignal>
#include <map>
#include <utility>

#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

// Runs kernels, and requests something after one of them.
struct Counter {
  std::int64_t runs = 0;
  std::int64_t at = -1;
  Interrupt* interrupt = nullptr;
  std::function<void(Interrupt&)> ask = [](Interrupt& asked) { asked.request_end(SIGTERM); };

  void count() {
    if (++runs == at) ask(*interrupt);
  }
};

class CountingKernel final : public Kernel {
 public:
  CountingKernel(std::unique_ptr<Kernel> kernel, Counter& counter) : kernel_(std::move(kernel)), counter_(counter) {}
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  void run(const KernelArguments& arguments) const override {
    kernel_->run(arguments);
    counter_.count();
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Counter& counter_;
};

class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(Counter& counter) : counter_(counter) {}
  std::string_view name() const override { return backend_.name(); }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override {
    return std::make_unique<CountingKernel>(backend_.prepare(graph, node), counter_);
  }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return backend_.allocate(bytes); }

 private:
  CpuBackend backend_{1};
  Counter& counter_;
};

void count_with(SmallRun& run, Counter& counter) {
  run.make_backend = [&counter] { return std::make_unique<CountingBackend>(counter); };
  run.with_interrupt = [&counter](Interrupt& interrupt) { counter.interrupt = &interrupt; };
}

constexpr const char* kResults[] = {"model.safetensors", "order.jsonl", "checkpoint-6/model.safetensors",
                                    "checkpoint-6/optimizer.safetensors"};

void expect_same(const SmallRun& run, const SmallRun& whole, const std::string& how) {
  for (const char* name : kResults) {
    EXPECT_TRUE(file_bytes(run.options.output_dir / name) == file_bytes(whole.options.output_dir / name))
        << name << ", " << how;
  }
}

struct Form {
  const char* name;
  std::int64_t micro_batch;
  std::optional<UpdateMode> update{};
  bool offload = false;
};

class Interrupted : public testing::TestWithParam<Form> {
 protected:
  void set_up(SmallRun& run) {
    run.options.save_steps = 6;
    run.options.log_order = true;
    run.micro_batch = GetParam().micro_batch;
    run.update = GetParam().update;
    run.offload = GetParam().offload;
    if (run.update == UpdateMode::kInBackward) run.options.max_grad_norm = 0;
  }
  // Moments of a run that are spread over its forward, backward and update.
  static std::vector<std::int64_t> moments(std::int64_t runs) {
    std::vector<std::int64_t> all;
    for (int i = 0; i < 4; ++i) all.push_back(1 + (2 * i + 1) * runs / 9 + 7 * i);
    return all;
  }
  ScratchFolder folder_;
};

TEST_P(Interrupted, ResumesWithTheSameBitsFromWhateverNode) {
  Counter counter;
  SmallRun whole(folder_.make("whole"));
  set_up(whole);
  count_with(whole, counter);
  whole.train();
  const std::int64_t runs = counter.runs;
  int dropped = 0;
  for (const std::int64_t at : moments(runs)) {
    SmallRun run(folder_.make("run-" + std::to_string(at)));
    set_up(run);
    counter = {.at = at};
    count_with(run, counter);
    try {
      run.train();
      FAIL() << "not interrupted at kernel " << at;
    } catch (const InterruptedError& error) {
      EXPECT_EQ(static_cast<int>(error.exit_code()), 128 + SIGTERM);
    }
    dropped += counter.runs == at ? 1 : 0;
    const std::vector<std::int64_t> saved = list_checkpoints(run.options.output_dir);
    ASSERT_EQ(saved.size(), 1U);
    counter = {};
    run.train(checkpoint_path(run.options.output_dir, saved.back()));
    expect_same(run, whole, "ended after kernel " + std::to_string(at));
  }
  EXPECT_GT(dropped, 0) << "no run was dropped at once";
}

TEST_P(Interrupted, SavesAndGoesOnWithTheSameBits) {
  Counter counter;
  SmallRun whole(folder_.make("whole"));
  set_up(whole);
  count_with(whole, counter);
  whole.train();
  const std::int64_t runs = counter.runs;
  for (const std::int64_t at : moments(runs)) {
    SmallRun run(folder_.make("run-" + std::to_string(at)));
    set_up(run);
    counter = {.at = at, .ask = [](Interrupt& interrupt) { interrupt.request_save(); }};
    count_with(run, counter);
    EXPECT_EQ(run.train().steps_here, 6);
    EXPECT_EQ(list_checkpoints(run.options.output_dir).size(), 2U) << "at kernel " << at;
    expect_same(run, whole, "saved after kernel " + std::to_string(at));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Interrupted,
                         testing::Values(Form{"accumulating", 2}, Form{"step", 4},
                                         Form{"in_backward", 4, UpdateMode::kInBackward},
                                         Form{"two_passes", 4, UpdateMode::kTwoPasses}, Form{"offloaded", 4, {}, true}),
                         [](const auto& form) { return std::string(form.param.name); });

// Requests that come faster than updates end do not keep a run from ending.
TEST(Interrupt, FrequentRequestsToSaveDoNotStopARun) {
  const ScratchFolder folder;
  SmallRun whole(folder.make("whole")), run(folder.make("run"));
  whole.train();
  Counter counter;
  count_with(run, counter);
  Interrupt* interrupt = nullptr;
  run.with_interrupt = [&](Interrupt& given) { interrupt = &given; };
  struct Asking final : Backend {
    CpuBackend backend{1};
    Interrupt*& interrupt;
    explicit Asking(Interrupt*& given) : interrupt(given) {}
    std::string_view name() const override { return backend.name(); }
    std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override {
      struct Asks final : Kernel {
        std::unique_ptr<Kernel> kernel;
        Interrupt*& interrupt;
        Asks(std::unique_ptr<Kernel> k, Interrupt*& given) : kernel(std::move(k)), interrupt(given) {}
        std::size_t scratch_bytes() const override { return kernel->scratch_bytes(); }
        void run(const KernelArguments& arguments) const override {
          kernel->run(arguments);
          if (interrupt != nullptr) interrupt->request_save();
        }
      };
      return std::make_unique<Asks>(backend.prepare(graph, node), interrupt);
    }
    std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return backend.allocate(bytes); }
  };
  run.make_backend = [&] { return std::make_unique<Asking>(interrupt); };
  EXPECT_EQ(run.train().steps_here, 6);
  EXPECT_TRUE(file_bytes(run.options.output_dir / "model.safetensors") ==
              file_bytes(whole.options.output_dir / "model.safetensors"));
}

// A dropped evaluation is made by the resumed run before anything else.
TEST(Interrupt, AnEvaluationThatWasDroppedIsMadeAfterTheResume) {
  const ScratchFolder folder;
  const auto set_up = [](SmallRun& run) {
    run.options.save_steps = 2;
    run.options.load_best_model_at_end = true;
    run.evaluates = true;  // after updates 2, 4, 6
  };
  const auto scores = [](const SmallRun& run) {
    std::vector<std::pair<std::int64_t, double>> all;
    std::ifstream file(run.options.output_dir / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json json = nlohmann::json::parse(line);
      all.emplace_back(json["step"], json.contains("eval_loss") ? json["eval_loss"] : json["loss"]);
    }
    return all;
  };
  Counter counter;
  SmallRun whole(folder.make("whole"));
  set_up(whole);
  count_with(whole, counter);
  std::map<std::int64_t, std::int64_t> kernels;  // kernels run after each update
  whole.on_step = [&](const StepReport& report) { kernels[report.step] = counter.runs; };
  whole.train();
  for (const std::int64_t step : {2, 4, 6}) {
    SmallRun run(folder.make("run-" + std::to_string(step)));
    set_up(run);
    counter = {.at = kernels[step] + 5};  // within the evaluation that follows
    count_with(run, counter);
    EXPECT_THROW(run.train(), InterruptedError);
    EXPECT_EQ(counter.runs, counter.at) << "the evaluation went on";
    const fs::path saved = checkpoint_path(run.options.output_dir, step);
    ASSERT_TRUE(read_trainer_state(saved).evaluation_due) << step;
    counter = {};
    run.train(saved);
    EXPECT_EQ(scores(run), scores(whole)) << "dropped after update " << step;
    for (const char* name :
         {"model.safetensors", "checkpoint-6/trainer_state.json", "checkpoint-4/trainer_state.json"}) {
      EXPECT_TRUE(file_bytes(run.options.output_dir / name) == file_bytes(whole.options.output_dir / name))
          << name << " after update " << step;
    }
  }
}

}  // namespace
}  // namespace plimsoll
