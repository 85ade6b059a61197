// The data of a command, checked and opened for its model.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "data/dataset.h"
#include "request/check_data.h"
#include "request/reading.h"
#include "train/skipped_pages.h"

namespace plimsoll {

// Checks pages and opens them for a model whose labels are set. Warnings are logged, errors are thrown as one
// DataError. With `owned_only`, each word's label counts once (evaluation).
std::unique_ptr<Dataset> open_dataset(const ModelBundle& bundle, const DataRequest& request, bool owned_only);
// Does the same for prediction, which needs no labels and continues without pages that have an error: `bad` lists them.
// Returns nullptr if the request's range has no other pages.
std::unique_ptr<Dataset> open_to_predict(const ModelBundle& bundle, const DataRequest& request,
                                         std::vector<SkippedPage>& bad);

// The data of a run, whose pages are already open; those to train on and those to evaluate on are also checked against
// each other.
struct RunData {
  std::unique_ptr<Dataset> train, evaluation;
  Findings findings{};  // of the checks on both
};
struct RunDataOptions {
  bool decode_images = false;             // check every page's, unless a cache decodes them
  std::uint64_t most_decoding_bytes = 0;  // an image that takes more is left to the plan, which counts it; 0: no limit
  std::vector<SkippedPage> skipped{};     // pages that a resumed run leaves out
  ClassWeightRequest class_weights{};
  std::function<void(std::size_t done, std::size_t pages)> on_progress{};  // of decoding
};
// Gives the bundle's loss its class weights, which may depend on the data.
RunData open_run_data(ModelBundle& bundle, const DataRequest& request, const RunPages& pages,
                      const RunDataOptions& options = {});

}  // namespace plimsoll
