// fit: the fastest plan whose whole run stays inside the budget, or a refusal that names the smallest budget.
//
// What a run may use on a CPU is its peak resident set. A plan predicts it as the sum of
//   what the process holds already (code, libraries, data index, tokenizer; measured, once kernels are prepared)
//   + the arena (parameters, optimizer state, accumulated gradients, and the largest program's transient part)
//   + the loader's buffers + a reserve for what libraries take for a moment.
// On a device with memory of its own it is what the process holds there: context and libraries (asked of the driver,
// once kernels are prepared) + the arena + a reserve for the driver.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/process.h"
#include "fit/calibration.h"
#include "fit/step_graphs.h"
#include "plan/memory_plan.h"
#include "runtime/program.h"

namespace plimsoll {

// Which forward values may be computed again in backward, beside the cheap ones.
enum class RecomputeMode : std::uint8_t {
  kAuto,  // as many as the budget asks for
  kNone,
  kLayers  // all: only each layer's input is kept (gradient checkpointing)
};

enum class OffloadTarget : std::uint8_t {
  kNone,
  kFile,
  kHost  // the host's memory, from a device with its own, as far as the host's budget has room
};

// How a budget is asked for: a refusal names another value of the same option.
struct BudgetOption {
  const char* name = "--budget";
  std::size_t (*value)(std::size_t budget_bytes) = [](std::size_t bytes) { return bytes; };  // for that budget
};

// What the process holds varies from run to run by some hundred KiB; a budget that a refusal names has room for that.
inline constexpr std::size_t kVariationBytes = 1 * kMiB;

// A budget where none is asked for: what is held, and all that is free now, less a twentieth for the rest of the
// machine.
std::size_t usual_budget(std::size_t held_bytes, std::size_t free_bytes);

// The budget of the memory that computes is too small.
class BudgetTooSmall : public BudgetError {
 public:
  BudgetTooSmall(Problem problem, std::size_t smallest_budget_bytes)
      : BudgetError(std::move(problem)), smallest_budget_bytes_(smallest_budget_bytes) {}
  // The smallest that is known to be enough for the run as it was asked for.
  std::size_t smallest_budget_bytes() const { return smallest_budget_bytes_; }

 private:
  std::size_t smallest_budget_bytes_;
};

struct FitRequest {
  StepOptions step;                              // its `update` and `recompute` are the search's to set
  std::int64_t train_batch_size = 1;             // samples an update, the effective batch
  std::optional<std::int64_t> micro_batch_size;  // pinned by the user
  std::optional<UpdateMode> update;              // pinned by the user
  RecomputeMode recompute = RecomputeMode::kAuto;
  OpSpeeds speeds = typical_speeds();  // what plans are compared by
  // Where what may leave the memory that computes goes where the budget asks for it, at what is among `speeds`.
  OffloadTarget offload = OffloadTarget::kNone;
  std::filesystem::path offload_directory{};  // of the file
  bool trains = true;                         // false: evaluation only
  bool pretrained = false;                    // the model has weights of its own: adapters make sense
  bool evaluates = false;
  // The options that a run without evaluation leaves out ("--eval-data and --eval-steps"); empty: it cannot do without.
  std::string evaluation_options = "--eval-data";
  bool resumes = false;           // it goes on from a checkpoint, so only what changes no result may still change
  std::int64_t least_window = 0;  // the shortest windows, in tokens, that its other options allow
  // The most text rows that any micro-batch of `micro` samples will hold; training and evaluation.
  std::function<std::int64_t(std::int64_t micro)> text_rows;
  std::function<std::int64_t(std::int64_t micro)> evaluation_text_rows;
  // The most text rows of an update: bounds the distinct words in an accumulated gradient.
  std::int64_t update_text_rows = 0;
  // What the loader will hold for micro-batches of that capacity, and its worst decode.
  std::function<std::size_t(const ModelCapacity&)> loader_bytes;
  std::size_t drawing_bytes = 0;  // what drawing a page holds beside the loader
  std::size_t budget_bytes = 0;   // 0: no limit; of the device's memory where it has its own
  BudgetOption budget_option{};
  // Beside it, of the host's memory in a run on such a device; 0: no limit.
  std::size_t host_budget_bytes = 0;
  // What the process holds at the moment that it is called; tests may say what they like.
  std::function<std::size_t()> process_bytes = resident_bytes;
};

struct PlannedProgram {
  ProgramKind kind;
  ModelCapacity capacity;
  ValueId loss, logits, gradient_norm;
  Gradients gradients;
  PreparedGraph prepared;
  MemoryPlan plan;
};

// What the search may choose. None of it changes a result, only bytes and time.
struct Levers {
  std::int64_t micro_batch_size = 1;
  UpdateMode update = UpdateMode::kAfterBackward;
  std::vector<Recomputation> recompute{};  // a first part of rank_step_recomputations
  std::vector<Offloading> offload{};       // of rank_step_offloads
};

// What recomputation frees at the end of forward, and what it takes, each time that backward runs.
std::size_t recomputed_bytes(const Levers& levers);
double recomputed_seconds(const Levers& levers);

struct RunPlan {
  Levers levers;
  OptimizerKind optimizer = OptimizerKind::kAdamW;  // asked for, never chosen
  DType precision = DType::kF32;                    // the same
  std::int64_t parameters = 0, trained_parameters = 0;
  std::string trained_parts;  // model/trained_parts.h; empty where all train
  std::int64_t accumulation_steps = 0;
  std::int64_t train_batch_size = 0, update_text_rows = 0;  // as requested
  std::vector<PlannedProgram> programs;
  PersistentLayout layout;
  OffloadLayout offload;  // what lives elsewhere instead
  OffloadTarget offload_target = OffloadTarget::kNone;
  std::filesystem::path offload_directory;
  std::size_t arena_bytes = 0;
  std::size_t predicted_peak_bytes = 0;
  std::size_t budget_bytes = 0;
  // On a device with memory of its own: what the process is predicted to hold on the host, and may.
  std::size_t host_peak_bytes = 0, host_budget_bytes = 0;
  double seconds_per_update = 0;       // estimated, with every row of every micro-batch real
  double seconds_to_save = 0;          // the longest that a run goes on before it can save: see Program::run
  std::vector<MemoryItem> items;       // add up to predicted_peak_bytes
  std::vector<MemoryItem> host_items;  // add up to host_peak_bytes

