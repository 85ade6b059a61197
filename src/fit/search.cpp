// fit(): searches the levers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "fit/fit.h"
#include "fit/refusals.h"

namespace plimsoll {
namespace {

// Returns the micro-batches worth trying, best first: the smallest for each number of accumulation steps.
std::vector<std::int64_t> candidates(std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t steps = 1; steps <= batch; ++steps) {
    const std::int64_t micro = (batch + steps - 1) / steps;
    if (sizes.empty() || sizes.back() != micro) sizes.push_back(micro);
  }
  return sizes;
}

// How an update is cut: into micro-batches of this many samples, or with GradCache into chunks of this many pages.
struct Cut {
  std::int64_t micro = 1;
  std::int64_t chunk = 0;  // 0: without GradCache

  friend auto operator<=>(const Cut&, const Cut&) = default;
};

Cut chunks_of(std::int64_t pages, std::int64_t per_example) {
  return {.micro = std::max<std::int64_t>(1, pages / per_example), .chunk = pages};
}

class Search {
 public:
  Search(const FitRequest& request, Backend& backend)
      : request_(request),
        backend_(backend),
        spends_memory_(request.trains && request.recompute == RecomputeMode::kAuto && backend.device_use().has_value()),
        keeps_biases_(may_keep_biases(request, backend)) {
    // Estimates are compared, so the process is measured once: it grows with what was tried before. Whole plans measure
    // it anew. The code of an estimate's own kernels is counted without being generated, but for the first one's.
    struct First {
      std::size_t bytes = 0, code = 0;
    };
    estimated_.process_bytes = [measure = request.process_bytes, &backend, first = std::optional<First>()]() mutable {
      if (!first) {
        backend.make_code();
        first = First{.bytes = measure(), .code = backend.code_bytes()};
      }
      const std::size_t with_both = first->bytes + backend.code_bytes();
      return with_both - std::min(with_both, first->code);
    };
  }

  RunPlan run() {
    std::optional<RunPlan> run = complete(find_families());
    if (run) return std::move(*run);
    if (least_complete_->fits_device()) throw host_too_small(request_, *least_complete_);
    throw too_small(request_, *least_complete_, backend_);
  }

  // Does the same without a refusal: returns nothing if no plan fits once it is packed.
  std::optional<RunPlan> try_run() { return complete(find_families()); }

  // Does the same without offsets; returns nothing if no plan fits.
  std::optional<PlanSummary> choose() {
    std::vector<Family> families = find_families();
    const auto best = fastest(families);
    if (best == families.end()) return std::nullopt;
    if (best->offloads && !best->plan.levers.offload.empty()) return trim_offload(std::move(best->plan));
    return std::move(best->plan);
  }

  // Takes the smallest of all plans that were tried and fit the host.
  PlanSummary take_smallest() { return std::move(*smallest_); }

 private:
  // A series of plans for a shrinking budget: each needs less memory than the one before, and is no faster. From some
  // position on they fit; `position` is the first that does, found by binary search. More memory never gives a later
  // position, since every plan that is tried and fits a smaller budget also fits a larger one; so more memory is never
  // slower.
  struct Family {
    std::function<Levers(std::size_t position)> levers;
    std::size_t position = 0, count = 0, steps = 0;
    bool offloads = false;
    PlanSummary plan{};  // the plan at `position`, without offsets
  };

  // The order in which recomputation and the disk are used when both can free memory.
  enum class Order : std::uint8_t {
    kCheapestFirst,  // by seconds per byte, as if transfers were not overlapped
    kStatesFirst,    // states to the disk, then recomputation, then activations to the disk
    kRecomputeFirst,
    kParametersFirst  // states and parameters to the disk, then recomputation; the other orders take parameters last
  };

  std::vector<Family> find_families() {
    check_pins();
    std::vector<Family> families = search();
    if (!smallest_) throw host_too_small(request_, *least_of_host_);
    return families;
  }

