#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/speeds.h"

namespace plimsoll {
namespace {

void run_plan(const Invocation& invocation, RunOptions& options) {
  options.resolve();
  CpuBackend backend(invocation.threads);
  options.memory.speeds = machine_speeds(backend.threads());
  ModelBundle bundle = open_model(options.model.model, options.model.tokenizer);
  options.resolve_padding(bundle.config);
  resolve_labels(bundle, options.model, options.data);
  check_weights(bundle);
  const auto train = open_dataset(bundle, options.data, true, false);
  std::unique_ptr<Dataset> evaluation;
  if (!options.eval_data.empty()) {
    DataRequest request = options.data;
    request.data = options.eval_data;
    evaluation = open_dataset(bundle, request, true, true);
  }
  const RunPlan plan = fit(fit_request(bundle, options.train, train.get(), evaluation.get(), options.memory), backend);
  if (invocation.json) return print_json(plan_json(plan));
  print_line(plan_table(plan));
}

}  // namespace

void add_plan(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      add_command(app, invocation, "plan", "Say what a training run will need, item by item, without training");
  auto options = std::make_shared<RunOptions>();
  add_model_options(command, *options);
  add_data_options(command, *options);
  add_memory_options(command, *options);
  add_batch_options(command, *options);
  add_training_options(command, *options);
  add_footer(
      command,
      "Reads the data (the order of its pages decides how much a batch can hold), builds the step's graphs and lays\n"
      "out the arena, exactly as train does. Exit code 4, with the smallest budget that works, if it does not fit.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_plan(invocation, *options); }; });
}

}  // namespace plimsoll
