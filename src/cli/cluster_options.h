// Options of `plan` for another cluster: the number of processes, how many of them are on a machine, and the network
// between the machines.
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
  std::string network, local_network;    // as typed, "100Gb/s"; empty: a typical one
  double latency_microseconds = 20;
  bool sweeps = false;

  // Sets the number of processes in the run's options. Throws UsageError if the options contradict each other.
  void take(RunOptions& options) const;
  // Sets the network speeds for a rank of `ranks`. A message to a rank on another machine goes through a network that
  // all ranks of the machine share, the others go through the machine itself; a rank sends equally much to all others.
  void set_network(OpSpeeds& speeds, std::int64_t ranks, bool on_gpu) const;
};

void add_cluster_options(Command* command, ClusterOptions& options);

// Returns the bytes per second of "100Gb/s" (bits) or "12.5GB/s" (bytes), in powers of ten. Throws UsageError.
double parse_speed(const std::string& text, const std::string& option);

// Prints a plan for 1, 2, 4 … ranks, up to that of `options`, as a table or as JSON. `request_of` makes the request for
// a number of ranks. Stops when an update has more than the data's `samples`, because that is less work than it seems.
void print_rank_sweep(const Invocation& invocation, const ClusterOptions& options, const RunOptions& run,
                      std::int64_t samples, const std::function<FitRequest(std::int64_t ranks)>& request_of,
                      Backend& backend);

}  // namespace plimsoll