  std::vector<Family> search() {
    const std::vector<Cut> sizes = cuts();
    std::vector<Family> families;
    // This family uses smaller micro-batches and changes nothing else, except for a first plan that spends memory, and
    // a last one that does not keep biases.
    const std::size_t spending = spends_memory_ ? 1 : 0, sparing = keeps_biases_ ? 1 : 0;
    const auto smaller = [this, sizes, spending](std::size_t position) {
      const std::size_t at = position - std::min(position, spending);
      const Cut& cut = sizes[std::min(at, sizes.size() - 1)];
      Levers levers = plain(cut, modes(cut).front());
      levers.keeps_cheap = position < spending;
      levers.keeps_biases = keeps_biases_ && at < sizes.size();
      return levers;
    };
    add(families, {.levers = smaller, .count = sizes.size() + spending + sparing});
    if (!request_.trains) return with_parameters_offloaded(std::move(families), sizes);
    const std::size_t position = families.empty() ? sizes.size() + spending : families.front().position;
    if (position == 0) return families;
    const std::size_t next = position - std::min(position, spending);
    // These sizes are more useful than fewer micro-batches: the whole batch, the next larger size, and the smallest,
    // which may be the only one. The sizes that do not depend on the budget are tried for every budget.
    std::vector<std::size_t> larger = {0, sizes.size() / 2, sizes.size() - 1};
    if (next > 0) larger.push_back(next - 1);
    std::sort(larger.begin(), larger.end());
    larger.erase(std::unique(larger.begin(), larger.end()), larger.end());
    for (const std::size_t at : larger) {
      const Cut cut = sizes[at];
      for (const UpdateMode mode : modes(cut)) {
        Levers fastest_of_cut = plain(cut, mode);
        fastest_of_cut.keeps_cheap = spends_memory_;
        if (is_slower(families, fastest_of_cut)) continue;  // later members of the family are slower still
        if (request_.recompute == RecomputeMode::kAuto) {
          add(families, {.levers = [this, cut, mode](std::size_t i) { return recomputing(cut, mode, i); },
                         .count = ranking(cut).size() + 1 + spending + sparing});
        } else {
          const auto pinned = [this, cut, mode](std::size_t i) {
            Levers levers = plain(cut, mode);
            levers.keeps_biases = keeps_biases_ && i == 0;
            return levers;
          };
          add(families, {.levers = pinned, .count = 1 + sparing});
        }
        if (!may_offload()) continue;
        for (const Order order :
             {Order::kCheapestFirst, Order::kStatesFirst, Order::kRecomputeFirst, Order::kParametersFirst}) {
          add(families, offloading(cut, mode, order));
        }
      }
    }
    return families;
  }

  // A family that recomputes and offloads more and more, in that order.
  Family offloading(const Cut& cut, UpdateMode mode, Order order) {
    const auto list = std::make_shared<const std::vector<Pull>>(pulls(cut, order));
    return {.levers = [this, cut, mode, list](std::size_t count) { return pulling(cut, mode, *list, count); },
            .count = list->size() + 1,
            .offloads = true};
  }

  // A run that does not train can offload only parameters. That is tried if the largest micro-batch does not fit.
  std::vector<Family> with_parameters_offloaded(std::vector<Family> families, const std::vector<Cut>& sizes) {
    if (!may_offload() || (!families.empty() && families.front().position == 0)) return families;
    add(families, offloading(sizes.front(), modes(sizes.front()).front(), Order::kParametersFirst));
    if (sizes.size() > 1) add(families, offloading(sizes.back(), modes(sizes.back()).front(), Order::kParametersFirst));
    return families;
  }

  // The cuts worth trying, the largest first. Chunks are the last resort, since they compute everything forward twice;
  // if the loss is a sum over micro-batches, only chunks of one page need less memory than a micro-batch of one
  // example.
  std::vector<Cut> cuts() {
    const std::int64_t batch = request_.train_batch_size;
    const ModelDefinition& model = request_.step.definition;
    const bool compares = request_.trains && model.compares_examples();
    const std::int64_t per_example = model.samples_per_example();
    if (request_.chunk_samples.value_or(0) > 0) return {chunks_of(*request_.chunk_samples, per_example)};
    const bool caches = request_.trains && request_.chunks && request_.grad_cache != GradCache::kOff;
    const bool must_cache = caches && request_.grad_cache == GradCache::kOn;
    const std::optional<std::int64_t> pinned = request_.micro_batch_size;
    std::vector<Cut> cuts;
    if (!must_cache) {
      for (const std::int64_t micro : pinned ? std::vector{*pinned} : candidates(batch)) {
        if (!compares || micro == batch) cuts.push_back({.micro = micro});
      }
    }
    if (!caches || (pinned && !compares && !must_cache) || (pinned == batch && !must_cache)) return cuts;
    if (pinned) {
      cuts.push_back(chunks_of(*pinned * per_example, per_example));
    } else if (compares || must_cache) {
      for (std::int64_t pages = batch * per_example; pages > 1; pages = (pages + 1) / 2) {
        cuts.push_back(chunks_of(pages, per_example));
      }
      cuts.push_back(chunks_of(1, per_example));
    } else {
      cuts.push_back(chunks_of(1, per_example));
    }
    return without_slow_chunks(cuts);
  }

