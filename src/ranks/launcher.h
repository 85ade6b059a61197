// What started this process, and as which rank of how many. Rank, size and local rank come from the innermost launcher
// whose variables are set: torchrun, Open MPI's mpirun, another PMIx or PMI launcher, Slurm's srun. A plain command in
// a batch script is one process: Slurm counts only inside a step that srun has made.
//
//   const Launch launch = find_launch();
//   if (launch.size > 1) connect(launch);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace plimsoll {

enum class Launcher : std::uint8_t { kNone, kTorchrun, kOpenMpi, kPmix, kSlurm };

struct Launch {
  Launcher launcher = Launcher::kNone;
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of this machine
  std::string variables{};             // the variables that these numbers came from

  // Returns whether its ranks are connected by MPI.
  bool speaks_mpi() const {
    return launcher == Launcher::kOpenMpi || launcher == Launcher::kPmix || launcher == Launcher::kSlurm;
  }
};

// Returns "mpirun", "torchrun", …
std::string launcher_name(Launcher launcher);

// Reads one variable of the environment; nothing if it is not set.
using ReadVariable = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment_variable(const char* name);

// Throws UsageError if the launcher's own variables contradict each other, or are not numbers.
Launch find_launch(const ReadVariable& read = environment_variable);

}  // namespace plimsoll
