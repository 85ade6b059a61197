// Says what a model costs: its parameters, the arithmetic of its layers, and the planner's predictions of its time and
// memory on the pages that it evaluates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "bundle/model_bundle.h"
#include "data/dataset.h"
#include "request/memory.h"
#include "train/options.h"

namespace plimsoll {

struct ModelCosts {
  std::int64_t parameters = 0;
  double layer_products = 0;             // multiply-adds of the layers for a row of the encoder
  double seconds_per_page = 0;           // estimated, from this machine's speeds
  std::size_t predicted_peak_bytes = 0;  // of `eval`
};

// `bundle` need not have weights of its shapes. The peak is that of an evaluation of `dataset` with the micro-batch and
// the budget in `options` and `memory`; if no plan fits the budget, that of the smallest plan. `held_bytes` is what the
// process holds besides the plan; it must be the same for models that are compared.
ModelCosts model_costs(const ModelBundle& bundle, const Dataset& dataset, const TrainOptions& options,
                       const MemoryRequest& memory, double keys_per_row, std::size_t held_bytes, Backend& backend);

}  // namespace plimsoll
