// fit(): the search over levers.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
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

BudgetTooSmall too_small(const FitRequest& request, const RunPlan& smallest, Backend& backend) {
  std::string budget = format_bytes(request.budget_bytes), needed = format_bytes(smallest.predicted_peak_bytes);
  if (budget == needed) {  // to three digits
    budget = fmt::format("{} KiB", request.budget_bytes / kKiB);
    needed = fmt::format("{} KiB", smallest.predicted_peak_bytes / kKiB);
  }
  std::string found =
      fmt::format("{}; the smallest plan (micro-batch {}) needs {}:", budget, smallest.levers.micro_batch_size, needed);
  found += listed(smallest.items);
  const BudgetOption& option = request.budget_option;
  const std::size_t enough = smallest.predicted_peak_bytes + kVariationBytes;
  const std::size_t mebibytes = option.value(enough) / kMiB + 1;
  const std::vector<Remedy> remedies = find_remedies(request, smallest, backend);
  std::string remedy = fmt::format("pass {} {}MiB", option.name, mebibytes);
  remedy += remedies.empty() ? ", since no change to the run is enough" : ", or change the run, cheapest first:";
  return BudgetTooSmall({.what = "the run does not fit the memory budget",
                         .where = option.name,
                         .found = found,
                         .allowed = fmt::format("{} MiB or more for this model and data", mebibytes),
                         .remedy = remedy + remedies_text(remedies, 11)},
                        (enough / kMiB + 1) * kMiB);
}

class Search {
 public:
  Search(const FitRequest& request, Backend& backend) : request_(request), backend_(backend) {}

  RunPlan run() {
    std::optional<RunPlan> run = complete(find_families());
    if (run) return std::move(*run);
    if (least_complete_->fits_device()) throw host_too_small(*least_complete_);
    throw too_small(request_, *least_complete_, backend_);
  }

  // The same, without the refusal: nothing if no plan fits once it is packed.
  std::optional<RunPlan> try_run() { return complete(find_families()); }

  // The same without offsets; nothing if no plan fits.
  std::optional<RunPlan> choose() {
    std::vector<Family> families = find_families();
    const auto best = fastest(families);
    if (best == families.end()) return std::nullopt;
    if (best->offloads && !best->plan.levers.offload.empty()) return trim_offload(std::move(best->plan));
    return std::move(best->plan);
  }

  // Of all plans that have been looked at and that the host has room for.
  RunPlan take_smallest() { return std::move(*smallest_); }

 private:
  // Plans in the order in which a shrinking budget would take them: each needs less memory than the one before, and is
  // no faster. From some position on they fit; `position` is the first that does, found by halving. More memory finds
  // an earlier position or the same, since each one that is looked at fits a larger budget if it fits a smaller one:
  // that is what keeps more memory from ever being slower.
  struct Family {
    std::function<Levers(std::size_t position)> levers;
    std::size_t position = 0, count = 0, steps = 0;
    bool offloads = false;
    RunPlan plan{};  // at `position`, without offsets
  };

  std::vector<Family> find_families() {
    check_pins();
    std::vector<Family> families = search();
    if (!smallest_) throw host_too_small(*least_of_host_);
    return families;
  }

  std::vector<Family> search() {
    const std::vector<std::int64_t> sizes =
        request_.micro_batch_size ? std::vector{*request_.micro_batch_size} : candidates(request_.train_batch_size);
    std::vector<Family> families;
    // Fewer pages at a time, all else being equal.
    add(families, {.levers = [this, sizes](std::size_t i) { return plain(sizes[i], modes(sizes[i]).front()); },
                   .count = sizes.size()});
    if (!request_.trains) return families;
    const std::size_t next = families.empty() ? sizes.size() : families.front().position;
    if (next == 0) return families;
    // Worth more than fewer micro-batches: the whole batch, the next larger one; and the smallest, which may be all
    // there is. Those that do not hang on the budget are looked at whatever it is.
    std::vector<std::int64_t> larger = {sizes.front(), sizes[sizes.size() / 2], sizes.back(), sizes[next - 1]};
    std::sort(larger.begin(), larger.end(), std::greater<>());
    larger.erase(std::unique(larger.begin(), larger.end()), larger.end());
    for (const std::int64_t micro : larger) {
      for (const UpdateMode mode : modes(micro)) {
        if (is_slower(families, plain(micro, mode))) continue;  // and what gives up more is slower still
        if (request_.recompute == RecomputeMode::kAuto) {
          add(families,
              {.levers = [this, micro, mode](std::size_t count) { return recomputing(micro, mode, count); },
               .count = ranking(micro).size() + 1});
        } else {
          add(families, {.levers = [this, micro, mode](std::size_t) { return plain(micro, mode); }, .count = 1});
        }
        if (!may_offload()) continue;
        for (const Order order : {Order::kCheapestFirst, Order::kStatesFirst, Order::kRecomputeFirst}) {
          const auto list = std::make_shared<const std::vector<Pull>>(pulls(micro, order));
          add(families,
              {.levers = [this, micro, mode, list](std::size_t count) { return pulling(micro, mode, *list, count); },
               .count = list->size() + 1,
               .offloads = true});
        }
      }
    }
    return families;
  }

