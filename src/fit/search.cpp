// fit(): the search over levers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/fit.h"
#include "fit/remedies.h"

namespace plimsoll {
namespace {

// The micro-batches worth trying, best first: for each number of accumulation steps the smallest that reaches it.
std::vector<std::int64_t> candidates(std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t steps = 1; steps <= batch; ++steps) {
    const std::int64_t micro = (batch + steps - 1) / steps;
    if (sizes.empty() || sizes.back() != micro) sizes.push_back(micro);
  }
  return sizes;
}

std::string listed(const std::vector<MemoryItem>& items) {
  std::string text;
  for (const MemoryItem& item : items) {
    if (item.bytes > 0) text += fmt::format("\n             {:<42}{:>10}", item.name, format_bytes(item.bytes));
  }
  return text;
}

// Beside a device's memory, whatever is planned there.
BudgetError host_too_small(const RunPlan& least) {
  const std::size_t mebibytes = (least.host_peak_bytes + kVariationBytes) / kMiB + 1;
  return BudgetError({.what = "what the run holds of the host's memory does not fit its budget",
                      .where = "--host-budget",
                      .found = fmt::format("{}; the run needs {}:{}", format_bytes(least.host_budget_bytes),
                                           format_bytes(least.host_peak_bytes), listed(least.host_items)),
                      .allowed = fmt::format("{} MiB or more for this model and data", mebibytes),
                      .remedy = fmt::format("pass --host-budget {}MiB, or fewer --dataloader-num-workers", mebibytes)});
}

BudgetError too_small(const FitRequest& request, const RunPlan& smallest, Backend& backend) {
  std::string budget = format_bytes(request.budget_bytes), needed = format_bytes(smallest.predicted_peak_bytes);
  if (budget == needed) {  // to three digits
    budget = fmt::format("{} KiB", request.budget_bytes / kKiB);
    needed = fmt::format("{} KiB", smallest.predicted_peak_bytes / kKiB);
  }
  std::string found =
      fmt::format("{}; the smallest plan (micro-batch {}) needs {}:", budget, smallest.levers.micro_batch_size, needed);
  found += listed(smallest.items);
  const BudgetOption& option = request.budget_option;
  const std::size_t mebibytes = option.value(smallest.predicted_peak_bytes + kVariationBytes) / kMiB + 1;
  const std::vector<Remedy> remedies = find_remedies(request, smallest, backend);
  std::string remedy = fmt::format("pass {} {}MiB", option.name, mebibytes);
  remedy += remedies.empty() ? ", since no change to the run is enough" : ", or change the run, cheapest first:";
  return BudgetError({.what = "the run does not fit the memory budget",
                      .where = option.name,
                      .found = found,
                      .allowed = fmt::format("{} MiB or more for this model and data", mebibytes),
                      .remedy = remedy + remedies_text(remedies, 11)});
}

class Search {
 public:
  Search(const FitRequest& request, Backend& backend) : request_(request), backend_(backend) {}

  RunPlan run() { return complete(choose()); }

  // The same without offsets; nothing if no plan fits.
  std::optional<RunPlan> choose() {
    check_pins();
    std::optional<RunPlan> best = search();
    if (!smallest_) throw host_too_small(*least_of_host_);
    return best;
  }

  // Of all plans that have been looked at and that the host has room for.
  RunPlan take_smallest() { return std::move(*smallest_); }

 private:
  std::optional<RunPlan> search() {
    const std::vector<std::int64_t> sizes =
        request_.micro_batch_size ? std::vector{*request_.micro_batch_size} : candidates(request_.train_batch_size);
    if (!request_.trains) return first_that_fits(sizes);
    std::optional<RunPlan> best = request_.recompute == RecomputeMode::kLayers ? std::nullopt : first_that_fits(sizes);
    const auto next = [&] {  // the position of the first size without recomputation that fits
      std::size_t position = 0;
      while (best && sizes[position] != best->levers.micro_batch_size) ++position;
      return best ? position : sizes.size();
    }();
    if (next > 0) {
      // Worth more than fewer micro-batches: the whole batch, the next larger one; and the smallest, which may be all
      // there is.
      std::vector<std::int64_t> larger = {sizes.front(), sizes[next - 1]};
      if (!best) larger.push_back(sizes[sizes.size() / 2]);
      std::sort(larger.begin(), larger.end(), std::greater<>());
      larger.erase(std::unique(larger.begin(), larger.end()), larger.end());
      for (const std::int64_t micro : larger) {
        for (const UpdateMode mode : modes(micro)) {
          take_faster(best, with_recomputation(micro, mode));
          if (may_offload()) {
            for (const Order order : {Order::kCheapestFirst, Order::kStatesFirst, Order::kRecomputeFirst}) {
              take_faster(best, with_offload(micro, mode, order));
            }
          }
        }
      }
    }
    if (best && !best->levers.offload.empty()) trim_offload(*best);
    return best;
  }

