#include "fit/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"

namespace plimsoll {
namespace {

// For what is not ours to count: heap pages that libraries touch for a moment, thread stacks, the allocator's own slack.
constexpr std::size_t kReserveBytes = 6 * kMiB;

// What the process holds varies from run to run by some hundred KiB; the budget that a refusal names has room for that.
constexpr std::size_t kVariationBytes = 1 * kMiB;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

PlannedProgram prepare_program(ProgramKind kind, const FitRequest& request, const ModelCapacity& capacity,
                               Backend& backend) {
  StepGraph step = build_step_graph(kind, request.step, capacity, request.update_text_rows);
  return {.kind = kind,
          .capacity = capacity,
          .loss = step.loss,
          .logits = step.logits,
          .gradient_norm = step.gradient_norm,
          .gradients = std::move(step.gradients),
          .prepared = prepare(std::move(step.graph), backend),
          .plan = {}};
}

// Persistent bytes by purpose; names are those that transform/optimizer.h gives.
std::vector<MemoryItem> persistent_items(const PersistentLayout& layout) {
  std::size_t parameters = 0, gradients = 0, moments = 0;
  for (const auto& [name, entry] : layout.entries()) {
    const std::size_t bytes = round_up(entry.type.bytes(), kAlignmentBytes);
    if (entry.role == Role::kParameter) {
      parameters += bytes;
    } else if (name.find(".gradient") != std::string::npos) {
      gradients += bytes;
    } else {
      moments += bytes;
    }
  }
  return {{"parameters", parameters}, {"optimizer state", moments}, {"accumulated gradients", gradients}};
}

// The micro-batches worth trying, best first: for each number of accumulation steps the smallest that reaches it.
std::vector<std::int64_t> candidates(std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t steps = 1; steps <= batch; ++steps) {
    const std::int64_t micro = divide_up(batch, steps);
    if (sizes.empty() || sizes.back() != micro) sizes.push_back(micro);
  }
  return sizes;
}

BudgetError too_small(const FitRequest& request, const RunPlan& smallest) {
  std::string found = fmt::format("a budget of {}; the smallest plan (micro-batch {}) needs {}:",
                                  format_bytes(request.budget_bytes), smallest.micro_batch_size,
                                  format_bytes(smallest.predicted_peak_bytes));
  for (const MemoryItem& item : smallest.items) {
    if (item.bytes > 0) found += fmt::format("\n             {:<38}{:>12}", item.name, format_bytes(item.bytes));
  }
  const std::size_t mebibytes = (smallest.predicted_peak_bytes + kVariationBytes) / kMiB + 1;
  return BudgetError({.what = "the run does not fit the memory budget",
                      .where = "--budget",
                      .found = found,
                      .allowed = fmt::format("{} MiB or more for this model and data", mebibytes),
                      .remedy = fmt::format("pass --budget {}MiB, shorten pages with --max-length, or take a smaller model",
                                            mebibytes)});
}

}  // namespace

RunPlan plan_run(const FitRequest& request, std::int64_t micro, Backend& backend) {
  RunPlan run;
  run.micro_batch_size = micro;
  run.accumulation_steps = request.trains ? divide_up(request.train_batch_size, micro) : 0;
  run.budget_bytes = request.budget_bytes;
  std::size_t loader = 0;
  if (request.trains) {
    const ModelCapacity capacity{.samples = micro, .text_rows = request.text_rows(micro)};
    loader = request.loader_bytes ? request.loader_bytes(capacity) : 0;
    if (run.accumulation_steps == 1) {
      run.programs.push_back(prepare_program(ProgramKind::kStep, request, capacity, backend));
    } else {
      run.programs.push_back(prepare_program(ProgramKind::kAccumulate, request, capacity, backend));
      run.programs.push_back(prepare_program(ProgramKind::kAccumulateAndStep, request, capacity, backend));
    }
  }
  if (request.evaluates) {
    const ModelCapacity capacity{.samples = micro, .text_rows = request.evaluation_text_rows(micro)};
    if (request.loader_bytes) loader = std::max(loader, request.loader_bytes(capacity));
    run.programs.push_back(prepare_program(ProgramKind::kEvaluate, request, capacity, backend));
  }
  for (const PlannedProgram& program : run.programs) run.layout.add(program.prepared.graph);
  const PlannedProgram* largest = nullptr;
  for (PlannedProgram& program : run.programs) {
    program.plan = plan_memory(program.prepared.graph, program.prepared.scratch_bytes(), run.layout);
    run.arena_bytes = std::max(run.arena_bytes, program.plan.arena_bytes());
    if (largest == nullptr || program.plan.arena_bytes() > largest->plan.arena_bytes()) largest = &program;
  }
  run.items = persistent_items(run.layout);
  for (MemoryItem& item : explain_peak(largest->plan)) {
    run.items.push_back({fmt::format("{} ({})", item.name, program_kind_name(largest->kind)), item.bytes});
  }
  // Measured last: kernels, plans and graphs are then part of it.
  run.items.insert(run.items.begin(), {"process, libraries, data index", resident_bytes()});
  run.items.push_back({"loader buffers", loader});
  run.items.push_back({"reserve for libraries", kReserveBytes});
  for (const MemoryItem& item : run.items) run.predicted_peak_bytes += item.bytes;
  return run;
}

RunPlan fit(const FitRequest& request, Backend& backend) {
  const auto fits = [&](const RunPlan& run) {
    return request.budget_bytes == 0 || run.predicted_peak_bytes <= request.budget_bytes;
  };
  if (request.micro_batch_size) {
    const std::int64_t micro = *request.micro_batch_size;
    if (micro < 1 || (request.trains && micro > request.train_batch_size)) {
      throw UsageError({.what = "the micro-batch does not divide the work of an update",
                        .where = "--per-device-train-batch-size",
                        .found = fmt::format("{}", micro),
                        .allowed = fmt::format("1 to the effective batch, {}", request.train_batch_size)});
    }
    RunPlan run = plan_run(request, micro, backend);
    if (!fits(run)) throw too_small(request, run);
    return run;
  }
  // Memory grows with the micro-batch, so the first that fits is found by halving the list of candidates.
  const std::vector<std::int64_t> sizes = candidates(request.train_batch_size);
  std::size_t low = 0, high = sizes.size();
  std::optional<RunPlan> best;
  while (low < high) {
    const std::size_t middle = best ? low + (high - low) / 2 : low;  // the largest first: often it fits
    RunPlan run = plan_run(request, sizes[middle], backend);
    if (fits(run)) {
      best = std::move(run);
      high = middle;
    } else if (middle + 1 == sizes.size()) {
      throw too_small(request, run);
    } else {
      if (!best && low == 0 && high == sizes.size()) {
        // It does not fit whole: the smallest is tried next, to refuse early or to have something in hand.
        RunPlan smallest = plan_run(request, sizes.back(), backend);
        if (!fits(smallest)) throw too_small(request, smallest);
        best = std::move(smallest);
        high = sizes.size() - 1;
      }
      low = middle + 1;
    }
  }
  return std::move(*best);
}

}  // namespace plimsoll
