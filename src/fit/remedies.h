// Remedies: when a run does not fit, the changes to it that would make it fit, the cheapest first.
//
// What the search may choose by itself never changes a result; what would (clipping, precision, shorter pages, a
// smaller model) is only ever suggested. The table of what is tried is one list, in remedies.cpp: a change is what it
// is called, the options to pass, what it does to results, and a function that makes it to a FitRequest.
//
//   const std::vector<Remedy> remedies = find_remedies(request, smallest, backend);
//   // {"gradients are not clipped", "--max-grad-norm 0", saves 480 MiB, 3 % slower, …}
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fit/fit.h"

namespace plimsoll {

// What a change does to results; the mildest first.
enum class Effect : std::uint8_t {
  kNone,          // the same numbers, up to rounding
  kNoEvaluation,  // the same model, but nobody watches it grow
  kNumerics,      // another precision, optimizer or clipping
  kFewerTrained,  // parts of the model stay as they are
  kPages,         // pages are cut otherwise
  kModel          // another model
};
// "changes no result", "changes the arithmetic", …
std::string effect_text(Effect effect);

struct Change {
  std::string kind;   // of several of one kind, only the first that fits is named
  std::string what;   // "gradients are not clipped"
  std::string flags;  // "--max-grad-norm 0", "without --eval-data"
  Effect effect = Effect::kNone;
  std::function<bool(FitRequest&)> apply;  // false: it changes nothing here
};
// Every change that is known, the mildest of each kind first. `request`: what the flags must say to leave the rest
// alone.
std::vector<Change> known_changes(const FitRequest& request);

struct Remedy {
  std::string what, flags;
  Effect effect = Effect::kNone;
  std::size_t needed_bytes = 0;  // by the smallest plan with the change
  std::size_t saved_bytes = 0;   // against the smallest plan without it
  double slower = 0;             // share of an update's time against the same run with memory to spare
};

// In whole tenths of an update's time: estimates are no better.
int slowness(const Remedy& remedy);

// At most `count` changes (or several together, where none is enough alone) that bring the run into its budget, the
// cheapest first: least slowness, then least change to results, then most bytes saved; one whose change to results is
// the least is among them however slow. `smallest`: the smallest plan of the request as it is, which does not fit.
std::vector<Remedy> find_remedies(const FitRequest& request, const RunPlan& smallest, Backend& backend,
                                  std::size_t count = 3);

// "  1. --max-grad-norm 0 …" in lines of at most 80 columns with the given indent; empty without remedies.
std::string remedies_text(const std::vector<Remedy>& remedies, std::size_t indent);

}  // namespace plimsoll
