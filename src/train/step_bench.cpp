#include "train/step_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ranges>

#include "base/bytes.h"
#include "base/dropout.h"
#include "base/error.h"
#include "fit/session.h"
#include "train/batch_binding.h"
#include "train/batch_file.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

void run_timed(const Program& program, Backend& backend, std::map<std::string, double>& op_seconds) {
  for (std::size_t n = 0; n < program.node_count(); ++n) {
    const auto begin = Clock::now();
    program.run_node(n);
    backend.wait();
    const Node& node = program.graph().nodes()[n];
    op_seconds[std::string(op_name(node.op))] += std::chrono::duration<double>(Clock::now() - begin).count();
  }
}

ForwardBytes forward_of(const RunPlan& run) {
  return forward_bytes(run.programs.front().prepared.graph, run.programs.front().plan);
}

// Returns the fewest recomputations with which forward keeps at most this many bytes.
Levers levers_that_keep(std::size_t bytes, const FitRequest& request, std::int64_t samples, Backend& backend) {
  const ModelCapacity capacity{.samples = samples, .text_rows = request.text_rows(samples)};
  const std::vector<Recomputation> ranked = rank_step_recomputations(request.step, capacity, request.speeds);
  const auto first = [&](std::size_t count) {
    return Levers{.micro_batch_size = samples,
                  .recompute = {ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count)}};
  };
  const auto kept = [&](std::size_t count) {
    return forward_of(plan_run(request, first(count), backend, PlanDepth::kEstimate)).kept;
  };
  if (const std::size_t least = kept(ranked.size()); least > bytes) {
    throw UsageError({.what = "forward cannot keep that little",
                      .where = "--kept-activations",
                      .found = format_bytes(bytes),
                      .allowed = fmt::format("{} or more for this batch", format_bytes(least))});
  }
  const auto counts = std::views::iota(std::size_t{0}, ranked.size() + 1);
  return first(*std::ranges::partition_point(counts, [&](std::size_t count) { return kept(count) > bytes; }));
}

}  // namespace

StepBench bench_step(const ModelBundle& bundle, const std::filesystem::path& batch_file,
                     const StepBenchOptions& options, Backend& backend, std::map<std::string, double>* op_seconds) {
  const std::unique_ptr<Batch> batch = read_batch_file(batch_file, bundle, false);
  const BatchShape shape = batch->shape();
  FitRequest request;
  request.step.definition = bundle.definition();
  request.step.model = bundle.options;
  request.step.optimizer.kind = options.optimizer;
  request.step.precision = options.precision;
  request.step.optimizer.adamw.weight_decay = 0.01;
  request.step.recompute_cheap = options.recompute_cheap;
  request.train_batch_size = shape.max_samples;
  request.text_rows = [&](std::int64_t) { return shape.max_text_rows; };
  request.update_text_rows = shape.max_text_rows;
  // Without a limit, chooses like a run whose budget is large enough for anything (fit/search.cpp).
  Levers levers = options.kept_bytes ? levers_that_keep(*options.kept_bytes, request, shape.max_samples, backend)
                                     : Levers{.micro_batch_size = shape.max_samples,
                                              .keeps_cheap = backend.device_use().has_value(),
                                              .keeps_biases = may_keep_biases(request, backend)};
  levers.forks = options.forks;
  RunPlan run = plan_run(request, levers, backend);
  const ForwardBytes forward = forward_of(run);
  const Session session(std::move(run), backend, options.choices);
  const Program& program = session.program(ProgramKind::kStep);
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    if (entry.role == Role::kState) session.persistent(name).fill_zeros();
  }
  load_model(bundle, 0, [&](const std::string& name) { return session.parameter(name); });
  const BatchBinding binding(program, *batch, session.plan().word_rows);
  const float loss_scale = batch->loss_terms() > 0 ? static_cast<float>(1 / batch->loss_weight()) : 1.0F;
  StepBench result{.step_seconds = {},
                   .losses = {},
                   .predicted_peak_bytes = session.plan().predicted_peak_bytes,
                   .forward = forward};
  for (int i = 0; i < options.steps; ++i) {
    const auto begin = Clock::now();
    binding.copy(*batch);
    binding.set_loss_scale(loss_scale);
    binding.set_dropout_key(dropout_key(0, static_cast<std::uint64_t>(i)));
    binding.set_update(1e-5, i + 1, 1.0);
    if (op_seconds != nullptr) {
      run_timed(program, backend, *op_seconds);
    } else {
      program.run();
      backend.wait();
    }
    result.step_seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    result.losses.push_back(program.tensor(session.planned(ProgramKind::kStep).loss).get<float>());
    if (options.after_step) options.after_step(program.graph());
  }
  result.measured_peak_bytes = measured_peak_bytes(backend);
  return result;
}

}  // namespace plimsoll
