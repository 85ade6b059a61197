// Checks the requested data for the requested model: what `check` reports, and what ends a run before its first update.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/check.h"
#include "data/dataset.h"
#include "request/labels.h"
#include "train/skipped_pages.h"

namespace plimsoll {

struct CheckRequest {
  DataRequest data;
  PagePaths evaluation{};  // empty: none
  bool decode_images = false;
  std::vector<SkippedPage> skipped{};                      // whose images are not read
  std::uint64_t decoding_bytes = Dataset::kDecodingBytes;  // the most bytes for decoding images at once
  std::uint64_t most_decoding_bytes = 0;                   // as in CheckOptions
  std::size_t places_kept = Findings::kPlacesKept;
  int threads = 1;
  PageShare share{};  // the pages that each rank checks; all ranks parse all pages, and get the whole report
  std::function<void(std::size_t done, std::size_t pages)>
      on_progress{};  // counts from 0 again for the evaluation's pages
};

struct DataCheck {
  Findings findings;  // of all that was checked
  CheckReport train;
  std::optional<CheckReport> evaluation{};
};

// The pages of a run, or of `check`.
struct RunPages {
  std::shared_ptr<const TokenizedPages> train, evaluation;         // evaluation: nullptr if there is none
  std::shared_ptr<const Pairs> train_pairs{}, evaluation_pairs{};  // pairs of these pages; nullptr: examples are pages
};
// Parses and tokenises all pages, for a model whose task is set; `evaluation` may be empty.
RunPages open_run_pages(const ModelBundle& bundle, const ModelRequest& model, const DataRequest& data,
                        const PagePaths& evaluation,
                        const std::function<void(std::size_t done, std::size_t pages)>& on_progress = {});

// Does the same for a task that reads pairs: `data` and `evaluation` are then files of pairs, and `reading` is for
// their pages.
RunPages open_pairs(const ModelBundle& bundle, const DataRequest& data, const PagePaths& evaluation,
                    ReadOptions reading,
                    const std::function<void(std::size_t done, std::size_t pages)>& on_progress = {});

// Checks all pages with the model's limits, and sets its task and labels like set_task_and_labels and resolve_labels,
// as far as the data's labels can be read.
DataCheck check_data(ModelBundle& bundle, const ModelRequest& model, const CheckRequest& request);

// Logs warnings and infos, one line per kind.
void log_findings(const Findings& findings);

// Makes the same checks before a run, for a model whose labels are set: warnings are logged, errors are thrown as one
// DataError. Returns what was found if there was no error.
DataCheck refuse_bad_data(const ModelBundle& bundle, const RunPages& pages, const CheckRequest& request);
// Does the same before a prediction, where a bad page affects only itself: returns the pages with an error, in their
// order. Throws DataError if there are no others.
// `sizes` is set to those of all pages.
std::vector<SkippedPage> find_bad_pages(const ModelBundle& bundle, const RunPages& pages, const CheckRequest& request,
                                        PageSizes& sizes);

}  // namespace plimsoll
