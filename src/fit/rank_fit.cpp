#include "fit/rank_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"

namespace plimsoll {
namespace {

constexpr int kTries = 4;

nlohmann::json levers_json(const Levers& levers) {
  nlohmann::json offload = nlohmann::json::array();
  for (const Offloading& each : levers.offload) offload.push_back(each.name);
  return {{"micro_batch_size", levers.micro_batch_size},
          {"update", static_cast<int>(levers.update)},
          {"keeps_cheap", levers.keeps_cheap},
          {"keeps_biases", levers.keeps_biases},
          {"recompute", levers.recompute.size()},
          {"offload", std::move(offload)},
          {"zero_stage", levers.zero_stage}};
}

// Recomputations are a prefix of their ranking, which is the same on all ranks; a rank offloads those of the names that
// it has.
Levers parse_levers(const FitRequest& request, const nlohmann::json& json) {
  // Ranks have no GradCache: each compares only its own pages.
  Levers levers{.micro_batch_size = json.at("micro_batch_size").get<std::int64_t>(),
                .update = static_cast<UpdateMode>(json.at("update").get<int>()),
                .keeps_cheap = json.at("keeps_cheap").get<bool>(),
                .keeps_biases = json.at("keeps_biases").get<bool>(),
                .zero_stage = json.at("zero_stage").get<int>()};
  if (!request.trains) return levers;
  const ModelCapacity capacity{.samples = levers.micro_batch_size,
                               .text_rows = request.text_rows(levers.micro_batch_size)};
  if (const auto count = json.at("recompute").get<std::size_t>(); count > 0) {
    levers.recompute = rank_step_recomputations(request.step, capacity, request.speeds);
    levers.recompute.resize(std::min(count, levers.recompute.size()));
  }
  const auto names = json.at("offload").get<std::set<std::string>>();
  if (names.empty()) return levers;
  StepOptions step = request.step;
  step.ranks.zero_stage = levers.zero_stage;
  const ProgramKind kind =
      levers.micro_batch_size == request.train_batch_size ? ProgramKind::kStep : ProgramKind::kAccumulateAndStep;
  for (Offloading& each : rank_step_offloads(kind, step, capacity, request.update_text_rows)) {
    if (names.contains(each.name)) levers.offload.push_back(std::move(each));
  }
  return levers;
}

nlohmann::json problem_json(const Error& error) {
  const Problem& p = error.problem();
  nlohmann::json json = {{"error", static_cast<int>(error.exit_code())},
                         {"what", p.what},
                         {"where", p.where},
                         {"found", p.found},
                         {"allowed", p.allowed},
                         {"remedy", p.remedy}};
  if (const auto* const refusal = dynamic_cast<const BudgetTooSmall*>(&error)) {
    json["smallest_budget_bytes"] = refusal->smallest_budget_bytes();
  }
  return json;
}

[[noreturn]] void throw_problem(const nlohmann::json& json) {
  Problem problem{.what = json["what"],
                  .where = json["where"],
                  .found = json["found"],
                  .allowed = json["allowed"],
                  .remedy = json["remedy"]};
  if (const auto smallest = json.find("smallest_budget_bytes"); smallest != json.end()) {
    throw BudgetTooSmall(std::move(problem), smallest->get<std::size_t>());
  }
  const auto code = static_cast<ExitCode>(json["error"].get<int>());
  if (code == ExitCode::kBudget) throw BudgetError(std::move(problem));
  if (code == ExitCode::kUsage) throw UsageError(std::move(problem));
  if (code == ExitCode::kData) throw DataError(std::move(problem));
  if (code == ExitCode::kEnvironment) throw EnvironmentError(std::move(problem));
  throw Error(code, std::move(problem));
}

// Hashes what the ranks' programs exchange, and in which order, which must be the same on all.
std::uint64_t exchanges(const RunPlan& run) {
  std::string text;
  for (const PlannedProgram& program : run.programs) {
    for (const Node& node : program.prepared.graph.nodes()) {
      if (!is_collective(node.op)) continue;
      text += fmt::format("{} {}", op_name(node.op), node.name);
      for (const auto& part : std::get<CollectiveAttributes>(node.attributes).parts) {
        text += fmt::format(" {}[{}]", to_string(part.type), fmt::join(part.bounds, " "));
      }
    }
  }
  return hash_bytes(std::as_bytes(std::span(text)));
}

}  // namespace

RunPlan choose_stage(FitRequest& request, const std::function<std::optional<RunPlan>(FitRequest&)>& attempt,
                     const std::function<RunPlan(FitRequest&)>& choose) {
  if (request.zero_stage || request.step.ranks.ranks == 1) return choose(request);
  constexpr int kLastStage = 3;
  for (int stage = 0; stage < kLastStage; ++stage) {
    FitRequest trial = request;
    trial.zero_stage = stage;
    if (std::optional<RunPlan> run = attempt(trial)) {
      request = std::move(trial);
      return std::move(*run);
    }
  }
  request.zero_stage = kLastStage;
  return choose(request);
}

std::int64_t owned_elements(const Shards& shards, int rank) {
  std::int64_t elements = 0;
  for (const std::string& name : shards.names()) elements += shards.range(name, rank).count;
  return elements;
}

RunPlan fit_neediest_rank(FitRequest& request, const std::function<RunPlan(FitRequest&)>& choose) {
  RunPlan run = choose(request);
  if (run.levers.zero_stage == 0) return run;
  int neediest = run.rank;
  for (int rank = 0; rank < run.ranks; ++rank) {
    if (owned_elements(run.shards, rank) > owned_elements(run.shards, neediest)) neediest = rank;
  }
  if (neediest == run.rank) return run;
  request.step.ranks.rank = neediest;
  return choose(request);
}

std::vector<std::size_t> peaks_of_ranks(const FitRequest& request, const PlanSummary& plan, Backend& backend) {
  std::map<std::int64_t, std::size_t> known;  // by what a rank owns
  std::vector<std::size_t> peaks;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const std::int64_t owned = plan.levers.zero_stage == 0 ? 0 : owned_elements(plan.shards, rank);
    const auto [place, is_new] = known.try_emplace(owned);
    if (is_new) {
      FitRequest of_rank = request;
      of_rank.step.ranks.rank = rank;
      place->second = plan_run(of_rank, plan.levers, backend, PlanDepth::kEstimate).predicted_peak_bytes;
    }
    peaks.push_back(place->second);
  }
  return peaks;
}

