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
  // With L layers, the head has the run's rate, layer i that times layer_decay^(L - i), and the parameters before the
  // layers the run's rate times layer_decay^(L + 1) (Howard, Ruder 2018; per layer as in Clark et al. 2020). A norm
  // behind the last layer counts as the head, as in BEiT (Bao et al. 2021), and so does a language model's own head.
  double layer_decay = 1;
  // Rates of the parameters that match a pattern (model/trained_parts.h), which replace the above; the last pattern
  // that matches counts.
  std::vector<std::pair<std::string, double>> rates{};
};

// Returns the factors of the run's rate `peak`, by parameter; factors of 1 are left out. Throws UsageError for a
// pattern that matches no parameter that trains.
std::map<std::string, double> rate_factors(const std::vector<ParameterSpec>& specs, const RateOptions& options,
                                           double peak);

}  // namespace plimsoll
