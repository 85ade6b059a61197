// `plan` for a cluster that one does not have: so many processes, so many of them on a machine, and the network between
// the machines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/command.h"
#include "cli/run_options.h"
#include "fit/fit.h"

namespace plimsoll {

struct ClusterOptions {
  std::int64_t ranks = 0, per_node = 1;  // 0: one process, or those of the launcher
  std::string network, local_network;    // as typed, "100Gb/s"; empty: what is typical
  double latency_microseconds = 20;
  bool sweeps = false;

  // Tells the run's options how many processes there are. Throws UsageError if the options contradict each other.
  void take(RunOptions& options) const;
  // Sets the network that a rank of `ranks` has. A message to a rank of another machine goes through a network that all
  // ranks of the machine share, the others go through the machine itself; a rank sends all others as much.
  void set_network(OpSpeeds& speeds, std::int64_t ranks, bool on_gpu) const;
};

void add_cluster_options(Command* command, ClusterOptions& options);

// The bytes a second that "100Gb/s" (bits) or "12.5GB/s" (bytes) says, in powers of ten. Throws UsageError.
double parse_speed(const std::string& text, const std::string& option);

// A plan for 1, 2, 4 ... ranks, the most of `options`, as a table or as JSON. `request_of` makes the request of so many
// ranks. Ends where an update has more than the data's `samples`, because that is less work than it seems.
void print_rank_sweep(const Invocation& invocation, const ClusterOptions& options, const RunOptions& run,
                      std::int64_t samples, const std::function<FitRequest(std::int64_t ranks)>& request_of,
                      Backend& backend);

}  // namespace plimsoll
