#include "ranks/launcher.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace plimsoll {
namespace {

// The variables of one launcher; `local_size` may be missing in some, `marks` shows that the launcher is there.
struct Variables {
  Launcher launcher;
  const char *marks, *rank, *size, *local_rank, *local_size;
};

// The innermost first: torchrun may run below srun, mpirun below sbatch.
constexpr std::array<Variables, 4> kLaunchers = {{
    {Launcher::kTorchrun, "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::kPmix, "PMI_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::kSlurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE"},
}};

[[noreturn]] void throw_contradiction(const Variables& launcher, const std::string& found, const std::string& allowed) {
  throw UsageError(
      {.what = fmt::format("the variables that {} sets contradict each other", launcher_name(launcher.launcher)),
       .where = fmt::format("{}, {}", launcher.rank, launcher.size),
       .found = found,
       .allowed = allowed,
       .remedy = "start the command through the launcher, or pass --launcher none for a single process"});
}

std::optional<int> number(const ReadVariable& read, const char* name, const Variables& launcher) {
  const std::optional<std::string> text = read(name);
  if (!text) return std::nullopt;
  int value = 0;
  // Slurm writes "2(x3)" for tasks on several nodes: the first node's number comes first.
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool whole = end == text->data() + text->size() || launcher.launcher == Launcher::kSlurm;
  if (error == std::errc() && whole && value >= 0) return value;
  throw_contradiction(launcher, fmt::format("{}={}", name, *text), "a number from 0 on");
}

}  // namespace

std::string launcher_name(Launcher launcher) {
  static constexpr std::array<const char*, 5> kNames = {"none", "torchrun", "mpirun", "the PMI launcher", "srun"};
  return kNames[static_cast<std::size_t>(launcher)];
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

Launch find_launch(const ReadVariable& read) {
  for (const Variables& launcher : kLaunchers) {
    if (!read(launcher.marks)) continue;
    // sbatch's own environment has the numbers of its only step, the batch script.
    if (launcher.launcher == Launcher::kSlurm && read("SLURM_STEP_ID").value_or("batch") == "batch") continue;
    if (launcher.launcher == Launcher::kSlurm && read("SLURM_STEP_ID") == "4294967291") continue;
    const std::optional<int> rank = number(read, launcher.rank, launcher), size = number(read, launcher.size, launcher);
    if (!rank || !size) {
      throw_contradiction(launcher, fmt::format("{} without {}", launcher.marks, rank ? launcher.size : launcher.rank),
                          "both, or neither");
    }
    if (*size < 1 || *rank >= *size) {
      throw_contradiction(launcher, fmt::format("{}={}, {}={}", launcher.rank, *rank, launcher.size, *size),
                          fmt::format("a rank below {}", launcher.size));
    }
    Launch launch{.launcher = launcher.launcher,
                  .rank = *rank,
                  .size = *size,
                  .local_rank = number(read, launcher.local_rank, launcher).value_or(*rank),
                  .local_size = number(read, launcher.local_size, launcher).value_or(*size),
                  .variables = fmt::format("{}, {}", launcher.rank, launcher.size)};
    if (launch.local_rank >= *size || launch.local_size > *size) {
      throw_contradiction(launcher,
                          fmt::format("{}={}, {}={}", launcher.local_rank, launch.local_rank, launcher.size, *size),
                          "no more ranks on a machine than in all");
    }
    return launch;
  }
  return {};
}

}  // namespace plimsoll
