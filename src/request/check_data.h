// Checks on the data that was asked for, for the model that was asked for: what `check` reports, and what ends a run
// before its first update.
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
  std::vector<SkippedPage> skipped{};                      // whose images are not looked at
  std::uint64_t decoding_bytes = Dataset::kDecodingBytes;  // that images may take together while they are decoded
  std::size_t places_kept = Findings::kPlacesKept;
  int threads = 1;
  PageShare share{};  // what each rank checks of the pages; all ranks parse them, and get the whole report
  std::function<void(std::size_t done, std::size_t pages)>
      on_progress{};  // counts begin anew with the evaluation's pages
};

struct DataCheck {
  Findings findings;  // of all that was checked
  CheckReport train;
  std::optional<CheckReport> evaluation{};
};

// The pages of a run, or of `check`.
struct RunPages {
  std::shared_ptr<const TokenizedPages> train, evaluation;         // no evaluation: nullptr
  std::shared_ptr<const Pairs> train_pairs{}, evaluation_pairs{};  // of these pages; nullptr: examples are pages
};
// Parses and tokenises all pages, for a model whose task is set; `evaluation` may be empty.
RunPages open_run_pages(const ModelBundle& bundle, const ModelRequest& model, const DataRequest& data,
                        const PagePaths& evaluation,
                        const std::function<void(std::size_t done, std::size_t pages)>& on_progress = {});

// The same for a task that reads pairs, which `data` and `evaluation` are then files of; `reading`: of their pages.
RunPages open_pairs(const ModelBundle& bundle, const DataRequest& data, const PagePaths& evaluation,
                    ReadOptions reading,
                    const std::function<void(std::size_t done, std::size_t pages)>& on_progress = {});

// Checks all pages with the model's limits, and settles its task and labels as set_task_and_labels and resolve_labels
// do, as far as the data's labels can be read.
DataCheck check_data(ModelBundle& bundle, const ModelRequest& model, const CheckRequest& request);

// Logs warnings and infos, one line a kind.
void log_findings(const Findings& findings);

// The same checks before a run, for this model, whose labels are settled: warnings are logged, errors thrown as one
// DataError. Returns what was found, without an error.
DataCheck refuse_bad_data(const ModelBundle& bundle, const RunPages& pages, const CheckRequest& request);
// The same before a prediction, where a bad page costs that page alone: returns those with an error, in their order.
// Throws DataError if there are no others.
std::vector<SkippedPage> find_bad_pages(const ModelBundle& bundle, const RunPages& pages, const CheckRequest& request);

}  // namespace plimsoll