  // Larger chunks are usually faster. Those that a smaller one beats, because pages fill it better, are left out, so
  // that more memory is never slower.
  std::vector<Cut> without_slow_chunks(const std::vector<Cut>& cuts) {
    std::vector<Cut> kept;
    double fastest = std::numeric_limits<double>::infinity();
    for (const Cut& cut : std::views::reverse(cuts)) {
      if (cut.chunk > 0) {
        const double seconds = estimate(plain(cut, modes(cut).front())).seconds_per_update;
        if (seconds >= fastest) continue;
        fastest = seconds;
      }
      kept.push_back(cut);
    }
    std::ranges::reverse(kept);
    return kept;
  }

  // Adds the family at the first position that fits; does not add it if none does.
  void add(std::vector<Family>& families, Family family) {
    const std::size_t last = family.count - 1;
    std::optional<PlanSummary> plan = estimate_fitting(family.levers(last));
    if (!plan) return;
    std::size_t low = 0, high = last;
    while (low < high) {
      const std::size_t middle = low == 0 && high == last ? 0 : low + (high - low) / 2;  // usually everything fits
      if (std::optional<PlanSummary> run = estimate_fitting(family.levers(middle))) {
        plan = std::move(run);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    family.position = high;
    family.plan = std::move(*plan);
    families.push_back(std::move(family));
  }

  static std::vector<Family>::iterator fastest(std::vector<Family>& families) {
    return std::ranges::min_element(families, {}, [](const Family& family) { return family.plan.seconds_per_update; });
  }

  bool is_slower(std::vector<Family>& families, const Levers& levers) {
    if (families.empty()) return false;
    return estimate(levers).seconds_per_update >= fastest(families)->plan.seconds_per_update;
  }

  // Returns the fastest plan that fits with offsets. If packing misses its bound a little, or the process has grown,
  // the next plan of the same family is tried. Returns nothing if none fits: then `least_complete_` is the smallest.
  std::optional<RunPlan> complete(std::vector<Family> families) {
    estimates_.clear();  // the process's memory is about to be measured
    while (!families.empty()) {
      const auto best = fastest(families);
      if (best->offloads && !best->plan.levers.offload.empty()) {
        if (std::optional<RunPlan> run = pack(trim_offload(best->plan).levers)) return run;
      }
      if (std::optional<RunPlan> run = pack(best->plan.levers)) return run;
      if (!advance(*best)) families.erase(best);
    }
    // A refusal names this plan, which is the same for every budget, so that the named budget is enough.
    return pack(smallest_plan(request_, backend_).levers);
  }

  std::optional<RunPlan> pack(const Levers& levers) {
    RunPlan run = plan_run(request_, levers, backend_);
    if (run.fits()) return run;
    least_complete_ = std::move(run);  // its summary
    return std::nullopt;
  }

  // Advances to the next plan that may fit; returns false if there is none. It goes step by step, so that more memory
  // never finds a later plan; after many steps (families of close neighbours would take minutes) it goes to the last.
  bool advance(Family& family) {
    constexpr std::size_t kSteps = 12;
    ++family.steps;
    while (family.position + 1 < family.count) {
      family.position = family.steps < kSteps ? family.position + 1 : family.count - 1;
      PlanSummary run = estimate(family.levers(family.position));
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
        throw UsageError({.what = "the micro-batch size is out of range",
                          .where = "--micro-batch-size",
                          .found = fmt::format("{}", micro),
                          .allowed = fmt::format("1 to the effective batch, {}", request_.train_batch_size)});
      }
    }
    if (request_.update && updates_in_backward(*request_.update) && request_.step.optimizer.waits_for_norm()) {
      throw UsageError(
          {.what = "updates in backward cannot be combined with clipping in one pass",
           .where = fmt::format("--update-mode {}",
                                request_.update == UpdateMode::kInBackward ? "in-backward" : "head-in-parts"),
           .found = "--max-grad-norm above 0",
           .allowed = "--max-grad-norm 0, or --update-mode two-passes",
           .remedy = "choose one of them; two passes need a second backward"});
    }
  }

  // Returns the update modes for that micro-batch, the fastest first.
  std::vector<UpdateMode> modes(const Cut& cut) const {
    if (cut.chunk > 0 || cut.micro < request_.train_batch_size) {
      return {UpdateMode::kAfterBackward};  // gradients are summed over micro-batches, so none can be consumed
    }
    if (request_.update) return {*request_.update};
    if (!request_.trains) return {UpdateMode::kAfterBackward};  // there are no updates
    const bool alone = request_.step.ranks.ranks == 1;
    if (!request_.step.optimizer.waits_for_norm()) {
      // A GPU's library may round the products of parts differently, and bits must not depend on the budget.
      if (alone && !backend_.device_use() && has_large_head(cut))
        return {UpdateMode::kInBackward, UpdateMode::kHeadInParts};
      return {UpdateMode::kInBackward};
    }
    if (!alone) return {UpdateMode::kAfterBackward};  // a second backward would exchange all again
    return {UpdateMode::kAfterBackward, UpdateMode::kTwoPasses};
  }

  // Returns whether updating the head in parts would change anything.
  bool has_large_head(const Cut& cut) const {
    if (!has_large_head_) {
      StepOptions step = step_of(cut);
      step.update = UpdateMode::kHeadInParts;
      const ModelCapacity capacity = capacity_of(cut);
      const Graph graph = build_step_graph(ProgramKind::kStep, step, capacity, capacity.text_rows).graph;
      has_large_head_ = std::ranges::find(graph.nodes(), Op::kCrossEntropyPart, &Node::op) != graph.nodes().end();
    }
    return *has_large_head_;
  }

  PlanSummary estimate(const Levers& levers) {
    // Without offloads, the number of recomputed values identifies the plan (they follow the ranking).
    const std::tuple key(levers.micro_batch_size, levers.chunk_samples, levers.update, levers.recompute.size(),
                         levers.keeps_cheap, levers.keeps_biases);
    if (levers.offload.empty()) {
      if (const auto known = estimates_.find(key); known != estimates_.end()) return known->second;
    }
    release_other_shapes(levers);
    PlanSummary run = plan_run(estimated_, levers, backend_, PlanDepth::kEstimate);
    if (!least_of_host_ || run.host_peak_bytes < least_of_host_->host_peak_bytes) least_of_host_ = run;
    const bool is_smaller = !smallest_ || run.predicted_peak_bytes < smallest_->predicted_peak_bytes;
    if (run.fits_host() && is_smaller) smallest_ = run;
    if (levers.offload.empty()) estimates_.emplace(key, run);
    return run;
  }

  // Each size of micro-batches has products with code of their own. That of few sizes is kept while the search comes
  // back to them; that of many, which a large batch can be cut into, would take more memory than the run.
  void release_other_shapes(const Levers& levers) {
    constexpr std::int64_t kFewSizes = 64;
    const std::pair shapes(levers.micro_batch_size, levers.chunk_samples);
    const bool changes = std::exchange(last_shapes_, shapes) != shapes;
    if (changes && request_.train_batch_size > kFewSizes) backend_.release_unused();
  }

  // Returns the plan if it fits. Different orders of offloading lead to the same plans that offload everything they
  // can; for those it is enough to remember that they do not fit, because keeping their summaries would make the
  // process larger.
  std::optional<PlanSummary> estimate_fitting(const Levers& levers) {
    std::set<std::string> names;
    for (const Offloading& each : levers.offload) names.insert(each.name);
    Hasher offloaded;
    for (const std::string& name : names) offloaded.add_text(name);
    const std::tuple key(levers.micro_batch_size, levers.chunk_samples, levers.update, levers.recompute.size(),
                         offloaded.digest());
    if (!names.empty() && too_large_.contains(key)) return std::nullopt;
    PlanSummary plan = estimate(levers);
    if (plan.fits()) return plan;
    if (!names.empty()) too_large_.insert(key);
    return std::nullopt;
  }

  // Uses as much recomputation as the user pinned.
  Levers plain(const Cut& cut, UpdateMode mode) {
    Levers levers{.micro_batch_size = cut.micro,
                  .chunk_samples = cut.chunk,
                  .update = mode,
                  .zero_stage = request_.zero_stage.value_or(0)};
    if (request_.trains && request_.recompute == RecomputeMode::kLayers) levers.recompute = ranking(cut);
    return levers;
  }

  // Returns the options of the programs that go backward, for estimating what they hold.
  StepOptions step_of(const Cut& cut) const {
    StepOptions step = request_.step;
    if (cut.chunk > 0) step.cached_samples = step.definition.samples({.samples = request_.train_batch_size});
    return step;
  }
  ModelCapacity capacity_of(const Cut& cut) const {
    if (cut.chunk > 0) return {.samples = cut.chunk, .text_rows = request_.chunks(cut.chunk).text_rows};
    if (request_.generates) return {.samples = cut.micro, .text_rows = cut.micro};
    return {.samples = cut.micro,
            .text_rows = request_.trains ? request_.text_rows(cut.micro) : request_.evaluation_text_rows(cut.micro)};
  }

  const std::vector<Recomputation>& ranking(const Cut& cut) {
    const auto [position, inserted] = rankings_.try_emplace(cut);
    if (inserted) position->second = rank_step_recomputations(step_of(cut), capacity_of(cut), request_.speeds);
    return position->second;
  }

  // Returns a plan of a family that recomputes more and more: on a device with its own memory, which nothing else would
  // use, the first does not even recompute what is cheap. The last does not keep attention's biases.
  Levers recomputing(const Cut& cut, UpdateMode mode, std::size_t position) {
    const std::vector<Recomputation>& ranked = ranking(cut);
    const std::size_t at = position - std::min<std::size_t>(position, spends_memory_ ? 1 : 0);
    const std::size_t count = std::min(at, ranked.size());
    return {.micro_batch_size = cut.micro,
            .chunk_samples = cut.chunk,
            .update = mode,
            .keeps_cheap = spends_memory_ && position == 0,
            .keeps_biases = keeps_biases_ && at <= ranked.size(),
            .recompute = {ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count)},
            .zero_stage = request_.zero_stage.value_or(0)};
  }

