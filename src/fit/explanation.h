// Explanation: what a plan is made of and why, for `plimsoll plan --explain`. Everything in it comes from the plan itself
// and from the plans that it was chosen against; nothing is measured.
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

// Values alive at the peak whose names differ only in their layer.
struct AliveGroup {
  std::string name;  // "layer.*.intermediate.dense"
  std::string kind;  // "input", "activation", "gradient", "scratch"
  std::size_t count = 0;
  std::size_t bytes = 0;
};

// One lever: what was chosen, and what that means against the alternative that it names.
struct LeverNote {
  std::string lever{};   // "micro-batch"
  std::string choice{};  // "4 of 8 pages, 2 an update"
  std::string why{};
  std::int64_t freed_bytes = 0;    // less than the alternative needs; below 0: more
  double extra_seconds = 0;        // an update, more than the alternative takes
  std::string alternative{};       // "all 8 at once"; empty: there is none
};

struct Explanation {
  // Of the program whose transient part is largest.
  ProgramKind program = ProgramKind::kStep;
  std::int64_t peak_position = 0, nodes = 0;  // the peak is at node `peak_position` of `nodes`
  std::string peak_node, peak_op, peak_phase;
  std::size_t alive_bytes = 0;         // at the peak: the lower bound of any packing
  std::vector<AliveGroup> alive;       // largest first
  std::size_t buffers = 0;             // that the packing places
  std::size_t transient_bytes = 0;
  bool is_smallest = false;            // proven: no packing of them takes less
  std::array<double, 3> phase_seconds{};  // forward, backward, update: of one update
  std::vector<LeverNote> levers;
  // The nearest budgets that buy something else: what the next cheaper one costs, what the next larger one brings.
  std::optional<RunPlan> cheaper, larger;
};

// Drops `run`'s programs: the memory of their kernels would be counted in the plans that it is compared with.
Explanation explain_run(const FitRequest& request, RunPlan& run, Backend& backend);

}  // namespace plimsoll
