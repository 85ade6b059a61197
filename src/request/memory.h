// What memory a run may use, and how: its budgets, and the levers that were set by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "backend/backend.h"
#include "data/loader.h"
#include "fit/fit.h"
#include "tasks/task.h"

namespace plimsoll {

// How a run cuts its updates (Levers), which its numbers depend on.
struct KeptCut {
  std::int64_t micro_batch_size = 1, chunk_samples = 0;
};

struct MemoryRequest {
  std::size_t budget_bytes = 0;       // 0: what is available now
  std::size_t host_budget_bytes = 0;  // on a device with its own memory, of the host's memory; else 0
  BudgetOption budget_option{};       // the option that gave budget_bytes
  std::optional<std::int64_t> micro_batch_size;
  GradCache grad_cache = GradCache::kAuto;
  std::optional<UpdateMode> update;
  RecomputeMode recompute = RecomputeMode::kAuto;
  OpSpeeds speeds = typical_speeds();
  int local_ranks = 1;      // that share this machine's free memory
  int loader_workers = -1;  // below 0: chosen
  OffloadTarget offload = OffloadTarget::kNone;
  std::filesystem::path offload_directory{};  // for a file
  bool forbids_offload = false;               // even to the host, where it would be allowed by default
  TransferSpeed host_speed{};                 // of OffloadTarget::kHost
  bool plans_only = false;                    // no run follows, so the budget may exceed this machine
  bool other_machine = false;                 // the budget is another machine's (plan --device-memory)
  std::optional<KeptCut> kept_cut{};          // of the checkpoint that the run resumes
  bool resumes = false;                       // FitRequest's members of these names
  bool may_quantize = false;
  std::int64_t least_window = 0;
  // What the process held when all phases of a command were planned (fit/phases.h); nothing: what it holds now.
  std::optional<std::size_t> held_bytes{};
  std::size_t drawing_bytes = 0;
  std::optional<PredictionOptions> written{};  // what an evaluation also predicts, page by page
  bool keeps_found = false;                    // and of which it keeps a hash to the end (train/comparison.h)
  // With ranks (fit/fit.h, transform/data_parallel.h).
  std::optional<int> zero_stage{};
  std::optional<bool> sums_each_micro_batch{};
  std::size_t bucket_bytes = RankOptions().bucket_bytes;
  std::filesystem::path root = "/";  // where /proc and /sys are; tests replace it
};

LoaderOptions loader_options(const MemoryRequest& memory);

// Returns the budget that --budget gives, or what the machine can give now.
std::size_t resolve_budget(const MemoryRequest& memory);
// Returns what the process's resident set may have: the budget, or that of the host if a device computes.
std::size_t resident_budget(const MemoryRequest& memory);
// Throws BudgetError for a budget above the limit of one of the process's cgroups; warns of one above the machine's
// memory.
void check_budget(const MemoryRequest& memory);
// If the backend computes in its own memory, sets both budgets: the device's, and the host's, to whose memory the
// device's tensors are then offloaded. Throws UsageError for a host budget if it does not compute there, and for an
// offload file if it does; BudgetError for a budget above the limit of one of the process's cgroups. Warns of one above
// the machine's memory.
void resolve_device_memory(MemoryRequest& memory, Backend& backend);

}  // namespace plimsoll
