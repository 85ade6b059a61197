#include "fit/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/process.h"
#include "fit/word_rows.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

constexpr double kOrdinaryDiskSecondsPerByte = 1 / 500e6;

// True if the parts that other options freeze exist and something is left to train.
bool trains_something(const FitRequest& request) {
  try {
    check_trained_parts(request.step.definition, request.step.model);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

// Limits windows to `length` tokens. There are more of them then; the number in a batch stays the same.
bool shorten_windows(FitRequest& request, std::int64_t length) {
  if (length < request.least_window) return false;
  const auto longest = [](const auto& rows) { return rows ? rows(1) : 0; };
  if (std::max(longest(request.text_rows), longest(request.evaluation_text_rows)) <= length) return false;
  const auto limit = [length](const std::function<std::int64_t(std::int64_t)>& rows) {
    return [rows, length](std::int64_t micro) { return std::min(rows(micro), micro * length); };
  };
  if (request.text_rows) request.text_rows = limit(request.text_rows);
  if (request.evaluation_text_rows) request.evaluation_text_rows = limit(request.evaluation_text_rows);
  request.update_text_rows = std::min(request.update_text_rows, request.train_batch_size * length);
  return true;
}

bool take_model(FitRequest& request, const ModelDefinition& smaller) {
  // A preset has no weights to predict with, to add adapters to, or to quantize.
  const ModelOptions& model = request.step.model;
  if (!request.trains || model.lora.enabled() || model.frozen_weights != DType::kF32) return false;
  request.step.definition = smaller;
  require_word_rows(request);
  return trains_something(request);
}

bool take_optimizer(FitRequest& request, OptimizerKind kind) {
  const bool is_smaller = request.step.optimizer.kind < kind;  // kinds are ordered by the size of their states
  if (!request.trains || !is_smaller) return false;
  request.step.optimizer.kind = kind;
  require_word_rows(request);
  return true;
}

bool freeze(FitRequest& request, const std::string& pattern) {
  const auto trained = [&] { return trained_parameter_count(request.step.definition.specs(request.step.model)); };
  const std::int64_t before = trained();
  request.step.model.freeze.push_back(pattern);
  return request.trains && trained() > 0 && trained() < before && trains_something(request);
}

bool take_adapters(FitRequest& request, std::int64_t rank) {
  LoraOptions& lora = request.step.model.lora;
  if (!request.trains || !request.pretrained || lora.enabled()) return false;
  lora = {.rank = rank,
          .alpha = 2 * static_cast<double>(rank),
          .modules = lora_modules(request.step.definition.encoder().linear_maps(), {"all-linear"})};
  return trains_something(request);
}

bool take_codes(FitRequest& request, DType code) {
  if (!request.may_quantize || request.step.model.frozen_weights != DType::kF32) return false;
  hold_in_codes(request.step.model, code, true);
  return true;
}

// Combines two changes into one, which does nothing if either does nothing.
Change both(const Change& a, const Change& b) {
  return {.kind = a.kind + " and " + b.kind,
          .what = a.what + "; " + b.what,
          .flags = a.flags + " " + b.flags,
          .effect = std::max(a.effect, b.effect),
          .apply = [a, b](FitRequest& request) { return a.apply(request) && b.apply(request); }};
}

Change all_of(const std::vector<Change>& changes) {
  Change together = changes.front();
  for (std::size_t i = 1; i < changes.size(); ++i) together = both(together, changes[i]);
  return together;
}

// What trying a change on a run said.
enum class Outcome : std::uint8_t { kFits, kTooLarge, kNoChange };

// Adds changes that are not enough by themselves one after the other, the mildest first and the last of each kind,
// until the run fits. Returns them, or nothing if all together are not enough.
std::vector<Change> enough_of(const std::vector<Change>& changes,
                              const std::function<Outcome(const std::vector<Change>&)>& try_changes) {
  std::vector<Change> taken;
  for (const Change& change : changes) {
    std::vector<Change> next = taken;
    if (!next.empty() && next.back().kind == change.kind) next.pop_back();
    next.push_back(change);
    const Outcome outcome = try_changes(next);
    if (outcome == Outcome::kFits) return next;
    if (outcome == Outcome::kTooLarge) taken = std::move(next);
  }
  return {};
}

// Leaves out what enough_of's last change fits without: as many of the strongest as possible, then single ones.
std::vector<Change> fewest_of(const std::vector<Change>& enough,
                              const std::function<Outcome(const std::vector<Change>&)>& try_changes) {
  std::vector<Change> fewer;
  for (std::size_t mildest = 1; mildest < enough.size(); ++mildest) {
    fewer.assign(enough.begin(), enough.begin() + static_cast<std::ptrdiff_t>(mildest));
    fewer.push_back(enough.back());
    if (fewer.size() == enough.size() || try_changes(fewer) == Outcome::kFits) break;
  }
  for (std::size_t i = fewer.size() - std::min<std::size_t>(fewer.size(), 2); i-- > 0;) {
    std::vector<Change> without = fewer;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (try_changes(without) == Outcome::kFits) fewer = std::move(without);
  }
  return fewer;
}

// Estimates what the process of each trial would hold. Libraries keep the kernels that a trial has prepared (oneDNN's
// for bfloat16 take 9 MiB), which a run that never tries it does not hold: growth counts only for trials in the same
// precision.
class TrialProcess {
 public:
  TrialProcess(const FitRequest& request, Backend& backend)
      : measure_(request.process_bytes), precision_(request.step.precision), backend_(backend) {
    release();
    base_ = measure_();
  }

  // Runs `plan` with the trial as it would be planned in a separate process.
  template <typename Plan>
  auto run(FitRequest trial, const Plan& plan) {
    const DType precision = trial.step.precision;
    release();
    const std::size_t before = measure_();
    const auto grown = [&] { return measure_() - std::min(before, measure_()); };
    std::size_t& growth = growth_[precision];
    trial.process_bytes = [&] { return base_ + std::max(growth, grown()); };
    auto result = plan(trial);
    if (precision != precision_) growth = std::max(growth, grown());
    return result;
  }

 private:
  // A later trial would not find what an earlier one has prepared if it ran in a process of its own.
  void release() {
    backend_.release_unused();
    release_free_heap();
  }

  std::function<std::size_t()> measure_;
  DType precision_;  // of the run itself, whose kernels were there
  Backend& backend_;
  std::size_t base_ = 0;
  std::map<DType, std::size_t> growth_;
};

// True if the command has all options of "--lora-rank 8 --load-in-4bit".
bool has_options(const FitRequest& request, const std::string& flags) {
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    if (word.starts_with("--") && !request.has_option(word)) return false;
  }
  return true;
}

}  // namespace

