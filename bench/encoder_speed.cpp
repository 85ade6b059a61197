// Times the evaluation programs of several models on the same rows, in turn, in one process: what pruning saves.
//
//   plimsoll_encoder_speed MODEL MODEL... [--tokens 512] [--samples 1] [--rounds 9] [--threads 2]
//
// Prints JSON: for each model its median seconds, and the median over the rounds of the first model's time by its own.
// Batches are full: every row is real, ids and boxes are 0.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bundle/model_bundle.h"
#include "fit/step_graphs.h"
#include "runtime/program.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

class Forward {
 public:
  Forward(const std::string& model, const ModelCapacity& capacity, Backend& backend)
      : bundle_(open_weights_only(model)) {
    StepGraph step = build_step_graph(ProgramKind::kEvaluate,
                                      {.definition = bundle_.definition(), .model = {}, .optimizer = {}}, capacity, 0);
    PersistentLayout layout;
    layout.add(step.graph);
    PreparedGraph prepared = prepare(std::move(step.graph), backend);
    MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
    memory_ = backend.allocate(plan.arena_bytes());
    program_ = std::make_unique<Program>(std::move(prepared), std::move(plan), *memory_);
    load_model(bundle_, 0, [&](const std::string& name) { return ParameterPlace(program_->source(name)); });
    inputs_ = bundle_.definition().inputs(capacity, DType::kF32);
  }

  double seconds() const {
    fill();
    const auto begin = Clock::now();
    program_->run();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  // Every row becomes real and every index valid (tensor/input_spec.h). A round puts other tensors in the bytes of
  // inputs that it no longer needs.
  void fill() const {
    for (const InputSpec& input : inputs_) {
      const DeviceTensor tensor = program_->source(input.name);
      tensor.fill_zeros();
      if (!input.constants.empty()) tensor.write(std::as_bytes(std::span(input.constants)));
      if (input.full == InputSpec::Full::kZeros) continue;
      const auto count = static_cast<std::int32_t>(input.full == InputSpec::Full::kOnes ? 1 : input.count);
      std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.elements()), count);
      if (input.full == InputSpec::Full::kOffsets) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * input.count / (std::ssize(values) - 1));
        }
      }
      tensor.write(std::as_bytes(std::span(values)));
    }
    program_->source(input::kLossScale).set(1.0F);
    program_->source(input::kDropoutKey).fill_zeros();
  }

  ModelBundle bundle_;
  std::vector<InputSpec> inputs_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Program> program_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  CLI::App app("Times the evaluation programs of several models in turn");
  std::vector<std::string> models;
  std::int64_t tokens = 512, samples = 1;
  int rounds = 9, threads = 0;
  app.add_option("models", models, "Model directories; the first is the one before")->required();
  app.add_option("--tokens", tokens, "Text tokens of a sample");
  app.add_option("--samples", samples, "Samples of a batch");
  app.add_option("--rounds", rounds, "Rounds that count, after one that does not");
  app.add_option("--threads", threads, "Threads; 0: all cores");
  CLI11_PARSE(app, argc, argv);
  CpuBackend backend(threads);
  std::vector<std::unique_ptr<Forward>> all;
  for (const std::string& model : models) {
    all.push_back(
        std::make_unique<Forward>(model, ModelCapacity{.samples = samples, .text_rows = samples * tokens}, backend));
  }
  std::vector<std::vector<double>> seconds(all.size()), faster(all.size());
  for (int round = -1; round < rounds; ++round) {
    std::vector<double> now;
    for (const auto& model : all) now.push_back(model->seconds());
    for (std::size_t m = 0; round >= 0 && m < all.size(); ++m) {
      seconds[m].push_back(now[m]);
      faster[m].push_back(now.front() / now[m]);
    }
  }
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t m = 0; m < all.size(); ++m) {
    list.push_back({{"model", models[m]}, {"seconds", median(seconds[m])}, {"times_as_fast", median(faster[m])}});
  }
  fmt::print("{}\n", list.dump());
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) { return plimsoll::run(argc, argv); }
