#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/speeds.h"
#include "cli/sweep_chart.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

struct SweepOptions {
  bool sweep = false;
  int points = 10;
  std::string svg;
};

void print_sweep(const Invocation& invocation, const SweepOptions& options, const FitRequest& request,
                 Backend& backend) {
  const std::vector<RunPlan> plans = sweep_budgets(request, options.points, backend);
  if (!options.svg.empty()) write_text_file(options.svg, sweep_svg(plans, request.train_batch_size));
  if (!invocation.json) return print_line(sweep_table(plans, request.train_batch_size));
  nlohmann::json list = nlohmann::json::array();
  for (const RunPlan& plan : plans) {
    list.push_back(plan_json(plan));
    list.back()["pages_per_second"] = pages_per_second(plan, request.train_batch_size);
  }
  print_json({{"sweep", std::move(list)}});
}

void run_plan(const Invocation& invocation, RunOptions& options, const SweepOptions& sweep) {
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
  const FitRequest request = fit_request(bundle, options.train, train.get(), evaluation.get(), options.memory);
  if (sweep.sweep || !sweep.svg.empty()) return print_sweep(invocation, sweep, request, backend);
  const RunPlan plan = fit(request, backend);
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
  auto sweep = std::make_shared<SweepOptions>();
  command->option_defaults()->group("Sweep");
  command->add_flag("--sweep", sweep->sweep,
                    "What budgets between the smallest and the largest useful one buy, as a table");
  whole_number(command->add_option("--points", sweep->points, "Budgets of the sweep"), 2, 1000)->capture_default_str();
  command->add_option("--svg", sweep->svg, "Draw the sweep into this file")->type_name("FILE");
  add_footer(
      command,
      "Reads the data (the order of its pages decides how much a batch can hold), builds the step's graphs and lays\n"
      "out the arena, exactly as train does. Exit code 4, with the smallest budget that works, if it does not fit.");
  command->callback([&invocation, options, sweep] {
    invocation.action = [&invocation, options, sweep] { run_plan(invocation, *options, *sweep); };
  });
}

}  // namespace plimsoll
