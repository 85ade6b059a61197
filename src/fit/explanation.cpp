#include "fit/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/process.h"
#include "model/lora.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

// The number of budgets in the sweep that finds the neighbours.
constexpr int kSweepPoints = 8;
// More memory is worth mentioning if it makes an update faster by this part of its time; less memory always is.
constexpr double kNoticed = 0.001;

// Replaces the layer's number: "model.encoder.layer.7.output" -> "layer.*.output".
std::string without_layer(const std::string& name) {
  constexpr std::string_view kEncoder = ".encoder.";
  std::string text = name;
  if (const std::size_t at = text.find(kEncoder); at != std::string::npos) text.erase(0, at + kEncoder.size());
  const std::int64_t layer = layer_of(text);
  if (layer < 0) return text;
  const std::string number = fmt::format(".{}.", layer);
  return text.replace(text.find(number), number.size(), ".*.");
}

std::string kind_of(const Buffer& buffer) {
  if (buffer.scratch_of != kNoNode) return "scratch";
  if (buffer.role == Role::kInput) return "input";
  return buffer.role == Role::kActivation ? "activation" : "gradient";
}

void explain_packing(const PlannedProgram& program, Explanation& explanation) {
  const MemoryPlan& plan = program.plan;
  const Graph& graph = program.prepared.graph;
  explanation.program = program.kind;
  explanation.nodes = static_cast<std::int64_t>(graph.nodes().size());
  explanation.buffers = plan.buffers.size();
  explanation.transient_bytes = plan.transient_bytes;
  explanation.is_smallest = plan.is_smallest;
  if (plan.peak_node == kNoNode) return;
  const Node& node = graph.node(plan.peak_node);
  explanation.peak_position = plan.peak_node;
  explanation.peak_node = node.name;
  explanation.peak_op = op_name(node.op);
  explanation.peak_phase = phase_name(node.phase);
  std::map<std::pair<std::string, std::string>, AliveGroup> groups;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.life.begin > plan.peak_node || buffer.life.end <= plan.peak_node) continue;
    AliveGroup& group = groups[{without_layer(buffer.name), kind_of(buffer)}];
    group.name = without_layer(buffer.name);
    group.kind = kind_of(buffer);
    ++group.count;
    group.bytes += buffer.life.bytes;
    explanation.alive_bytes += buffer.life.bytes;
  }
  for (auto& [key, group] : groups) explanation.alive.push_back(std::move(group));
  std::stable_sort(explanation.alive.begin(), explanation.alive.end(),
                   [](const AliveGroup& a, const AliveGroup& b) { return a.bytes > b.bytes; });
}

// Gives the time of each phase, scaled so that they add up to the plan's time (which knows how many rows are real).
void explain_time(const FitRequest& request, const RunPlan& run, Explanation& explanation) {
  double sum = 0;
  for (const PlannedProgram& program : run.programs) {
    if (program.kind == ProgramKind::kEvaluate) continue;
    const auto runs = static_cast<double>(runs_per_update(run, program.kind));
    for (const Node& node : program.prepared.graph.nodes()) {
      const double seconds = runs * request.speeds.seconds(program.prepared.graph, node);
      explanation.phase_seconds[static_cast<std::size_t>(node.phase)] += seconds;
      sum += seconds;
    }
  }
  for (double& seconds : explanation.phase_seconds) seconds *= sum > 0 ? run.seconds_per_update / sum : 0;
}

class LeverNotes {
 public:
  // `same` is the run's plan, estimated under the same conditions as the alternatives.
  LeverNotes(const FitRequest& request, const PlanSummary& run, const PlanSummary& same, Backend& backend)
      : request_(request), run_(run), same_(same), backend_(backend) {}

  std::vector<LeverNote> take() {
    if (request_.trains) {
      if (!run_.trained_parts.empty()) trained_parts();
      micro_batch();
      recomputation();
      biases();
      update();
      offload();
    }
    return std::move(notes_);
  }

 private:
  PlanSummary estimate(const Levers& levers) { return plan_run(request_, levers, backend_, PlanDepth::kEstimate); }

