// Prunes a trained model without training: its heads and columns are weighed on labelled pages
// (compress/mask_gradients), those that are worth least are removed (compress/mask_search), and the remaining weights
// compensate for them (compress/reconstruction).
//
//   const Pruned pruned = prune(bundle, dataset, options, backend, [&](const SaveModel& save) {
//     write_model("smaller", save);
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "compress/model_costs.h"
#include "compress/pruned_model.h"
#include "compress/pruned_units.h"

namespace plimsoll {

struct PruneOptions {
  // The pruned model's limits: the share of the layers' stored arithmetic, the share without zeros, and those of the
  // planner's predictions.
  double flops_share = 1, nonzero_share = 1;
  std::optional<double> seconds_per_page{};
  std::optional<std::size_t> peak_bytes{};
  PrunedLayout layout = PrunedLayout::kTransformers;
  std::int64_t windows = 512;                 // that units are weighed on
  std::int64_t reconstruction_windows = 128;  // that weights are solved for on
  std::uint64_t seed = 42;                    // draws the windows
  TrainOptions evaluation{};                  // how the model would be evaluated: its predicted peak
  MemoryRequest memory{};
  // Called with what is being done, and how much of it is done.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all)> on_progress{};
  // Called with a model of about the size that is asked for, or the smallest possible one if that is unknown, before
  // anything is weighed, and with the chosen one, before its weights are solved for. An exception from it ends the
  // work.
  std::function<void(const ModelBundle& smaller)> check{};
};

struct Pruned {
  std::vector<WeighedUnits> groups;
  Masks masks;
  std::vector<std::int64_t> layers;  // the remaining layers
  ModelCosts before, after;
  double kept_share = 1;     // of the layers' arithmetic, as stored
  double nonzero_share = 1;  // the share of it that is not zeros
  std::int64_t windows = 0;  // windows with labels among those that units were weighed on
};

using SaveModel = std::function<FileSums(const std::filesystem::path& directory)>;

// `dataset` must have labels. Every part of the work is planned within the memory that `options` allow, and `write` is
// called once, with a function that writes the pruned model. Throws UsageError for targets that cannot be reached and
// for data without labels, and BudgetError like fit().
Pruned prune(const ModelBundle& bundle, const Dataset& dataset, const PruneOptions& options, Backend& backend,
             const std::function<void(const SaveModel& save)>& write);

}  // namespace plimsoll
