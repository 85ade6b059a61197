// fit: finds the fastest plan whose whole run stays inside the budget, or refuses and names the smallest budget.
//
// On a CPU, the budget limits the peak resident set, which a plan predicts as the sum of
//   what the process holds already (code, libraries, data index, tokenizer; measured, once kernels are prepared)
//   + the arena (parameters, optimizer state, accumulated gradients, and the largest program's transient part)
//   + the loader's buffers + a reserve for what libraries take for a moment.
// On a device with its own memory, the budget limits what the process holds there: context and libraries (as the driver
// reports once kernels are prepared) + the arena + a reserve for the driver.
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

// The activations that may be recomputed in backward, besides the cheap ones.
enum class RecomputeMode : std::uint8_t {
  kAuto,  // as many as the budget requires
  kNone,
  kLayers  // all: only each layer's input is kept (gradient checkpointing)
};

// True if the pages of an update are embedded first, and go backward chunk by chunk (model/grad_cache.h).
enum class GradCache : std::uint8_t {
  kAuto,  // if an update does not fit otherwise
  kOff,
  kOn
};

// The updates of a run, cut into chunks of pages for GradCache.
struct ChunkCut {
  std::int64_t text_rows = 0;    // of a chunk, at most
  std::int64_t most_chunks = 0;  // of an update
  std::size_t loader_bytes = 0;
};

enum class OffloadTarget : std::uint8_t {
  kNone,
  kFile,
  kHost  // the host's memory, for a device with its own, up to the host's budget
};

// The option that sets the budget; a refusal names another value of the same option.
struct BudgetOption {
  const char* name = "--budget";
  std::size_t (*value)(std::size_t budget_bytes) = [](std::size_t bytes) { return bytes; };  // for that budget
};

// The budget if none was given: the memory held and all that is free now, less a twentieth for the rest of the
// machine.
std::size_t usual_budget(std::size_t held_bytes, std::size_t free_bytes);

struct FitRequest {
  StepOptions step;                              // the search sets its `update` and `recompute`
  std::int64_t updates = 0;                      // of the whole run
  std::int64_t train_batch_size = 1;             // samples per update, the effective batch; with ranks, per rank
  std::optional<std::int64_t> micro_batch_size;  // pinned by the user
  GradCache grad_cache = GradCache::kAuto;
  std::optional<std::int64_t> chunk_samples{};  // of a resumed run
  // How updates are cut into chunks of at most this many pages; empty: GradCache is not possible.
  std::function<ChunkCut(std::int64_t samples)> chunks{};
  std::optional<int> zero_stage;  // pinned by the user; else the first that fits
  // True if an update of several micro-batches sums gradients over ranks after each of them; pinned, or as the stage
  // requires.
  std::optional<bool> sums_each_micro_batch{};
  std::optional<UpdateMode> update;  // pinned by the user
  RecomputeMode recompute = RecomputeMode::kAuto;
  OpSpeeds speeds = typical_speeds();  // used to compare plans
  // Where tensors may be offloaded if the budget requires it; their transfer costs are among `speeds`.
  OffloadTarget offload = OffloadTarget::kNone;
  std::filesystem::path offload_directory{};  // the directory of the offload file
  bool trains = true;                         // false: evaluation only
  std::vector<NamedModel> smaller_models{};   // for the same labels, to train from scratch; the largest first
  bool pretrained = false;                    // the model has pretrained weights, so adapters make sense
  // Says whether the command has that option ("--freeze"), for remedies. If it is absent, the command has all.
  std::function<bool(const std::string& option)> has_option{};
  bool evaluates = false;
  // The programs of an evaluation also compute the gradients of what trains (ProgramKind::kGradients).
  bool differentiates = false;
  // An evaluation that may hold its weights in fewer bits (--bf16, --load-in-8bit, --load-in-4bit).
  bool may_quantize = false;
  // Continues texts with a language model; `step.cached_tokens` says how long each may be.
  bool generates = false;
  // The options that a run without evaluation leaves out ("--eval-data and --eval-steps"); empty: it must evaluate.
  std::string evaluation_options = "--eval-data";
  bool resumes = false;           // resumes a checkpoint, so only settings that change no result may change
  std::int64_t least_window = 0;  // the shortest windows, in tokens, that its other options allow
  // The most text rows of any micro-batch of `micro` samples, for training and for evaluation.
  std::function<std::int64_t(std::int64_t micro)> text_rows;
  std::function<std::int64_t(std::int64_t micro)> evaluation_text_rows;
  // Says which part of the data is far longer than the rest, and so decides how much memory the smallest plan needs;
  // empty text: none. Absent: unknown.
  std::function<std::string()> outlier{};
  // The most text rows of an update; it bounds the distinct words in an accumulated gradient.
  std::int64_t update_text_rows = 0;
  // The bytes that the loader holds for micro-batches of that capacity, including its largest decode.
  std::function<std::size_t(const ModelCapacity&)> loader_bytes;
  std::size_t drawing_bytes = 0;  // bytes that drawing a page needs besides the loader
  std::size_t result_bytes = 0;   // bytes of what is found on the largest page or document, until it is written
  std::size_t budget_bytes = 0;   // 0: no limit; of the device's memory if it has its own
  BudgetOption budget_option{};
  // In a run on such a device, the budget of the host's memory; 0: no limit.
  std::size_t host_budget_bytes = 0;
  // Returns the bytes that the process holds now; tests replace it.
  std::function<std::size_t()> process_bytes = resident_bytes;
  // The most that it has held so far: to read a tokenizer may take more than a small run.
  std::size_t startup_bytes = 0;
};