  void compare(LeverNote& note, const Levers& other, std::string alternative) {
    const PlanSummary plan = estimate(other);
    note.alternative = std::move(alternative);
    note.freed_bytes =
        static_cast<std::int64_t>(plan.predicted_peak_bytes) - static_cast<std::int64_t>(same_.predicted_peak_bytes);
    note.extra_seconds = same_.seconds_per_update - plan.seconds_per_update;
    notes_.push_back(std::move(note));
  }

  void trained_parts() {
    const ModelOptions& model = request_.step.model;
    notes_.push_back(
        {.lever = "trained",
         .choice = fmt::format("{} of {}", run_.trained_parameters, counted(run_.parameters, "parameter")),
         .why = model.lora.enabled() ? adapters_text(model.lora, trains_head(request_.step.definition, model))
                                     : counted(model.freeze.size(), "frozen pattern"),
         .alternative = {}});
  }

  void micro_batch() {
    const std::int64_t micro = run_.levers.micro_batch_size, batch = request_.train_batch_size;
    LeverNote note{.lever = "micro-batch"};
    if (run_.levers.chunk_samples > 0) return chunks(std::move(note));
    if (micro == batch) {
      note.choice =
          batch == 1 ? "1 page, the whole update" : fmt::format("all {} of an update at once", counted(batch, "page"));
      note.why = request_.micro_batch_size ? "pinned" : "they fit";
      notes_.push_back(std::move(note));
      return;
    }
    note.choice =
        fmt::format("{} of {}, {} per update", micro, counted(batch, "page"), counted(run_.accumulation_steps, "time"));
    note.why = request_.micro_batch_size ? "pinned" : "the fastest that fits";
    Levers whole = run_.levers;
    whole.micro_batch_size = batch;
    whole.recompute.clear();
    whole.update = request_.update.value_or(request_.step.optimizer.waits_for_norm() ? UpdateMode::kAfterBackward
                                                                                     : UpdateMode::kInBackward);
    compare(note, whole, fmt::format("all {} at once, nothing recomputed", batch));
  }

  void chunks(LeverNote note) {
    const std::int64_t batch = request_.train_batch_size;
    note.choice = fmt::format("chunks of {} at most, {} per update, each computed twice (GradCache)",
                              counted(run_.levers.chunk_samples, "page"), counted(run_.accumulation_steps, "chunk"));
    note.why = request_.grad_cache == GradCache::kOn ? "pinned" : "the fastest that fits";
    Levers whole = run_.levers;
    whole.chunk_samples = 0;
    whole.micro_batch_size = request_.step.definition.compares_examples() ? batch : run_.levers.micro_batch_size;
    whole.recompute.clear();
    compare(note, whole, fmt::format("{} at once, without GradCache", counted(whole.micro_batch_size, "pair")));
  }

  void recomputation() {
    LeverNote note{.lever = "recompute"};
    if (run_.levers.keeps_cheap) {
      note.choice = "nothing";
      note.why = "the device's memory holds all of it";
      notes_.push_back(std::move(note));
      return;
    }
    if (run_.levers.recompute.empty()) {
      note.choice = "cheap values only";
      note.why =
          request_.recompute == RecomputeMode::kNone ? "not allowed by --recompute" : "the budget requires no more";
      notes_.push_back(std::move(note));
      return;
    }
    note.choice = fmt::format("{} of activations", format_bytes(recomputed_bytes(run_.levers)));
    note.why =
        request_.recompute == RecomputeMode::kLayers ? "whole layers, as requested" : "as little as the budget allows";
    Levers none = run_.levers;
    none.recompute.clear();
    compare(note, none, "nothing recomputed");
  }

  // The costs of ops do not show what this gains, so there is nothing to compare.
  void biases() {
    if (!may_keep_biases(request_, backend_)) return;
    const bool keeps = run_.levers.keeps_biases;
    notes_.push_back({.lever = "biases",
                      .choice = keeps ? "attention's, made once and kept" : "attention's, made again in each layer",
                      .why = keeps ? "the device's memory holds them" : "the fastest plan that fits does not keep them",
                      .alternative = {}});
  }