  bool fits() const { return fits_device() && fits_host(); }
  bool fits_device() const { return budget_bytes == 0 || predicted_peak_bytes <= budget_bytes; }
  bool fits_host() const { return host_budget_bytes == 0 || host_peak_bytes <= host_budget_bytes; }
  // Of the process's resident set.
  std::size_t resident_budget_bytes() const { return host_budget_bytes > 0 ? host_budget_bytes : budget_bytes; }
};

enum class PlanDepth : std::uint8_t {
  kEstimate,  // every size, no offsets: quick, for comparing plans; cannot run
  kComplete
};

// Plans a run with these levers, whatever the budget.
RunPlan plan_run(const FitRequest& request, const Levers& levers, Backend& backend,
                 PlanDepth depth = PlanDepth::kComplete);

// On a device with memory of its own, once all that runs is loaded there: what context and libraries hold now takes the
// place of what they held when the run was planned, out of the reserve first. Throws BudgetError if that is more than
// the budget has room for.
void settle(RunPlan& run, Backend& backend);

// What predicted_peak_bytes is compared with, while the session lives: the most that the process has held, resident or,
// on a device with memory of its own, there.
std::size_t measured_peak_bytes(Backend& backend);

// The plan that is estimated to be the fastest of those that fit. Micro-batches without recomputation come first: they
// cost next to nothing; then larger ones that recompute, or whose gradients are consumed in backward. Throws
// BudgetError with the smallest budget that works and the cheapest changes that fit this one (fit/remedies.h), and
// UsageError if what is pinned makes no sense.
RunPlan fit(const FitRequest& request, Backend& backend);

// The same; nothing where fit() would refuse.
std::optional<RunPlan> try_fit(const FitRequest& request, Backend& backend);

// The same choice by estimates alone, without programs, so it cannot run; nothing if no plan fits.
std::optional<RunPlan> choose_plan(const FitRequest& request, Backend& backend);

// The smallest plan that there is, likewise.
RunPlan smallest_plan(const FitRequest& request, Backend& backend);

// What budgets between the smallest and the largest useful one buy: up to `points` of them, evenly spaced, ascending,
// each with the plan that fit() would choose (without its programs, so it cannot run). Between two neighbours with the
// same levers lies nothing of interest.
std::vector<RunPlan> sweep_budgets(const FitRequest& request, int points, Backend& backend);

}  // namespace plimsoll
