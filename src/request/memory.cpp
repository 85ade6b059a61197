#include "request/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"

namespace plimsoll {
namespace {

// A device's tensors may be offloaded to the host's memory unless an option forbids it.
void resolve_host_offload(MemoryRequest& memory, Backend& backend) {
  if (memory.offload == OffloadTarget::kFile) {
    throw UsageError({.what = "a GPU offloads to the host's memory, not to a file",
                      .where = "--offload",
                      .found = memory.offload_directory.string(),
                      .allowed = "none, or no --offload: the host's memory then holds what does not fit on the GPU",
                      .remedy = "omit --offload; --host-budget limits what the host holds"});
  }
  if (memory.forbids_offload) return;
  if (const std::optional<TransferSpeed> speed = backend.offload_speed()) {
    memory.offload = OffloadTarget::kHost;
    memory.host_speed = *speed;
  }
}

// Beyond the smallest limit of its cgroups a process is killed; beyond the machine's memory it swaps, or is killed.
void check_host_budget(std::size_t budget_bytes, const char* option, const MemoryRequest& memory) {
  if (budget_bytes == 0) return;
  if (const auto limit = MemoryGroups(memory.root).least_limit(); limit && limit->limit_bytes < budget_bytes) {
    const std::string found = fmt::format("{}, but the cgroup {} allows {}", format_bytes(budget_bytes),
                                          limit->directory, format_bytes(limit->limit_bytes));
    if (!memory.plans_only) {
      throw BudgetError({.what = "the budget exceeds the process's memory limit",
                         .where = option,
                         .found = found,
                         .allowed = fmt::format("at most {} MiB", limit->limit_bytes / kMiB),
                         .remedy = fmt::format("omit {} to use the free memory, or raise the limit (docker run "
                                               "--memory, Kubernetes resources.limits.memory, Slurm --mem)",
                                               option)});
    }
    log_warning(fmt::format("{} {}: a run here would be refused", option, found));
    return;
  }
  const std::size_t machine = machine_memory_bytes(memory.root);
  if (machine == 0 || budget_bytes <= machine) return;
  log_warning(fmt::format("{} {} exceeds the machine's memory of {}{}", option, format_bytes(budget_bytes),
                          format_bytes(machine),
                          memory.plans_only ? "" : ": a run that uses that much would be killed"));
}

// The ranks of a machine divide what is free.
std::size_t host_budget(const MemoryRequest& memory) {
  return usual_budget(resident_bytes(), available_memory_bytes() / static_cast<std::size_t>(memory.local_ranks));
}

}  // namespace

LoaderOptions loader_options(const MemoryRequest& memory) {
  return {.workers = memory.loader_workers >= 0 ? memory.loader_workers : std::min(4, (available_cores() + 1) / 2),
          .slots = 0};
}

std::size_t resolve_budget(const MemoryRequest& memory) {
  return memory.budget_bytes > 0 ? memory.budget_bytes : host_budget(memory);
}

std::size_t resident_budget(const MemoryRequest& memory) {
  return memory.host_budget_bytes > 0 ? memory.host_budget_bytes : resolve_budget(memory);
}

void check_budget(const MemoryRequest& memory) {
  if (!memory.other_machine) check_host_budget(memory.budget_bytes, memory.budget_option.name, memory);
}

void resolve_device_memory(MemoryRequest& memory, Backend& backend) {
  if (const std::optional<DeviceUse> use = backend.device_use()) {
    resolve_host_offload(memory, backend);
    if (!memory.other_machine) check_host_budget(memory.host_budget_bytes, "--host-budget", memory);
    const std::size_t device = use->held_bytes + use->free_bytes;
    if (memory.budget_bytes > device && !memory.other_machine) {
      log_warning(fmt::format("{} {} exceeds the {} of the GPU's memory that other processes leave free",
                              memory.budget_option.name, format_bytes(memory.budget_bytes), format_bytes(device)));
    }
    if (memory.budget_bytes == 0) memory.budget_bytes = usual_budget(use->held_bytes, use->free_bytes);
    if (memory.host_budget_bytes == 0) {  // another machine's host may have any memory
      memory.host_budget_bytes = memory.other_machine ? std::numeric_limits<std::size_t>::max() : host_budget(memory);
    }
    return;
  }
  if (memory.host_budget_bytes > 0) {
    throw UsageError({.what = "--host-budget needs --device cuda",
                      .where = "--host-budget",
                      .found = format_bytes(memory.host_budget_bytes),
                      .allowed = "--budget, which limits the host's memory on the CPU",
                      .remedy = "omit --host-budget, or pass --device cuda"});
  }
  check_budget(memory);
}

}  // namespace plimsoll