std::vector<Change> known_changes(const FitRequest& request, bool on_device) {
  std::vector<Change> changes;
  const auto add = [&](std::string kind, std::string what, std::string flags, Effect effect,
                       std::function<bool(FitRequest&)> apply) {
    changes.push_back({std::move(kind), std::move(what), std::move(flags), effect, std::move(apply)});
  };
  // The search chooses again what was pinned.
  add("micro-batch", "the planner chooses the micro-batch", "--micro-batch-size 0", Effect::kNone, [](FitRequest& r) {
    const bool pinned = r.micro_batch_size.has_value() && *r.micro_batch_size > 1;
    r.micro_batch_size.reset();
    return pinned;
  });
  add("grad-cache", "pages are embedded first, then go backward one by one", "--grad-cache auto", Effect::kNone,
      [](FitRequest& r) {
        const bool pinned = r.trains && r.chunks && r.grad_cache == GradCache::kOff;
        r.grad_cache = GradCache::kAuto;
        return pinned;
      });
  add("recompute", "activations are recomputed in backward", "--recompute auto", Effect::kNone, [](FitRequest& r) {
    const bool pinned = r.trains && r.recompute == RecomputeMode::kNone;
    r.recompute = RecomputeMode::kAuto;
    return pinned;
  });
  add("update", "the planner chooses when parameters are updated", "--update-mode auto", Effect::kNone,
      [](FitRequest& r) {
        const bool pinned = r.trains && r.update.has_value();
        r.update.reset();
        return pinned;
      });
  // The speed of the disk, or of the transfers to the host, is measured later; this assumes an ordinary disk.
  add("offload",
      fmt::format("{} in {}", request.trains ? "optimizer state, activations and weights" : "weights",
                  on_device ? "the host's memory" : "a file on disk"),
      on_device ? "without --offload none" : "--offload DIR", Effect::kNone, [on_device](FitRequest& r) {
        if (r.differentiates || r.offload != OffloadTarget::kNone) return false;
        r.offload = on_device ? OffloadTarget::kHost : OffloadTarget::kFile;
        r.offload_directory = ".";
        r.speeds.offload_read_seconds_per_byte = r.speeds.offload_write_seconds_per_byte = kOrdinaryDiskSecondsPerByte;
        return true;
      });
  add("evaluation", "no evaluation during training (use plimsoll eval afterwards)",
      "without " + (request.evaluation_options.empty() ? "--eval-data" : request.evaluation_options),
      Effect::kNoEvaluation, [](FitRequest& r) {
        const bool both_asked = r.trains && r.evaluates && !r.evaluation_options.empty();
        r.evaluates = r.evaluates && !r.trains;
        return both_asked;
      });
  // The host's budget is then as large as needed; the flag names the value.
  add("host budget", "more tensors are offloaded to the host's memory", "--host-budget", Effect::kNone,
      [](FitRequest& r) {
        const std::size_t available = usual_budget(0, available_memory_bytes());
        const bool is_limit =
            r.offload == OffloadTarget::kHost && r.host_budget_bytes > 0 && r.host_budget_bytes < available;
        r.host_budget_bytes = available;
        return is_limit;
      });
  // These changes use other arithmetic.
  add("clipping", "no gradient clipping, so each gradient is used at once", "--max-grad-norm 0", Effect::kNumerics,
      [](FitRequest& r) {
        const bool clipped = r.trains && r.step.optimizer.clips;
        r.step.optimizer.clips = false;
        return clipped;
      });
  add("optimizer", "AdamW keeps its moments in 8 bits", "--optim adamw_8bit", Effect::kNumerics,
      [](FitRequest& r) { return take_optimizer(r, OptimizerKind::kAdamW8bit); });
  add("optimizer", "Adafactor keeps only row and column means", "--optim adafactor", Effect::kNumerics,
      [](FitRequest& r) { return take_optimizer(r, OptimizerKind::kAdafactor); });
  changes.back().as_mild = true;
  // Its time is estimated with the speeds of the requested precision.
  const std::string narrowed = request.trains ? "the encoder's activations" : "weights and activations";
  add("precision", narrowed + " in bfloat16", "--bf16", Effect::kNumerics, [](FitRequest& r) {
    const bool is_wider = (r.trains || r.may_quantize) && r.step.precision == DType::kF32;
    r.step.precision = DType::kBF16;
    return is_wider;
  });
  add("codes", "weights in 8 bits", "--load-in-8bit", Effect::kNumerics,
      [](FitRequest& r) { return take_codes(r, DType::kQ8); });
  add("codes", "weights in 4 bits", "--load-in-4bit", Effect::kNumerics,
      [](FitRequest& r) { return take_codes(r, DType::kNF4); });
  // This change freezes a part of the model.
  const std::string embeddings = embeddings_pattern(request.step.definition);
  add("freezing", "the text embeddings are frozen", fmt::format("--freeze '{}'", embeddings), Effect::kFewerTrained,
      [embeddings](FitRequest& r) { return freeze(r, embeddings); });
  add("adapters", "only rank-8 adapters and the head are trained", "--lora-rank 8", Effect::kFewerTrained,
      [](FitRequest& r) { return take_adapters(r, 8); });
  add("adapters", "only rank-8 adapters and the head are trained, the rest in 4 bits", "--lora-rank 8 --load-in-4bit",
      Effect::kFewerTrained, [](FitRequest& r) {
        const bool taken = take_adapters(r, 8);
        if (taken) r.step.model.frozen_weights = DType::kNF4;
        return taken;
      });
  // These changes cut pages into other windows.
  for (const std::int64_t length : {384, 256, 128, 64}) {
    add("length", "windows of at most " + counted(length, "token"), fmt::format("--max-length {}", length),
        Effect::kPages, [length](FitRequest& r) { return shorten_windows(r, length); });
  }
  // These changes use another model.
  for (const NamedModel& smaller : request.smaller_models) {
    add("model", "a smaller model, from scratch", "--model " + smaller.name, Effect::kModel,
        [model = smaller.definition](FitRequest& r) { return take_model(r, model); });
  }
  // A resumed run must keep what it trains, how, and on which pages.
  if (request.resumes) {
    std::erase_if(changes, [](const Change& change) { return change.effect > Effect::kNoEvaluation; });
  }
  if (request.has_option) std::erase_if(changes, [&](const Change& each) { return !has_options(request, each.flags); });
  return changes;
}

