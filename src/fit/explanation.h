// Explanation: the parts of a plan and the reasons for them, for `plimsoll plan --explain`. Everything in it comes from
// the plan and from the plans that it was compared with; nothing is measured.
//
//   RunPlan run = fit(request, backend);
//   const Explanation explanation = explain_run(request, run, backend);
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fit/fit.h"

namespace plimsoll {

// Values alive at the peak whose names differ only in their layer's number.
struct AliveGroup {
  std::string name;  // "layer.*.intermediate.dense"
  std::string kind;  // "input", "activation", "gradient", "scratch"
  std::size_t count = 0;
  std::size_t bytes = 0;
};

// One lever: the value chosen, and its effect against the alternative that is named.
struct LeverNote {
  std::string lever{};   // "micro-batch"
  std::string choice{};  // "4 of 8 pages, 2 per update"
  std::string why{};
  std::int64_t freed_bytes = 0;  // less than the alternative needs; negative: more
  double extra_seconds = 0;      // per update, more than the alternative takes
  std::string alternative{};     // "all 8 at once"; empty: there is none
};

struct Explanation {
  // The program whose transient part is largest.
  ProgramKind program = ProgramKind::kStep;
  std::int64_t peak_position = 0, nodes = 0;  // the peak is at node `peak_position` of `nodes`
  std::string peak_node, peak_op, peak_phase;
  std::size_t alive_bytes = 0;    // at the peak: the lower bound of any packing
  std::vector<AliveGroup> alive;  // in descending order
  std::size_t buffers = 0;        // number of buffers that the packing places
  std::size_t transient_bytes = 0;
  bool is_smallest = false;               // true if it is proven that no packing of them is smaller
  std::array<double, 3> phase_seconds{};  // forward, backward, update: of one update
  std::vector<LeverNote> levers;
  // The nearest plans that differ: with a smaller budget, to show what it costs, and with a larger one, to show what it
  // gains.
  std::optional<PlanSummary> cheaper, larger;
};

// Drops `run`'s programs, because their kernels' memory would be counted in the plans to compare.
Explanation explain_run(const FitRequest& request, RunPlan& run, Backend& backend);

}  // namespace plimsoll