  void check_pins() const {
    if (request_.micro_batch_size) {
      const std::int64_t micro = *request_.micro_batch_size;
      if (micro < 1 || (request_.trains && micro > request_.train_batch_size)) {
        throw UsageError({.what = "a micro-batch is a part of the effective batch",
                          .where = "--micro-batch-size",
                          .found = fmt::format("{}", micro),
                          .allowed = fmt::format("1 to the effective batch, {}", request_.train_batch_size)});
      }
    }
    if (request_.update == UpdateMode::kInBackward && request_.step.optimizer.waits_for_norm()) {
      throw UsageError({.what = "gradients cannot be consumed in backward and clipped by their norm in one pass",
                        .where = "--update-mode in-backward",
                        .found = "--max-grad-norm above 0",
                        .allowed = "--max-grad-norm 0, or --update-mode two-passes",
                        .remedy = "choose one of the two; two passes cost a second backward"});
    }
  }

  // How a step of that micro-batch may update, the fastest first.
  std::vector<UpdateMode> modes(std::int64_t micro) const {
    if (micro < request_.train_batch_size) {
      return {UpdateMode::kAfterBackward};  // gradients are summed over micro-batches: there is nothing to consume
    }
    if (request_.update) return {*request_.update};
    if (!request_.step.optimizer.waits_for_norm()) return {UpdateMode::kInBackward};
    return {UpdateMode::kAfterBackward, UpdateMode::kTwoPasses};
  }

  RunPlan estimate(const Levers& levers) {
    RunPlan run = plan_run(request_, levers, backend_, PlanDepth::kEstimate);
    if (!least_of_host_ || run.host_peak_bytes < least_of_host_->host_peak_bytes) least_of_host_ = summary(run);
    const bool is_smaller = !smallest_ || run.predicted_peak_bytes < smallest_->predicted_peak_bytes;
    if (run.fits_host() && is_smaller) smallest_ = summary(run);
    return summary(run);
  }
  // Without the programs: their kernels hold memory that the next plan would count.
  static RunPlan summary(const RunPlan& run) {
    RunPlan copy;
    copy.levers = run.levers;
    copy.optimizer = run.optimizer;
    copy.precision = run.precision;
    copy.parameters = run.parameters;
    copy.trained_parameters = run.trained_parameters;
    copy.trained_parts = run.trained_parts;
    copy.accumulation_steps = run.accumulation_steps;
    copy.arena_bytes = run.arena_bytes;
    copy.predicted_peak_bytes = run.predicted_peak_bytes;
    copy.budget_bytes = run.budget_bytes;
    copy.host_peak_bytes = run.host_peak_bytes;
    copy.host_budget_bytes = run.host_budget_bytes;
    copy.host_items = run.host_items;
    copy.seconds_per_update = run.seconds_per_update;
    copy.items = run.items;
    copy.offload = run.offload;
    copy.offload_target = run.offload_target;
    copy.offload_directory = run.offload_directory;
    return copy;
  }

  // The plan at the first position of [low, high] that fits, found by halving: from some position on they all do, and
  // `last` is the one at `high`.
  template <typename PlanAt>
  static RunPlan first_of(std::size_t low, std::size_t high, RunPlan last, const PlanAt& plan_at) {
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      RunPlan run = plan_at(middle);
      if (run.fits()) {
        last = std::move(run);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return last;
  }

  // Without recomputation. Memory grows with the micro-batch, so the largest that fits is found by halving.
  std::optional<RunPlan> first_that_fits(const std::vector<std::int64_t>& sizes) {
    const auto plain = [&](std::size_t i) {
      return estimate({.micro_batch_size = sizes[i], .update = modes(sizes[i]).front()});
    };
    RunPlan first = plain(0);
    if (first.fits()) return first;
    if (sizes.size() == 1) return std::nullopt;
    RunPlan last = plain(sizes.size() - 1);
    if (!last.fits()) return std::nullopt;
    return first_of(1, sizes.size() - 1, std::move(last), plain);
  }

  const std::vector<Recomputation>& ranking(std::int64_t micro) {
    const auto [position, inserted] = rankings_.try_emplace(micro);
    if (inserted) {
      const ModelCapacity capacity{.samples = micro, .text_rows = request_.text_rows(micro)};
      position->second = rank_step_recomputations(request_.step, capacity, request_.speeds);
    }
    return position->second;
  }

  // The fewest recomputations with which it fits.
  std::optional<RunPlan> with_recomputation(std::int64_t micro, UpdateMode mode) {
    const std::vector<Recomputation>& ranked = ranking(micro);
    const auto first = [&](std::size_t count) {
      return estimate({.micro_batch_size = micro,
                       .update = mode,
                       .recompute = {ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count)}});
    };
    if (request_.recompute == RecomputeMode::kNone) {
      RunPlan run = first(0);
      return run.fits() ? std::optional(std::move(run)) : std::nullopt;
    }
    RunPlan best = first(ranked.size());
    if (!best.fits()) return std::nullopt;
    if (request_.recompute == RecomputeMode::kLayers) return best;
    return first_of(0, ranked.size(), std::move(best), first);
  }

