// Remedies: if a run does not fit, finds changes that make it fit, the cheapest first.
//
// The search itself never changes a result; changes that do (clipping, precision, shorter pages, a smaller model) are
// only suggested. One list in remedies.cpp holds them all: each change has a name, the options to pass, its effect on
// results, and a function that makes the change to a FitRequest.
//
//   const std::vector<Remedy> remedies = find_remedies(request, smallest, backend);
//   // {"gradients are not clipped", "--max-grad-norm 0", saves 480 MiB, 3 % slower, …}
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fit/fit.h"

namespace plimsoll {

// The effect of a change on results, the mildest first.
enum class Effect : std::uint8_t {
  kNone,          // the same numbers, up to rounding
  kNoEvaluation,  // the same model, but without evaluation during training
  kNumerics,      // another precision, optimizer or clipping
  kFewerTrained,  // parts of the model are frozen
  kPages,         // pages are cut into other windows
  kModel          // another model
};
// Returns "changes no result", "changes the arithmetic", …
std::string effect_text(Effect effect);

struct Change {
  std::string kind;   // of several changes of one kind, only the first that fits is named
  std::string what;   // "gradients are not clipped"
  std::string flags;  // "--max-grad-norm 0", "without --eval-data"
  Effect effect = Effect::kNone;
  std::function<bool(FitRequest&)> apply;  // false: the change has no effect here
  bool as_mild = false;                    // as mild as those of its kind before it: the cheapest of them is named
};
// Returns every known change, the mildest of each kind first. `request` says what the flags must repeat to leave the
// other settings unchanged; `on_device` is RunPlan's.
std::vector<Change> known_changes(const FitRequest& request, bool on_device = false);

struct Remedy {
  std::string what, flags;
  Effect effect = Effect::kNone;
  std::size_t needed_bytes = 0;  // for the smallest plan with the change
  std::size_t saved_bytes = 0;   // compared with the smallest plan without it
  // Added fraction of the unconstrained run's time per update; nothing for a change that makes no updates.
  std::optional<double> slower = std::nullopt;
};

// Slowness in whole tenths of an update's time, because estimates are no more accurate.
int slowness(const Remedy& remedy);

// Returns at most `count` changes that make the run fit its budget, the cheapest first: by least slowness, then least
// change to results, then most bytes saved; another model comes last. One whose change to results is the least is
// always included, however slow. If no single change to this model is enough, the first of the list is a combination of
// such, where one is. `smallest` is the smallest plan of the request, which does not fit.
std::vector<Remedy> find_remedies(const FitRequest& request, const PlanSummary& smallest, Backend& backend,
                                  std::size_t count = 3);

// Formats "  1. --max-grad-norm 0 …" in lines of at most 80 columns with the given indent; empty without remedies.
std::string remedies_text(const std::vector<Remedy>& remedies, std::size_t indent);

}  // namespace plimsoll