RunPlan fit_on_ranks(FitRequest& request, Backend& backend, Communicator& ranks,
                     const std::function<RunPlan(FitRequest&)>& choose) {
  request.speeds = all_gather(ranks, request.speeds).front();  // the levers' order depends on them
  std::size_t excess = 0;
  for (int attempt = 0;; ++attempt) {
    std::optional<RunPlan> run;
    nlohmann::json answer;
    if (ranks.rank() == 0) {
      FitRequest trial = request;
      trial.budget_bytes -= std::min(trial.budget_bytes, excess);
      try {
        run = choose(trial);
        request = std::move(trial);
        request.budget_bytes += excess;
        answer = levers_json(run->levers);
      } catch (const Error& error) {
        answer = problem_json(error);
      }
    }
    answer = nlohmann::json::parse(broadcast_text(ranks, answer.dump()));
    if (answer.contains("error")) throw_problem(answer);
    if (!run) run = plan_run(request, parse_levers(request, answer), backend);
    struct Need {
      std::size_t bytes, budget;
      std::uint64_t exchanges;
    };
    const std::size_t budget = request.budget_bytes == 0 ? run->predicted_peak_bytes : request.budget_bytes;
    const std::vector<Need> needs =
        all_gather(ranks, Need{.bytes = run->predicted_peak_bytes, .budget = budget, .exchanges = exchanges(*run)});
    std::size_t most = 0;
    int neediest = 0;
    for (std::size_t r = 0; r < needs.size(); ++r) {
      check(needs[r].exchanges == needs.front().exchanges, "all ranks run the same exchanges");
      const std::size_t above = needs[r].bytes - std::min(needs[r].bytes, needs[r].budget);
      if (above > most) most = above, neediest = static_cast<int>(r);
    }
    if (most == 0) return std::move(*run);
    if (attempt + 1 == kTries) {
      const Need& need = needs[static_cast<std::size_t>(neediest)];
      const std::size_t mebibytes = (need.bytes + variation_bytes(request)) / kMiB + 1;
      throw BudgetTooSmall(
          {.what = "the run does not fit the memory budget of one of its ranks",
           .where = fmt::format("{}, rank {} on {}", request.budget_option.name, neediest, ranks.host(neediest)),
           .found = fmt::format("{}; that rank needs {}", format_bytes(need.budget), format_bytes(need.bytes)),
           .allowed = fmt::format("{} MiB or more", mebibytes),
           .remedy = fmt::format("pass {} {}MiB", request.budget_option.name, mebibytes)},
          mebibytes * kMiB);
    }
    excess += most + kMiB;
  }
}

}  // namespace plimsoll
