// A pass over some windows of labelled pages, one at a time, drawn without repetition from a seed: pruning takes its
// measurements on these.
#pragma once

#include <cstdint>
#include <functional>

#include "bundle/model_bundle.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/loader.h"

namespace plimsoll {

struct WindowPass {
  const ModelBundle* bundle = nullptr;
  const Dataset* dataset = nullptr;
  LoaderOptions loader{};
  std::int64_t most_windows = 512;
  std::uint64_t seed = 42;
  // Called with how many windows of a pass are done.
  std::function<void(std::int64_t done, std::int64_t windows)> on_progress{};

  std::int64_t windows() const;
  // Returns how many rows of its own window a row of the encoder attends to, on average over the rows of all windows.
  double keys_per_row() const;
  // Calls `visit` with each window that has a label, in the same order each time. `text_rows` is the most that a batch
  // has room for. Throws BadPageError for a page that can no longer be read.
  void run(std::int64_t text_rows, const std::function<void(const Batch&)>& visit) const;
};

}  // namespace plimsoll