// Returns how much memory a budget that is named for such a run leaves besides its plan.
inline std::size_t variation_bytes(const FitRequest& request) {
  return request.step.ranks.ranks > 1 ? kRanksVariationBytes : kVariationBytes;
}

struct PlannedProgram {
  ProgramKind kind;
  ModelCapacity capacity;
  ValueId loss, logits, gradient_norm;
  Gradients gradients;
  PreparedGraph prepared;
  MemoryPlan plan;
};

// The settings that the search may choose. None of them changes a result, only bytes and time.
struct Levers {
  std::int64_t micro_batch_size = 1;
  // With GradCache, the most pages of a chunk (the micro-batch is then only an evaluation's); 0: no GradCache.
  std::int64_t chunk_samples = 0;
  UpdateMode update = UpdateMode::kAfterBackward;
  // Do not even recompute what costs almost nothing, and keep the parts of sums until all are added up at once.
  bool keeps_cheap = false;
  bool keeps_biases = false;               // attention's biases are made once per program, not in each layer
  std::vector<Recomputation> recompute{};  // a prefix of rank_step_recomputations
  std::vector<Offloading> offload{};       // entries of rank_step_offloads
  int zero_stage = 0;                      // with ranks: what each of them keeps (transform/data_parallel.h)
  // How many products a device may run concurrently with the nodes that follow (plan/forks.h). The search uses none,
  // because their gain has not been measured.
  std::size_t forks = 0;
};

// Returns whether Levers::keeps_biases has an effect: for a backend that gains by it, and a model with biases that
// layers share.
bool may_keep_biases(const FitRequest& request, const Backend& backend);

// Returns the bytes that recomputation frees at the end of forward, and the time that it adds to each backward.
std::size_t recomputed_bytes(const Levers& levers);
double recomputed_seconds(const Levers& levers);