  void update() {
    LeverNote note{.lever = "update"};
    note.choice = update_mode_name(run_.levers.update);
    if (run_.levers.update == UpdateMode::kAfterBackward) {
      note.why = run_.accumulation_steps > 1                ? "gradients are summed over micro-batches"
                 : request_.step.optimizer.waits_for_norm() ? "clipping needs the norm of all gradients"
                                                            : "pinned";
      notes_.push_back(std::move(note));
      return;
    }
    note.why = request_.update                                 ? "pinned"
               : run_.levers.update == UpdateMode::kInBackward ? "no clipping, so no gradient has to wait"
               : run_.levers.update == UpdateMode::kHeadInParts
                   ? "the head's gradient does not fit in memory as a whole, and its logits are computed once more"
                   : "gradients do not fit in memory until their norm is known";
    Levers other = run_.levers;
    const bool in_parts = run_.levers.update == UpdateMode::kHeadInParts;
    other.update = in_parts ? UpdateMode::kInBackward : UpdateMode::kAfterBackward;
    compare(note, other, in_parts ? "in backward, the head whole" : "after backward");
  }

  void offload() {
    LeverNote note{.lever = "offload"};
    if (run_.levers.offload.empty()) {
      const bool allowed = request_.offload != OffloadTarget::kNone;
      note.choice = "nothing";
      note.why = allowed ? "the budget does not require it, or other levers are faster" : "not allowed by --offload";
      notes_.push_back(std::move(note));
      return;
    }
    note.choice = offloaded_text(run_.offload);
    const bool to_file = run_.offload_target == OffloadTarget::kFile;
    const auto speed = [](double seconds_per_byte) {
      return seconds_per_byte > 0 ? format_bytes(static_cast<std::size_t>(1 / seconds_per_byte)) : "?";
    };
    note.why = fmt::format("as little as the budget allows; the {} {} and {} {} per second",
                           to_file ? "disk reads" : "host sends", speed(request_.speeds.offload_read_seconds_per_byte),
                           to_file ? "writes" : "takes", speed(request_.speeds.offload_write_seconds_per_byte));
    Levers none = run_.levers;
    none.offload.clear();
    compare(note, none, "nothing offloaded");
  }

  const FitRequest& request_;
  const PlanSummary& run_;
  const PlanSummary& same_;
  Backend& backend_;
  std::vector<LeverNote> notes_;
};

// Finds the sweep's nearest plans that differ from this one: one with less memory, one with more speed.
void find_neighbours(const FitRequest& request, const PlanSummary& run, Backend& backend, Explanation& explanation) {
  for (PlanSummary& plan : sweep_budgets(request, kSweepPoints, backend)) {
    const double change = plan.seconds_per_update / run.seconds_per_update - 1;
    if (change > 0 && plan.budget_bytes < run.predicted_peak_bytes) explanation.cheaper = std::move(plan);
    if (change < -kNoticed && plan.budget_bytes > run.predicted_peak_bytes && !explanation.larger) {
      explanation.larger = std::move(plan);
    }
  }
}

}  // namespace

Explanation explain_run(const FitRequest& request, RunPlan& run, Backend& backend) {
  Explanation explanation;
  const auto largest = std::max_element(run.programs.begin(), run.programs.end(), [](const auto& a, const auto& b) {
    return a.plan.arena_bytes() < b.plan.arena_bytes();
  });
  if (largest != run.programs.end()) explain_packing(*largest, explanation);
  explain_time(request, run, explanation);
  run.programs.clear();
  release_free_heap();
  // The process has grown since the run was planned, by compiled kernels and by its heap, so alternatives are compared
  // with the plan that the run would get now.
  const PlanSummary same = plan_run(request, run.levers, backend, PlanDepth::kEstimate);
  explanation.levers = LeverNotes(request, run, same, backend).take();
  if (request.trains) find_neighbours(request, same, backend, explanation);
  return explanation;
}

}  // namespace plimsoll
