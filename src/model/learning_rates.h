// Learning rates of single parameters: smaller ones for the layers further from the head, and rates for patterns of
// names.
//
//   const std::map<std::string, double> factors = rate_factors(specs, {.layer_decay = 0.9}, 5e-5);
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/parameter_spec.h"

namespace plimsoll {

struct RateOptions {
  // With L layers, the head has the run's rate, layer i that times layer_decay^(L - i), and what comes before the
  // layers times layer_decay^(L + 1) (Howard, Ruder 2018, per layer as Clark et al. 2020 have it).
  double layer_decay = 1;
  // Of the parameters that match the pattern (model/trained_parts.h), in place of all that; the last one that matches
  // counts.
  std::vector<std::pair<std::string, double>> rates{};
};

// The factors of the run's rate `peak`, by parameter; those that are 1 are left out. Throws UsageError for a pattern
// that matches no parameter that trains.
std::map<std::string, double> rate_factors(const std::vector<ParameterSpec>& specs, const RateOptions& options,
                                           double peak);

}  // namespace plimsoll
