#include "cli/cluster_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "cli/rank_options.h"
#include "cli/sweep_chart.h"
#include "cli/usage.h"
#include "request/plan_json.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostRanks = 1024;
// The bytes per second between two processes of a machine: through memory that they share, or from one GPU to another
// over PCI Express 4.
constexpr double kSharedMemory = 4e9, kPciExpress = 25e9;
// The bytes per second between two machines: 10 Gb/s.
constexpr double kNetwork = 10e9 / 8;

}  // namespace

double parse_speed(const std::string& text, const std::string& option) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit kUnits[] = {{"Gb/s", 1e9 / 8},   {"Gbit/s", 1e9 / 8}, {"Gbps", 1e9 / 8}, {"Mb/s", 1e6 / 8},
                             {"Mbit/s", 1e6 / 8}, {"Mbps", 1e6 / 8},   {"GB/s", 1e9},     {"MB/s", 1e6}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, text.data() + text.size());
  if (error == std::errc{} && value > 0 && std::isfinite(value)) {
    for (const Unit& known : kUnits) {
      if (unit == known.name) return value * known.bytes;
    }
  }
  throw bad_value(option, text, "a speed with its unit, such as 100Gb/s (bits) or 12.5GB/s (bytes)");
}

void ClusterOptions::take(RunOptions& options) const {
  options.ranks.planned = ranks;
  options.ranks.per_node = per_node;
  if (ranks > 0 || sweeps) return;
  if (!network.empty() || !local_network.empty() || per_node > 1) {
    const char* const option = !network.empty()         ? "--network"
                               : !local_network.empty() ? "--local-network"
                                                        : "--devices-per-node";
    throw UsageError({.what = "a single process has no network",
                      .where = option,
                      .found = "no --ranks",
                      .allowed = fmt::format("{} with --ranks or --sweep-ranks", option),
                      .remedy = "pass --ranks, the number of processes"});
  }
}

void ClusterOptions::set_network(OpSpeeds& speeds, std::int64_t size, bool on_gpu) const {
  const double local =
      local_network.empty() ? (on_gpu ? kPciExpress : kSharedMemory) : parse_speed(local_network, "--local-network");
  const double between = network.empty() ? kNetwork : parse_speed(network, "--network");
  const std::int64_t on_node = std::min(per_node, size);
  const double others = static_cast<double>(std::max<std::int64_t>(1, size - 1));
  const double away = static_cast<double>(size - on_node) / others;
  speeds.network_seconds_per_message = latency_microseconds * 1e-6;
  speeds.network_seconds_per_byte = away * static_cast<double>(on_node) / between + (1 - away) / local;
}

void add_cluster_options(Command* command, ClusterOptions& o) {
  command->heading("Cluster");
  whole_number(command->add_option("--ranks", o.ranks,
                                   "Plan for this many processes, without starting them: the memory of each, and the "
                                   "time of an update, communication included"),
               1, kMostRanks)
      ->type_name("N");
  whole_number(command->add_option("--devices-per-node", o.per_node,
                                   "Number of these processes on each machine, which share its network"),
               1, kMostRanks)
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--network", o.network,
                   "Speed of the network of a machine, such as 100Gb/s or 12.5GB/s (default: 10Gb/s)")
      ->type_name("SPEED");
  command
      ->add_option("--local-network", o.local_network,
                   "Speed between two processes of a machine (default: 4GB/s on processors, 25GB/s between GPUs)")
      ->type_name("SPEED");
  number(command->add_option("--network-latency", o.latency_microseconds, "Latency of a message, in microseconds"), 0,
         1e6)
      ->type_name("US")
      ->capture_default_str();
  command->add_flag(
      "--sweep-ranks", o.sweeps,
      "Print a table of 1, 2, 4 ... processes, up to --ranks or 1024: the memory of each, and their speed together");
}

void print_rank_sweep(const Invocation& invocation, const ClusterOptions& options, const RunOptions& run,
                      std::int64_t samples, const std::function<FitRequest(std::int64_t ranks)>& request_of,
                      Backend& backend) {
  std::string table = fmt::format("{:>6}{:>8}{:>12}{:>6}{:>10}{:>12}{:>10}{:>9}", "ranks", "pages", "needed", "ZeRO",
                                  "s/update", "of it wait", "pages/s", "speed-up");
  nlohmann::json list = nlohmann::json::array();
  double alone = 0;
  for (std::int64_t ranks = 1; ranks <= (options.ranks > 0 ? options.ranks : kMostRanks); ranks *= 2) {
    FitRequest request = request_of(ranks);
    const std::int64_t pages = run.train.train_batch_size;
    if (ranks > pages) break;  // then some ranks would have nothing to do
    if (ranks > 1 && pages > samples) {
      table += fmt::format("\n{:>6}{:>8}  the data have {}; pass more, for example from plimsoll synth", ranks, pages,
                           counted(samples, "page"));
      break;
    }
    try {
      const PlanSummary plan = plan_of(invocation, request, backend, run.memory.kept_cut);
      const double speed = pages_per_second(plan, pages);
      if (alone == 0) alone = speed / static_cast<double>(ranks);
      table += fmt::format("\n{:>6}{:>8}{:>12}{:>6}{:>10.3g}{:>10.1f} %{:>10.3g}{:>9.3g}", ranks, pages,
                           format_bytes(plan.predicted_peak_bytes), plan.levers.zero_stage, plan.seconds_per_update,
                           100 * plan.exchange_wait_seconds / plan.seconds_per_update, speed, speed / alone);
      list.push_back(plan_json(plan));
      list.back()["pages_per_second"] = speed;
      list.back()["train_batch_size"] = pages;
    } catch (const BudgetTooSmall& error) {
      table +=
          fmt::format("\n{:>6}{:>8}{:>12}  does not fit", ranks, pages, format_bytes(error.smallest_budget_bytes()));
      list.push_back({{"ranks", {{"count", ranks}}}, {"smallest_budget_bytes", error.smallest_budget_bytes()}});
    }
  }
  if (invocation.json) return print_json({{"sweep_ranks", std::move(list)}});
  print_line(table);
}

}  // namespace plimsoll