// What a plan chose and what it needs: all that is printed, written to plan.json and compared with other plans.
struct PlanSummary {
  Levers levers;
  OptimizerKind optimizer = OptimizerKind::kAdamW;  // as requested
  DType precision = DType::kF32;                    // as requested
  std::int64_t parameters = 0, trained_parameters = 0;
  std::string trained_parts;  // model/trained_parts.h; empty if everything is trained
  int rank = 0, ranks = 1;
  bool sums_each_micro_batch = false;  // over ranks
  Shards shards;                       // with ranks: who owns what
  ExchangeSize exchange;               // of an update, with as many real rows as there may be
  double exchange_seconds = 0;         // the time that it takes by itself
  double exchange_wait_seconds = 0;    // the part of it during which nothing else is done
  std::int64_t accumulation_steps = 0;
  std::int64_t train_batch_size = 0, update_text_rows = 0;  // as requested
  // The tokens whose rows of the word embedding, by its name, are in memory, ascending, of so many; nullptr: all.
  std::shared_ptr<const std::vector<std::int32_t>> word_rows{};
  std::string word_table;
  std::int64_t vocabulary = 0;
  // The weight decay and the factor of the learning rate by which AdamW updates the word embedding; 0: it does not
  // decay.
  double word_decay = 0, word_rate_factor = 1;
  std::size_t noted_bytes = 0;  // of what a run keeps of each update, to save the rows that are not in memory
  OffloadLayout offload;        // the tensors that are offloaded
  OffloadTarget offload_target = OffloadTarget::kNone;
  std::filesystem::path offload_directory;
  TransferSize transfers;       // of an update
  double transfer_seconds = 0;  // the time of all transfers by themselves
  std::size_t arena_bytes = 0;
  std::size_t predicted_peak_bytes = 0;
  std::size_t budget_bytes = 0;
  bool on_device = false;  // the arena is in a device's own memory (Backend::device_use)
  // Then the bytes that the process is predicted to hold on the host, and their limit.
  std::size_t host_peak_bytes = 0, host_budget_bytes = 0;
  double seconds_per_update = 0;       // estimated, with every row of every micro-batch real
  double seconds_to_save = 0;          // the longest that a run continues before it can save: see Program::run
  std::vector<MemoryItem> items;       // their sum is predicted_peak_bytes
  std::vector<MemoryItem> host_items;  // their sum is host_peak_bytes

  bool fits() const { return fits_device() && fits_host(); }
  bool fits_device() const { return budget_bytes == 0 || predicted_peak_bytes <= budget_bytes; }
  bool fits_host() const { return host_budget_bytes == 0 || host_peak_bytes <= host_budget_bytes; }
  // Returns the budget of the process's resident set.
  std::size_t resident_budget_bytes() const { return on_device ? host_budget_bytes : budget_bytes; }
};

// False for programs of an evaluation, and of generation.
bool is_of_update(ProgramKind kind);
// Returns how often an update runs a program of the plan, at most.
std::int64_t runs_per_update(const PlanSummary& plan, ProgramKind kind);

// A plan with its programs. Copying only its summary leaves out the kernels, whose memory would be counted in the next
// plan's.
struct RunPlan : PlanSummary {
  std::vector<PlannedProgram> programs;
  PersistentLayout layout;
};

enum class PlanDepth : std::uint8_t {
  kEstimate,  // all sizes but no offsets: quick, for comparing plans; cannot run
  kComplete
};

// Plans a run with these levers, whatever the budget.
RunPlan plan_run(const FitRequest& request, const Levers& levers, Backend& backend,
                 PlanDepth depth = PlanDepth::kComplete);

// On a device with its own memory, replaces the planned bytes of context and libraries by those measured once
// everything is loaded; a difference is taken out of the reserve first. Throws BudgetError if the result does not fit
// the budget.
void settle(RunPlan& run, Backend& backend);

// Returns the measured value to compare with predicted_peak_bytes, while the session lives: the most that the process
// has held, resident or, on a device with its own memory, there.
std::size_t measured_peak_bytes(Backend& backend);

// Returns the plan with the least estimated time of those that fit. Micro-batches without recomputation are tried
// first, because they cost almost nothing; then larger ones that recompute, or that consume gradients in backward.
// Throws BudgetError with the smallest budget that works and the cheapest changes that fit this one (fit/remedies.h),
// and UsageError if the pinned settings contradict each other.
RunPlan fit(const FitRequest& request, Backend& backend);

// Returns the same plan, or nothing where fit() would refuse.
std::optional<RunPlan> try_fit(const FitRequest& request, Backend& backend);

// Returns the same choice from estimates alone; nothing if no plan fits.
std::optional<PlanSummary> choose_plan(const FitRequest& request, Backend& backend);

// Returns the smallest possible plan, also from estimates.
PlanSummary smallest_plan(const FitRequest& request, Backend& backend);

// Returns plans for up to `points` budgets between the smallest and the largest useful one, evenly spaced, ascending,
// each as fit() would choose it. If two neighbours have the same levers, so have all budgets between them.
std::vector<PlanSummary> sweep_budgets(const FitRequest& request, int points, Backend& backend);

}  // namespace plimsoll