std::string effect_text(Effect effect) {
  static constexpr std::array<const char*, 6> kTexts = {"changes no result",           "changes no result",
                                                        "changes the arithmetic",      "trains fewer parameters",
                                                        "changes how pages are split", "another model"};
  return kTexts[static_cast<std::size_t>(effect)];
}

int slowness(const Remedy& remedy) { return static_cast<int>(std::max(0.0, remedy.slower.value_or(0)) * 10); }

std::vector<Remedy> find_remedies(const FitRequest& request, const PlanSummary& smallest, Backend& backend,
                                  std::size_t count) {
  FitRequest unlimited = request;
  unlimited.budget_bytes = 0;
  const std::optional<PlanSummary> fastest = choose_plan(unlimited, backend);
  // The process's memory varies from run to run; a promised budget has room for that.
  FitRequest promised = request;
  promised.budget_bytes -= std::min(promised.budget_bytes - 1, variation_bytes(request));
  struct Trial {
    Outcome outcome = Outcome::kNoChange;
    FitRequest request;
    std::optional<PlanSummary> plan = std::nullopt;
  };
  struct Found {
    std::string kind;
    Remedy remedy;
    FitRequest trial;
  };
  std::vector<Found> found;
  TrialProcess process(request, backend);
  const auto is_true = [&](const FitRequest& changed) {
    return process.run(changed, [&](const FitRequest& trial) { return try_fit(trial, backend).has_value(); });
  };
  const auto try_change = [&](const Change& change) {
    Trial trial{.request = promised};
    if (!change.apply(trial.request)) return trial;
    trial.plan = process.run(trial.request, [&](const FitRequest& r) { return choose_plan(r, backend); });
    trial.outcome = trial.plan ? Outcome::kFits : Outcome::kTooLarge;
    return trial;
  };
  const auto remedy_of = [&](const Change& change, const Trial& trial) {
    std::string flags = change.flags;
    constexpr std::string_view kHostBudget = "--host-budget";
    if (const std::size_t at = flags.find(kHostBudget); at != std::string::npos) {
      // The process holds less while plans are estimated; rounding may add a thirty-first of the offloaded bytes.
      const auto process_of = [](const PlanSummary& of) {
        return of.host_items.empty() ? 0 : of.host_items.front().bytes;
      };
      const std::size_t growth = process_of(smallest) - std::min(process_of(smallest), process_of(*trial.plan));
      const std::size_t host =
          trial.plan->host_peak_bytes + growth + trial.plan->offload.bytes() / 31 + variation_bytes(request);
      flags.insert(at + kHostBudget.size(), fmt::format(" {}MiB", host / kMiB + 1));
    }
    const std::size_t needed =
        process.run(trial.request, [&](const FitRequest& r) { return smallest_plan(r, backend).predicted_peak_bytes; });
    const double seconds = fastest ? fastest->seconds_per_update : 0;
    return Remedy{.what = change.what,
                  .flags = flags,
                  .effect = change.effect,
                  .needed_bytes = needed,
                  .saved_bytes = smallest.predicted_peak_bytes - std::min(needed, smallest.predicted_peak_bytes),
                  .slower = seconds > 0 ? std::optional(trial.plan->seconds_per_update / seconds - 1) : std::nullopt};
  };
  std::vector<Change> not_enough;
  for (const Change& change : known_changes(request, smallest.on_device)) {
    if (!change.as_mild && std::ranges::find(found, change.kind, &Found::kind) != found.end()) continue;
    Trial trial = try_change(change);
    if (trial.outcome == Outcome::kTooLarge) not_enough.push_back(change);
    if (trial.outcome != Outcome::kFits) continue;
    found.push_back({.kind = change.kind, .remedy = remedy_of(change, trial), .trial = std::move(trial.request)});
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    const auto key = [](const Remedy& r) {
      return std::tuple(r.effect == Effect::kModel, slowness(r), r.effect, -static_cast<double>(r.saved_bytes));
    };
    return key(a.remedy) < key(b.remedy);
  });
  std::set<std::string> seen;
  std::erase_if(found, [&seen](const Found& each) { return !seen.insert(each.kind).second; });
  // An estimate may promise what packing does not reach, so a remedy is named only after it was planned completely.
  std::vector<Remedy> named;
  std::vector<Found*> rest;
  for (Found& each : found) {
    if (named.size() == count) {
      rest.push_back(&each);
    } else if (is_true(each.trial)) {
      named.push_back(std::move(each.remedy));
    }
  }
  // Whatever it costs, one remedy that changes as little as possible is included.
  std::ranges::stable_sort(rest, {}, [](const Found* each) { return each->remedy.effect; });
  for (Found* const each : rest) {
    if (each->remedy.effect >= std::ranges::min(named, {}, &Remedy::effect).effect) break;
    if (!is_true(each->trial)) continue;
    named.back() = std::move(each->remedy);
    break;
  }
  // Who has chosen a model wants that one.
  const auto keeps_model = [](const Remedy& remedy) { return remedy.effect < Effect::kModel; };
  if (std::ranges::any_of(named, keeps_model)) return named;
  if (!named.empty()) {
    std::erase_if(not_enough, [](const Change& change) { return change.effect == Effect::kModel; });
  }
  // First by estimates alone, which take half the time.
  for (const bool completely : {false, true}) {
    Trial fitting;  // the last that did
    const auto try_all = [&](const std::vector<Change>& changes) {
      Trial trial = try_change(all_of(changes));
      if (trial.outcome == Outcome::kFits && completely && !is_true(trial.request)) trial.outcome = Outcome::kTooLarge;
      const Outcome outcome = trial.outcome;
      if (outcome == Outcome::kFits) fitting = std::move(trial);
      return outcome;
    };
    const std::vector<Change> enough = enough_of(not_enough, try_all);
    if (enough.empty()) break;
    const std::vector<Change> fewest = fewest_of(enough, try_all);
    if (!completely && !is_true(fitting.request)) continue;
    if (named.size() == count) named.pop_back();
    named.insert(named.begin(), remedy_of(all_of(fewest), fitting));
    break;
  }
  return named;
}

