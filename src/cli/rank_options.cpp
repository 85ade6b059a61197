#include "cli/rank_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/resume.h"
#include "cli/same_run.h"
#include "cli/signals.h"
#include "cli/usage.h"
#include "fit/rank_fit.h"
#include "ranks/mpi_communicator.h"
#include "ranks/network_speed.h"
#include "ranks/rendezvous.h"
#include "ranks/socket_communicator.h"

namespace plimsoll {

void RankRequest::find() { launch = launcher == "none" ? Launch{} : find_launch(); }

void RankRequest::resolve(MemoryRequest& memory) {
  if (planned > 0) {
    launch = {.rank = 0,
              .size = static_cast<int>(planned),
              .local_size = static_cast<int>(std::min(planned, per_node)),
              .variables = "--ranks"};
  } else {
    find();
  }
  if (zero_stage != "auto") memory.zero_stage = std::stoi(zero_stage);
  if (gradient_sync != "auto") memory.sums_each_micro_batch = gradient_sync == "micro-batch";
  memory.bucket_bytes = static_cast<std::size_t>(bucket_cap_mb * static_cast<double>(kMiB));
  memory.local_ranks = launch.local_size;
}

void refuse_ranks(const std::string& what, const std::string& then) {
  const Launch found = find_launch();
  if (found.size < 2) return;
  throw UsageError({.what = what,
                    .where = found.variables,
                    .found = fmt::format("{} of {}", counted(found.size, "process"), launcher_name(found.launcher)),
                    .allowed = "one process",
                    .remedy = fmt::format("start the command without {}{}", launcher_name(found.launcher), then)});
}

void add_launcher_options(Command* command, RankRequest& o) {
  o.command = command;
  command->heading("Several processes");
  one_of(command->add_option(
             "--launcher", o.launcher,
             "auto: work together with the other processes that mpirun, srun or torchrun started; none: run alone"),
         {"auto", "none"})
      ->type_name("WHICH")
      ->capture_default_str();
  number(command->add_option("--timeout", o.timeout_seconds,
                             "Seconds without a message after which a process counts as failed"),
         1, 86400)
      ->capture_default_str();
  command
      ->add_option("--rendezvous", o.rendezvous,
                   "Where processes started by torchrun meet: an address of rank 0's machine and a free port "
                   "(default: MASTER_ADDR and the port after MASTER_PORT)")
      ->type_name("HOST:PORT");
}

void add_rank_options(Command* command, RankRequest& o) {
  add_launcher_options(command, o);
  one_of(command->add_option("--zero-stage", o.zero_stage,
                             "What is divided among the processes: 0 nothing, 1 optimizer state, 2 gradients too, 3 "
                             "parameters too; auto: the lowest stage that fits the budget"),
         {"auto", "0", "1", "2", "3"})
      ->type_name("STAGE")
      ->capture_default_str();
  one_of(
      command->add_option("--gradient-sync", o.gradient_sync,
                          "When gradients are summed over the processes if an update has several micro-batches: update "
                          "(once per update), micro-batch (in each one), or auto (in each one from stage 2 on)"),
      {"auto", "update", "micro-batch"})
      ->type_name("WHEN")
      ->capture_default_str();
  number(command->add_option("--ddp-bucket-cap-mb", o.bucket_cap_mb,
                             "Size of the buckets in which gradients are exchanged, in MiB"),
         0.001, 4096)
      ->capture_default_str();
}

namespace {

// Kubernetes' operators and scripts of one's own set the variables of torch.distributed without torchrun.
void warn_of_ranks_alone() {
  const std::optional<std::string> rank = environment_variable("RANK"), size = environment_variable("WORLD_SIZE");
  if (!rank || !size || *size == "1" || environment_variable("TORCHELASTIC_RUN_ID")) return;
  log_warning(
      fmt::format("RANK is {} and WORLD_SIZE {}, but torchrun has not set them: each of these processes works "
                  "alone, on all of the data; start them by torchrun (GPUs), mpirun or srun, or pass --launcher "
                  "none",
                  *rank, *size));
}

}  // namespace

void connect_ranks(Invocation& invocation, const RankRequest& request, const Interrupt* interrupt) {
  const Launch& launch = request.launch;
  if (launch.launcher == Launcher::kNone && request.launcher != "none") warn_of_ranks_alone();
  if (launch.size == 1) return;
  if (!launch.speaks_mpi() && !request.on_gpu) {
    throw UsageError({.what = fmt::format("{} has started {} processes, which only GPUs can connect",
                                          launcher_name(launch.launcher), launch.size),
                      .where = launch.variables,
                      .found = "--device cpu",
                      .allowed = "mpirun or srun, which bring MPI, or --launcher none for processes of their own",
                      .remedy = fmt::format("mpirun -n {} plimsoll …", launch.size)});
  }
  // Called in the thread that waits, while another one handles signals.
  std::function<int()> end_signal = [] { return 0; };
  if (interrupt != nullptr) end_signal = [interrupt] { return interrupt->end_signal(); };
  if (launch.speaks_mpi()) {
    invocation.ranks = connect_by_mpi(launch, {.timeout = request.timeout(), .end_signal = end_signal});
  } else {
    invocation.ranks = connect_by_sockets(launch, find_rendezvous(request.rendezvous),
                                          {.timeout = request.timeout(),
                                           .end_signal = end_signal,
                                           .run = environment_variable("TORCHELASTIC_RUN_ID").value_or("")});
  }
  if (launch.rank > 0) {
    silence();
    set_log_sink([](LogLevel, std::string_view) {});
    invocation.json = false;
  } else if (!invocation.json) {
    // This is not on standard output, whose content must be that of a single process.
    log_info(fmt::format("{} processes, started by {} ({}); this is rank 0 on {}", launch.size,
                         launcher_name(launch.launcher), launch.variables, invocation.ranks->host(0)));
  }
  refuse_other_options(*invocation.ranks, *request.command);
}

void wait_for_ranks(const Invocation& invocation) {
  if (invocation.ranks != nullptr) barrier(*invocation.ranks);
}

PageShare page_share(const Invocation& invocation) {
  if (invocation.ranks == nullptr) return {};
  Communicator& ranks = *invocation.ranks;
  return {.rank = static_cast<std::size_t>(ranks.rank()),
          .ranks = static_cast<std::size_t>(ranks.size()),
          .exchange = [&ranks](const std::string& mine) { return all_gather_texts(ranks, mine); }};
}

int sharing_threads(const Invocation& invocation, const Launch& launch) {
  if (invocation.threads > 0) return invocation.threads;
  const int cores = available_cores();
  const bool bound = cores < static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return bound ? cores : std::max(1, cores / launch.local_size);
}

RunPlan plan_of(const Invocation& invocation, FitRequest& request, Backend& backend, std::optional<KeptCut> kept) {
  // Planning would otherwise take up to 1.5 MiB beside what reading has left free.
  release_free_heap();
  // The first plan's peak counts, without what later ones held; planning itself adds up to 440 KiB to it.
  static const std::size_t startup_bytes = peak_resident_bytes() + kMiB / 2;
  request.startup_bytes = startup_bytes;
  // With more ranks than the checkpoint's run had, each has fewer pages.
  if (kept) kept->micro_batch_size = std::min(kept->micro_batch_size, request.train_batch_size);
  if (request.step.ranks.ranks == 1) return fit_resumed(request, kept, backend);
  const auto attempt = [&](FitRequest& of_stage) {
    if (kept) of_stage.micro_batch_size = kept->micro_batch_size;
    return try_fit(of_stage, backend);
  };
  const auto last = [&](FitRequest& of_stage) { return fit_resumed(of_stage, kept, backend); };
  const auto choose = [&](FitRequest& of_rank) { return choose_stage(of_rank, attempt, last); };
  if (invocation.ranks == nullptr) return fit_neediest_rank(request, choose);
  if (request.trains) {
    const NetworkSpeed network = measure_network(*invocation.ranks);
    request.speeds.network_seconds_per_message = network.seconds_per_message;
    request.speeds.network_seconds_per_byte = network.seconds_per_byte;
  }
  return fit_on_ranks(request, backend, *invocation.ranks, choose);
}

namespace {

// Listens to the other ranks for this long. Returns the failure that one of them reports, if any.
std::optional<std::string> told_meanwhile(Communicator& ranks, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  try {
    do {
      for (int i = 0; i < 64; ++i) ranks.poll();  // which looks for failures now and then
      if (patience.count() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } while (std::chrono::steady_clock::now() < end);
  } catch (const RankError& error) {
    return error.problem().what;
  } catch (const Error&) {  // no rank can be reached
  }
  return std::nullopt;
}

}  // namespace

bool tell_ranks(Invocation& invocation, const Problem& problem, ExitCode code) {
  if (invocation.ranks == nullptr) return true;
  Communicator& ranks = *invocation.ranks;
  // All ranks may have the same error, for example bad data. Rank 0 reports it, because users look at its output; the
  // others wait for its message, and report it themselves if rank 0 is late.
  constexpr std::chrono::milliseconds kPatience(500);
  const std::optional<std::string> told =
      told_meanwhile(ranks, ranks.rank() == 0 ? std::chrono::milliseconds(0) : kPatience);
  if (told && told->ends_with(problem.what)) {
    if (ranks.rank() == 0) log_info(*told + " (that rank has reported where)");
    return false;
  }
  ranks.fail(problem, code);
  return true;
}

}  // namespace plimsoll