  // The last offload may be large enough to make the first ones unnecessary.
  PlanSummary trim_offload(PlanSummary best) {
    const std::vector<Offloading> all = best.levers.offload;
    const auto without = [&](std::size_t first) {
      Levers levers = best.levers;
      levers.offload.assign(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
      return estimate(levers);
    };
    std::size_t low = 0, high = all.size() - 1;  // it fits without the first `low`
    while (low < high) {
      const std::size_t middle = low + (high - low + 1) / 2;
      PlanSummary run = without(middle);
      if (run.fits() && run.seconds_per_update <= best.seconds_per_update) {
        best = std::move(run);
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return best;
  }

  // Gradients without an update are computed once, with all parameters in memory.
  bool may_offload() const { return !request_.differentiates && request_.offload != OffloadTarget::kNone; }

  // Returns the kind of program that decides what may be offloaded.
  ProgramKind offloading_kind(const Cut& cut) const {
    if (request_.generates) return ProgramKind::kDecode;
    if (!request_.trains) return ProgramKind::kEvaluate;
    const bool whole = cut.chunk == 0 && cut.micro == request_.train_batch_size;
    return whole ? ProgramKind::kStep : ProgramKind::kAccumulateAndStep;
  }

  // Returns the offloads, from the first on, that the host has room for.
  const std::vector<Offloading>& offload_ranking(const Cut& cut) {
    const auto [position, inserted] = offload_rankings_.try_emplace(cut);
    if (inserted) {
      position->second =
          rank_step_offloads(offloading_kind(cut), step_of(cut), capacity_of(cut), request_.update_text_rows);
      if (request_.offload == OffloadTarget::kHost && request_.host_budget_bytes > 0) {
        keep_what_fits(position->second, host_room());
      }
    }
    return position->second;
  }

  // Plans without offloads have been tried before. A thirty-second is kept for rounding places up.
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

  // Recomputations and offloads in one list; a plan uses a prefix of it. Each kind keeps its own order.
  struct Pull {
    const Recomputation* recomputation = nullptr;
    const Offloading* offloading = nullptr;
  };
  std::vector<Pull> pulls(const Cut& cut, Order order) {
    std::vector<Pull> recomputations, states, values, parameters;
    if (request_.trains && request_.recompute == RecomputeMode::kAuto) {
      for (const Recomputation& r : ranking(cut)) recomputations.push_back({&r, nullptr});
    }
    for (const Offloading& o : offload_ranking(cut)) {
      auto& list = o.kind == Offloading::Kind::kState        ? states
                   : o.kind == Offloading::Kind::kActivation ? values
                                                             : parameters;
      list.push_back({nullptr, &o});
    }
    // Every byte costs the disk the same; recomputations become more expensive down the list.
    const double disk = transfer_seconds({.read_bytes = 1, .written_bytes = 1}, request_.speeds);
    const auto dearer = std::find_if(recomputations.begin(), recomputations.end(), [&](const Pull& pull) {
      return pull.recomputation->seconds > disk * static_cast<double>(pull.recomputation->bytes);
    });
    const bool parameters_first = order == Order::kParametersFirst;
    const auto turn = order == Order::kRecomputeFirst                        ? recomputations.end()
                      : order == Order::kStatesFirst || parameters_first ? recomputations.begin()
                                                                         : dearer;
    std::vector<Pull> all(recomputations.begin(), turn);
    all.insert(all.end(), states.begin(), states.end());
    if (parameters_first) all.insert(all.end(), parameters.begin(), parameters.end());
    if (order == Order::kCheapestFirst) all.insert(all.end(), values.begin(), values.end());
    all.insert(all.end(), turn, recomputations.end());
    if (order != Order::kCheapestFirst) all.insert(all.end(), values.begin(), values.end());
    if (!parameters_first) all.insert(all.end(), parameters.begin(), parameters.end());
    return all;
  }

  Levers pulling(const Cut& cut, UpdateMode mode, const std::vector<Pull>& list, std::size_t count) {
    Levers levers = plain(cut, mode);
    for (const Pull& pull : std::span(list).first(count)) {
      if (pull.recomputation != nullptr) levers.recompute.push_back(*pull.recomputation);
      if (pull.offloading != nullptr) levers.offload.push_back(*pull.offloading);
    }
    return levers;
  }

  const FitRequest& request_;
  FitRequest estimated_ = request_;
  Backend& backend_;
  bool spends_memory_, keeps_biases_;
  std::map<std::tuple<std::int64_t, std::int64_t, UpdateMode, std::size_t, bool, bool>, PlanSummary> estimates_;
  std::set<std::tuple<std::int64_t, std::int64_t, UpdateMode, std::size_t, std::uint64_t>> too_large_;
  std::map<Cut, std::vector<Recomputation>> rankings_;
  std::map<Cut, std::vector<Offloading>> offload_rankings_;
  std::optional<PlanSummary> smallest_, least_of_host_, least_complete_;
  std::pair<std::int64_t, std::int64_t> last_shapes_;  // of the last estimate: micro-batch and chunk
  mutable std::optional<bool> has_large_head_;
};

}  // namespace

RunPlan fit(const FitRequest& request, Backend& backend) { return Search(request, backend).run(); }

std::optional<RunPlan> try_fit(const FitRequest& request, Backend& backend) {
  return Search(request, backend).try_run();
}

std::optional<PlanSummary> choose_plan(const FitRequest& request, Backend& backend) {
  return Search(request, backend).choose();
}

PlanSummary smallest_plan(const FitRequest& request, Backend& backend) {
  FitRequest trial = request;
  trial.budget_bytes = 1;  // nothing fits, so every lever is used
  Search search(trial, backend);
  search.choose();
  return search.take_smallest();
}

std::vector<PlanSummary> sweep_budgets(const FitRequest& request, int points, Backend& backend) {
  check(points >= 2, "a sweep has two ends");
  FitRequest trial = request;
  trial.budget_bytes = 0;
  std::optional<PlanSummary> fastest = Search(trial, backend).choose();
  // A run accepts the smallest budget, although packing may miss the estimate a little, and processes vary.
  const std::size_t low = smallest_plan(request, backend).predicted_peak_bytes + 3 * kVariationBytes;
  const std::size_t high = std::max(low, fastest->predicted_peak_bytes + kVariationBytes);
  std::vector<PlanSummary> plans;
  for (int i = 0; i < points; ++i) {
    const auto step = static_cast<std::size_t>(i), steps = static_cast<std::size_t>(points - 1);
    trial.budget_bytes = round_up(low + (high - low) * step / steps, kMiB);
    if (std::optional<PlanSummary> plan = Search(trial, backend).choose()) plans.push_back(std::move(*plan));
  }
  if (plans.empty()) {  // the process has outgrown every budget meanwhile; the first plan is still valid
    fastest->budget_bytes = round_up(fastest->predicted_peak_bytes, kMiB);
    plans.push_back(std::move(*fastest));
  }
  return plans;
}

}  // namespace plimsoll