std::string remedies_text(const std::vector<Remedy>& remedies, std::size_t indent) {
  std::string text;
  for (std::size_t i = 0; i < remedies.size(); ++i) {
    const Remedy& remedy = remedies[i];
    std::string speed;
    if (remedy.slower) {
      const double percent = std::round(100 * *remedy.slower);
      speed = percent > 0   ? fmt::format(", {:.0f} % slower", percent)
              : percent < 0 ? fmt::format(", {:.0f} % faster", -percent)
                            : std::string(", no slower");
      speed += " than the unconstrained run";
    }
    // A combination has one line for each of its parts.
    std::string what = remedy.what;
    for (std::size_t at = what.find("; "); at != std::string::npos; at = what.find("; ", at + 1)) {
      what.replace(at, 2, ";\n" + std::string(indent + 3, ' '));
    }
    std::string flags = remedy.flags;
    const std::size_t room = 77 - indent;
    for (std::size_t begin = 0; flags.size() - begin > room;) {
      const std::size_t at = flags.rfind(" --", begin + room);
      if (at == std::string::npos || at <= begin) break;
      flags.replace(at, 1, "\n" + std::string(indent + 3, ' '));
      begin = at + indent + 4;
    }
    text +=
        fmt::format("\n{:{}}{}. {}\n{:{}}   {}\n{:{}}   saves {}{};\n{:{}}   {}", "", indent, i + 1, flags, "", indent,
                    what, "", indent, format_bytes(remedy.saved_bytes), speed, "", indent, effect_text(remedy.effect));
  }
  return text;
}

}  // namespace plimsoll