  // The last that was taken may be large, and make the first that were needless.
  void trim_offload(RunPlan& best) {
    const std::vector<Offloading> all = best.levers.offload;
    const auto without = [&](std::size_t first) {
      Levers levers = best.levers;
      levers.offload.assign(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
      return estimate(levers);
    };
    std::size_t low = 0, high = all.size() - 1;  // without `low` of them it fits
    while (low < high) {
      const std::size_t middle = low + (high - low + 1) / 2;
      RunPlan run = without(middle);
      if (run.fits() && run.seconds_per_update <= best.seconds_per_update) {
        best = std::move(run);
        low = middle;
      } else {
        high = middle - 1;
      }
    }
  }

  bool may_offload() const { return request_.trains && request_.offload != OffloadTarget::kNone; }

  // As many as the host has room for, from the first on.
  const std::vector<Offloading>& offload_ranking(std::int64_t micro) {
    const auto [position, inserted] = offload_rankings_.try_emplace(micro);
    if (inserted) {
      const ModelCapacity capacity{.samples = micro, .text_rows = request_.text_rows(micro)};
      const ProgramKind kind =
          micro == request_.train_batch_size ? ProgramKind::kStep : ProgramKind::kAccumulateAndStep;
      position->second = rank_step_offloads(kind, request_.step, capacity, request_.update_text_rows);
      if (request_.offload == OffloadTarget::kHost && request_.host_budget_bytes > 0) {
        keep_what_fits(position->second, host_room());
      }
    }
    return position->second;
  }

  // Plans that offload nothing have been looked at before. Places are rounded up: a thirty-second is left to that.
  std::size_t host_room() const {
    const std::size_t taken = std::min(least_of_host_->host_peak_bytes, request_.host_budget_bytes);
    return (request_.host_budget_bytes - taken) / 32 * 31;
  }
  static void keep_what_fits(std::vector<Offloading>& offloadings, std::size_t room) {
    std::erase_if(offloadings, [&room](const Offloading& offloading) {
      const bool fits = offloading.bytes <= room;
      if (fits) room -= offloading.bytes;
      return !fits;
    });
  }

  // What to give up first where recomputation and the disk may both free memory.
  enum class Order : std::uint8_t {
    kCheapestFirst,  // by seconds a byte, as if nothing hid the transfers'
    kStatesFirst,    // states to the disk, then recomputation, then forward values to the disk
    kRecomputeFirst
  };

  // Recomputations and offloads as one list, of which a plan takes a first part; each kind stays in its own order.
  struct Pull {
    const Recomputation* recomputation = nullptr;
    const Offloading* offloading = nullptr;
  };
  std::vector<Pull> pulls(std::int64_t micro, Order order) {
    std::vector<Pull> recomputations, states, values;
    if (request_.recompute == RecomputeMode::kAuto) {
      for (const Recomputation& r : ranking(micro)) recomputations.push_back({&r, nullptr});
    }
    for (const Offloading& o : offload_ranking(micro)) (o.is_state ? states : values).push_back({nullptr, &o});
    // A byte costs the disk as much wherever it is from; recomputations become dearer and dearer.
    const double disk = request_.speeds.offload_read_seconds_per_byte + request_.speeds.offload_write_seconds_per_byte;
    const auto dearer = std::find_if(recomputations.begin(), recomputations.end(), [&](const Pull& pull) {
      return pull.recomputation->seconds > disk * static_cast<double>(pull.recomputation->bytes);
    });
    const auto turn = order == Order::kRecomputeFirst ? recomputations.end()
                      : order == Order::kStatesFirst  ? recomputations.begin()
                                                      : dearer;
    std::vector<Pull> all(recomputations.begin(), turn);
    all.insert(all.end(), states.begin(), states.end());
    if (order == Order::kCheapestFirst) all.insert(all.end(), values.begin(), values.end());
    all.insert(all.end(), turn, recomputations.end());
    if (order != Order::kCheapestFirst) all.insert(all.end(), values.begin(), values.end());
    return all;
  }

  // The fewest pulls in that order with which it fits.
  std::optional<RunPlan> with_offload(std::int64_t micro, UpdateMode mode, Order order) {
    const std::vector<Pull> list = pulls(micro, order);
    const auto first = [&](std::size_t count) {
      Levers levers{.micro_batch_size = micro, .update = mode};
      if (request_.recompute == RecomputeMode::kLayers) levers.recompute = ranking(micro);
      for (const Pull& pull : std::span(list).first(count)) {
        if (pull.recomputation != nullptr) levers.recompute.push_back(*pull.recomputation);
        if (pull.offloading != nullptr) levers.offload.push_back(*pull.offloading);
      }
      return estimate(levers);
    };
    RunPlan best = first(list.size());
    if (!best.fits()) return std::nullopt;
    return first_of(0, list.size(), std::move(best), first);
  }

  static void take_faster(std::optional<RunPlan>& best, std::optional<RunPlan> other) {
    if (other && (!best || other->seconds_per_update < best->seconds_per_update)) best = std::move(other);
  }

  // The same plan with offsets. Packing may miss its bound by a little, and the process may have grown a little: then a
  // few more recomputations make up for it.
  RunPlan complete(std::optional<RunPlan> chosen) {
    if (!chosen) {  // whole, because that is what must fit the budget that the refusal names
      RunPlan run = plan_run(request_, smallest_->levers, backend_);
      if (run.fits()) return run;
      const RunPlan smallest = summary(run);
      run = {};
      throw too_small(request_, smallest, backend_);
    }
    for (;;) {
      RunPlan run = plan_run(request_, chosen->levers, backend_);
      if (run.fits()) return run;
      Levers& levers = chosen->levers;
      const bool may_recompute = request_.trains && request_.recompute == RecomputeMode::kAuto;
      const std::size_t more =
          may_recompute ? std::min(levers.recompute.size() + 4, ranking(levers.micro_batch_size).size()) : 0;
      if (more <= levers.recompute.size()) {
        if (offload_more(levers)) continue;
        throw too_small(request_, summary(run), backend_);
      }
      const auto& ranked = ranking(levers.micro_batch_size);
      levers.recompute.assign(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(more));
    }
  }

  // False if nothing is left.
  bool offload_more(Levers& levers) {
    if (!may_offload()) return false;
    const std::size_t before = levers.offload.size();
    for (const Offloading& next : offload_ranking(levers.micro_batch_size)) {
      const bool taken = std::any_of(levers.offload.begin(), levers.offload.end(),
                                     [&](const Offloading& known) { return known.name == next.name; });
      if (!taken) levers.offload.push_back(next);
      if (levers.offload.size() == before + 4) break;
    }
    return levers.offload.size() > before;
  }

  const FitRequest& request_;
  Backend& backend_;
  std::map<std::int64_t, std::vector<Recomputation>> rankings_;
  std::map<std::int64_t, std::vector<Offloading>> offload_rankings_;
  std::optional<RunPlan> smallest_, least_of_host_;
};

}  // namespace

RunPlan fit(const FitRequest& request, Backend& backend) { return Search(request, backend).run(); }

std::optional<RunPlan> choose_plan(const FitRequest& request, Backend& backend) {
  return Search(request, backend).choose();
}

RunPlan smallest_plan(const FitRequest& request, Backend& backend) {
  FitRequest trial = request;
  trial.budget_bytes = 1;  // nothing fits: every lever is pulled
  Search search(trial, backend);
  search.choose();
  return search.take_smallest();
}

std::vector<RunPlan> sweep_budgets(const FitRequest& request, int points, Backend& backend) {
  check(points >= 2, "a sweep has two ends");
  FitRequest trial = request;
  trial.budget_bytes = 0;
  std::optional<RunPlan> fastest = Search(trial, backend).choose();
  const std::size_t low = smallest_plan(request, backend).predicted_peak_bytes + kVariationBytes;
  const std::size_t high = std::max(low, fastest->predicted_peak_bytes + kVariationBytes);
  std::vector<RunPlan> plans;
  for (int i = 0; i < points; ++i) {
    const auto step = static_cast<std::size_t>(i), steps = static_cast<std::size_t>(points - 1);
    trial.budget_bytes = round_up(low + (high - low) * step / steps, kMiB);
    if (std::optional<RunPlan> plan = Search(trial, backend).choose()) plans.push_back(std::move(*plan));
  }
  if (plans.empty()) {  // the process has outgrown every budget meanwhile: what was planned first is still true
    fastest->budget_bytes = round_up(fastest->predicted_peak_bytes, kMiB);
    plans.push_back(std::move(*fastest));
  }
  return plans;
}

}  // namespace plimsoll
