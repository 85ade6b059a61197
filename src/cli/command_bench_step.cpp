#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/run_options.h"
#include "cli/speeds.h"
#include "cli/usage.h"
#include "train/step_bench.h"

namespace plimsoll {
namespace {

struct BenchOptions {
  std::string model, batch, optimizer = "adamw_torch", kept_activations;
  int steps = 5, forks = 0;
  bool profile = false;
  RunOptions run;  // its parts, precision and device
};

void print_profile(const std::map<std::string, double>& op_seconds, int steps) {
  std::vector<std::pair<std::string, double>> rows(op_seconds.begin(), op_seconds.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second > b.second; });
  double whole = 0;
  for (const auto& [name, seconds] : rows) whole += seconds;
  for (const auto& [name, seconds] : rows) {
    print_line(fmt::format("{:<24}{:>10.1f} ms{:>8.1f} %", name, seconds / steps * 1000, seconds / whole * 100));
  }
}

void run_bench_step(const Invocation& invocation, BenchOptions& options) {
  const Device device = open_device(invocation, options.run.device);
  ModelBundle bundle = open_weights_only(options.model);
  options.run.resolve_parts();
  choose_trained_parts(bundle, options.run.parts);
  std::map<std::string, double> op_seconds;
  StepBenchOptions bench{.steps = options.steps,
                         .optimizer = parse_optimizer(options.optimizer),
                         .precision = options.run.precision.resolve()};
  bench.choices.cache = cache_directory();
  bench.recompute_cheap = options.kept_activations != "all";
  bench.forks = static_cast<std::size_t>(options.forks);
  if (bench.recompute_cheap && !options.kept_activations.empty())
    bench.kept_bytes = parse_bytes(options.kept_activations, "--kept-activations");
  const StepBench result =
      bench_step(bundle, options.batch, bench, *device.backend, options.profile ? &op_seconds : nullptr);
  nlohmann::json object = {{"step_seconds", result.step_seconds},
                           {"losses", result.losses},
                           {"kept_bytes", result.forward.kept},
                           {"computed_again_bytes", result.forward.again},
                           {"predicted_peak_bytes", result.predicted_peak_bytes},
                           {"measured_peak_bytes", result.measured_peak_bytes}};
  if (options.profile) object["op_seconds"] = op_seconds;
  if (invocation.json) return print_line(object.dump());  // one line, for scripts
  std::vector<double> sorted = result.step_seconds;
  std::ranges::sort(sorted);
  print_line(fmt::format("median step {:.3f} s of {}; peak memory: predicted {:.1f} MiB, measured {:.1f} MiB",
                         sorted[sorted.size() / 2], sorted.size(),
                         static_cast<double>(result.predicted_peak_bytes) / 1048576,
                         static_cast<double>(result.measured_peak_bytes) / 1048576));
  print_line(fmt::format("forward keeps {:.1f} MiB for backward, which recomputes up to {:.1f} MiB",
                         static_cast<double>(result.forward.kept) / 1048576,
                         static_cast<double>(result.forward.again) / 1048576));
  if (options.profile) print_profile(op_seconds, options.steps);
}

}  // namespace

void add_bench_step(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "bench-step", "Time a training step on a given batch");
  auto options = std::make_shared<BenchOptions>();
  command->heading("Numbers");
  command->add_option("--model", options->model, "Hugging Face model directory, or a preset")
      ->type_name("MODEL")
      ->required();
  command
      ->add_option("--batch", options->batch,
                   "safetensors file in the format of grad; its pages form one micro-batch, without padding")
      ->type_name("FILE")
      ->required();
  whole_number(command->add_option("--steps", options->steps, "Number of steps"), 1, 10000)->capture_default_str();
  one_of(command->add_option("--optim", options->optimizer, "Optimizer, as in train"),
         {"adamw_torch", "adamw_8bit", "adafactor"})
      ->type_name("NAME")
      ->capture_default_str();
  add_precision_options(command, options->run.precision);
  add_device_option(command, options->run.device);
  add_bench_parts_options(command, options->run);
  command
      ->add_option("--kept-activations", options->kept_activations,
                   "Recompute activations in backward until forward keeps at most SIZE; all: recompute nothing "
                   "(default: on the CPU recompute only the cheapest values, on a GPU nothing)")
      ->type_name("SIZE");
  whole_number(command->add_option("--concurrent-products", options->forks,
                                   "With --device cuda: N products whose results are not needed at once run in "
                                   "parallel with later kernels, and keep their operands in memory; same numbers"),
               0, 64)
      ->capture_default_str();
  command->add_flag(
      "--single-products", options->run.device.single_products,
      "With --device cuda: compute each matrix product separately, never several as a batch; slower, same "
      "numbers");
  command->add_flag("--profile", options->profile, "Print the time of each op");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_bench_step(invocation, *options); }; });
}

}  // namespace plimsoll
