// The options of a run of several processes, and its connection: which launcher has started this process, as which
// rank. Every rank parses, reads and plans in the same way; the first one prints and writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/interrupt.h"
#include "cli/command.h"
#include "data/page_share.h"
#include "fit/fit.h"
#include "ranks/launcher.h"
#include "request/memory.h"

namespace plimsoll {

struct RankRequest {
  // As typed.
  std::string launcher = "auto", zero_stage = "auto", gradient_sync = "auto";
  double bucket_cap_mb = 25;
  double timeout_seconds = 600;
  std::string rendezvous{};  // empty: the launcher's
  bool on_gpu = false;       // each rank computes on a GPU

  // For `plan` only: plans a run of this many processes, which are not started; 0: as the launcher says.
  std::int64_t planned = 0, per_node = 1;

  const Command* command = nullptr;  // whose options these are
  Launch launch{};                   // after `resolve`
  std::chrono::milliseconds timeout() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  }

  // Finds the launcher. Throws UsageError.
  void find();
  // Does the same, and sets the planner's request.
  void resolve(MemoryRequest& memory);
};

void add_rank_options(Command* command, RankRequest& options);
// Adds those of a command that does not train.
// Throws UsageError if a launcher has started several processes; `then` follows the remedy.
void refuse_ranks(const std::string& what, const std::string& then);

void add_launcher_options(Command* command, RankRequest& options);

// Connects the ranks of `request.launch`, by MPI or, for GPUs whose launcher has none, by TCP; says so on standard
// error, silences all except the first, and throws UsageError if they were given different options; does nothing for a
// single process. `interrupt` is that of a run that saves
// when it is asked to end; nullptr: a signal ends the process. Call it after signals are watched.
void connect_ranks(Invocation& invocation, const RankRequest& request, const Interrupt* interrupt = nullptr);

// Returns when every process has called it; throws RankError if one no longer can.
void wait_for_ranks(const Invocation& invocation);

// Returns this rank's share of the pages; a single process has all.
PageShare page_share(const Invocation& invocation);
// Returns the threads that work on it, unless --threads says: as many as the cores that this process may use, which
// ranks divide if the launcher has not bound them to separate cores.
int sharing_threads(const Invocation& invocation, const Launch& launch);

// Makes the plan of a command's run, of one process or of all ranks together. `kept` is from the checkpoint that the
// run resumes.
RunPlan plan_of(const Invocation& invocation, FitRequest& request, Backend& backend,
                std::optional<KeptCut> kept = std::nullopt);

// Tells the other ranks about an error that ends this one. Returns false if it need not be printed here, because
// another rank has reported the same.
bool tell_ranks(Invocation& invocation, const Problem& problem, ExitCode code);

}  // namespace plimsoll
