#include "model/learning_rates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

// Returns the names of the parameters behind the last layer. Specs are in the order of the encoder; the tables of
// attention, which all layers read, come last and stand before them all the same.
std::set<std::string> behind_layers(const std::vector<ParameterSpec>& specs) {
  using Part = ParameterSpec::Part;
  std::set<std::string> behind;
  bool after_layers = false;
  for (const ParameterSpec& spec : specs) {
    after_layers = after_layers || spec.layer >= 0;
    const bool is_norm = after_layers && spec.layer < 0 && spec.part == Part::kOther;
    if (spec.is_head() || spec.part == Part::kLanguageHead || is_norm) behind.insert(spec.name);
  }
  return behind;
}

}  // namespace

std::map<std::string, double> rate_factors(const std::vector<ParameterSpec>& specs, const RateOptions& options,
                                           double peak) {
  std::int64_t layers = 0;
  for (const ParameterSpec& spec : specs) layers = std::max(layers, spec.layer + 1);
  std::map<std::string, double> factors;
  const std::set<std::string> behind = behind_layers(specs);
  for (const ParameterSpec& spec : specs) {
    if (!spec.trains || behind.contains(spec.name) || options.layer_decay == 1) continue;
    factors[spec.name] = std::pow(options.layer_decay, static_cast<double>(layers - spec.layer));
  }
  for (const auto& [pattern, rate] : options.rates) {
    bool matches = false;
    for (const ParameterSpec& spec : specs) {
      if (!spec.trains || !matches_pattern(pattern, spec.name)) continue;
      factors[spec.name] = peak > 0 ? rate / peak : 1;
      matches = true;
    }
    if (matches) continue;
    throw UsageError({.what = "the pattern matches no parameter that trains",
                      .where = "--lr-pattern",
                      .found = pattern,
                      .allowed = "a pattern for whole names, such as classifier.* or *.encoder.layer.[0-5].*",
                      .remedy = "correct the pattern; the names are those of the model's weight file"});
  }
  std::erase_if(factors, [](const auto& entry) { return entry.second == 1; });
  return factors;
}

}  // namespace plimsoll