  // Adds the family at the first position that fits; not at all if none does.
  void add(std::vector<Family>& families, Family family) {
    const std::size_t last = family.count - 1;
    RunPlan plan = estimate(family.levers(last));
    if (!plan.fits()) return;
    std::size_t low = 0, high = last;
    while (low < high) {
      const std::size_t middle = low == 0 && high == last ? 0 : low + (high - low) / 2;  // most often all fits
      RunPlan run = estimate(family.levers(middle));
      if (run.fits()) {
        plan = std::move(run);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    family.position = high;
    family.plan = std::move(plan);
    families.push_back(std::move(family));
  }

  static std::vector<Family>::iterator fastest(std::vector<Family>& families) {
    return std::ranges::min_element(families, {}, [](const Family& family) { return family.plan.seconds_per_update; });
  }

  bool is_slower(std::vector<Family>& families, const Levers& levers) {
    if (families.empty()) return false;
    return estimate(levers).seconds_per_update >= fastest(families)->plan.seconds_per_update;
  }

  // The fastest plan that fits with offsets. Packing may miss its bound by a little, and the process may have grown a
  // little: then its family's next one takes its place. Nothing if none fits: then `least_complete_` is the smallest.
  std::optional<RunPlan> complete(std::vector<Family> families) {
    estimates_.clear();  // what the process holds is about to be measured
    while (!families.empty()) {
      const auto best = fastest(families);
      if (best->offloads && !best->plan.levers.offload.empty()) {
        if (std::optional<RunPlan> run = pack(trim_offload(summary(best->plan)).levers)) return run;
      }
      if (std::optional<RunPlan> run = pack(best->plan.levers)) return run;
      if (!advance(*best)) families.erase(best);
    }
    // The one that a refusal names: the same whatever the budget is, so that the budget that it names is enough.
    return pack(smallest_plan(request_, backend_).levers);
  }

  std::optional<RunPlan> pack(const Levers& levers) {
    RunPlan run = plan_run(request_, levers, backend_);
    if (run.fits()) return run;
    least_complete_ = summary(run);
    return std::nullopt;
  }

  // To the next plan that may fit; false if there is none. Step by step, so that more memory finds no later one than
  // less memory does; after many steps, which a family of close neighbours would turn into minutes, to the last.
  bool advance(Family& family) {
    constexpr std::size_t kSteps = 12;
    ++family.steps;
    while (family.position + 1 < family.count) {
      family.position = family.steps < kSteps ? family.position + 1 : family.count - 1;
      RunPlan run = estimate(family.levers(family.position));
      if (!run.fits()) continue;
      family.plan = std::move(run);
      return true;
    }
    return false;
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
    // Without offloads, how many values are computed again says which (of the ranking).
    const std::tuple key(levers.micro_batch_size, levers.update, levers.recompute.size());
    if (levers.offload.empty()) {
      if (const auto known = estimates_.find(key); known != estimates_.end()) return summary(known->second);
    }
    RunPlan run = plan_run(request_, levers, backend_, PlanDepth::kEstimate);
    if (!least_of_host_ || run.host_peak_bytes < least_of_host_->host_peak_bytes) least_of_host_ = summary(run);
    const bool is_smaller = !smallest_ || run.predicted_peak_bytes < smallest_->predicted_peak_bytes;
    if (run.fits_host() && is_smaller) smallest_ = summary(run);
    if (levers.offload.empty()) estimates_.emplace(key, summary(run));
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
    copy.seconds_to_save = run.seconds_to_save;
    copy.items = run.items;
    copy.offload = run.offload;
    copy.offload_target = run.offload_target;
    copy.offload_directory = run.offload_directory;
    return copy;
  }

  // With as much recomputation as the user pins.
  Levers plain(std::int64_t micro, UpdateMode mode) {
    Levers levers{.micro_batch_size = micro, .update = mode};
    if (request_.trains && request_.recompute == RecomputeMode::kLayers) levers.recompute = ranking(micro);
    return levers;
  }

  const std::vector<Recomputation>& ranking(std::int64_t micro) {
    const auto [position, inserted] = rankings_.try_emplace(micro);
    if (inserted) {
      const ModelCapacity capacity{.samples = micro, .text_rows = request_.text_rows(micro)};
      position->second = rank_step_recomputations(request_.step, capacity, request_.speeds);
    }
    return position->second;
  }

  Levers recomputing(std::int64_t micro, UpdateMode mode, std::size_t count) {
    const std::vector<Recomputation>& ranked = ranking(micro);
    return {.micro_batch_size = micro,
            .update = mode,
            .recompute = {ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count)}};
  }

  // The last that was taken may be large, and make the first that were needless.
  RunPlan trim_offload(RunPlan best) {
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
    return best;
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

  Levers pulling(std::int64_t micro, UpdateMode mode, const std::vector<Pull>& list, std::size_t count) {
    Levers levers = plain(micro, mode);
    for (const Pull& pull : std::span(list).first(count)) {
      if (pull.recomputation != nullptr) levers.recompute.push_back(*pull.recomputation);
      if (pull.offloading != nullptr) levers.offload.push_back(*pull.offloading);
    }
    return levers;
  }

  const FitRequest& request_;
  Backend& backend_;
  std::map<std::tuple<std::int64_t, UpdateMode, std::size_t>, RunPlan> estimates_;
  std::map<std::int64_t, std::vector<Recomputation>> rankings_;
  std::map<std::int64_t, std::vector<Offloading>> offload_rankings_;
  std::optional<RunPlan> smallest_, least_of_host_, least_complete_;
};

}  // namespace

RunPlan fit(const FitRequest& request, Backend& backend) { return Search(request, backend).run(); }

std::optional<RunPlan> try_fit(const FitRequest& request, Backend& backend) {
  return Search(request, backend).try_run();
}

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
