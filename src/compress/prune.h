// Prunes a trained model without training: its heads and columns are weighed on labelled pages
// (compress/mask_gradients), those that are worth least go (compress/mask_search), and what is left makes up for them
// (compress/reconstruction).
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
  // What the pruned model may have at most: of the layers' arithmetic that share, as it is stored, and not counting
  // zeros that one; and what the planner predicts.
  double flops_share = 1, nonzero_share = 1;
  std::optional<double> seconds_per_page{};
  std::optional<std::size_t> peak_bytes{};
  PrunedLayout layout = PrunedLayout::kTransformers;
  std::int64_t windows = 512;                 // that units are weighed on
  std::int64_t reconstruction_windows = 128;  // that weights are solved for on
  std::uint64_t seed = 42;                    // draws the windows
  TrainOptions evaluation{};                  // how the model would be evaluated: its predicted peak
  MemoryRequest memory{};
  // Told what is going on, and how much of it is done.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all)> on_progress{};
  // Called with the smallest model that could come out, before anything is weighed, and with the one that was chosen,
  // before its weights are solved for. What it throws ends the work.
  std::function<void(const ModelBundle& smaller)> check{};
};

struct Pruned {
  std::vector<WeighedUnits> groups;
  Masks masks;
  std::vector<std::int64_t> layers;  // those that stay
  ModelCosts before, after;
  double kept_share = 1;     // of the layers' arithmetic, as it is stored
  double nonzero_share = 1;  // of it, what is not of zeros
  std::int64_t windows = 0;  // that have labels, of those that units were weighed on
};

using SaveModel = std::function<FileSums(const std::filesystem::path& directory)>;

// `dataset` has labels. Every part of the work is planned within the memory that `options` allow, and `write` is called
// once, with what writes the pruned model. Throws UsageError for targets that cannot be reached and for data without a
// label, BudgetError as fit() does.
Pruned prune(const ModelBundle& bundle, const Dataset& dataset, const PruneOptions& options, Backend& backend,
             const std::function<void(const SaveModel& save)>& write);

}  // namespace plimsoll
