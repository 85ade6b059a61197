#include "compress/model_costs.h"

#include <algorithm>
#include <set>

#include "compress/pruned_units.h"
#include "fit/step_graphs.h"
#include "request/fit_request.h"

namespace plimsoll {

ModelCosts model_costs(const ModelBundle& bundle, const Dataset& dataset, const TrainOptions& options,
                       const MemoryRequest& memory, double keys_per_row, std::size_t held_bytes, Backend& backend) {
  ModelCosts costs{.parameters = parameter_count(bundle.specs())};
  const std::vector<WeighedUnits> groups = weigh_units(*bundle.config.encoder, keys_per_row);
  costs.layer_products = kept_cost(groups, all_units(groups));
  FitRequest request = fit_request(bundle, options, nullptr, &dataset, memory);
  request.process_bytes = [held_bytes] { return held_bytes; };
  const std::optional<PlanSummary> plan = choose_plan(request, backend);
  costs.predicted_peak_bytes = (plan ? *plan : smallest_plan(request, backend)).predicted_peak_bytes;
  std::int64_t tokens = 0;
  std::set<std::uint32_t> pages;
  for (const Example& example : dataset.examples()) {
    tokens += example.tokens;
    pages.insert(example.page);
  }
  const auto windows = static_cast<std::int64_t>(dataset.examples().size());
  if (windows == 0) return costs;
  // A window of the mean length represents all.
  const ModelCapacity capacity{.samples = 1, .text_rows = std::max<std::int64_t>(1, tokens / windows)};
  const StepGraph step = build_step_graph(ProgramKind::kEvaluate, request.step, capacity, 0);
  costs.seconds_per_page =
      estimate_seconds(step.graph, request.speeds) * static_cast<double>(windows) / static_cast<double>(pages.size());
  return costs;
}

}  // namespace plimsoll
