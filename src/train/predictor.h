// Runs the evaluation program over a data set and hands each window's logits to a task, page by page: logits never
// leave the arena, memory does not grow with the data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "fit/session.h"
#include "tasks/task.h"

namespace plimsoll {

struct PredictionTotals {
  double loss_sum = 0;
  double loss_weight = 0;  // what the mean divides the sum by
  std::int64_t pages = 0;
  bool interrupted = false;  // there are more pages than these
};

// What may come between the first page and the last.
struct PredictControl {
  std::vector<std::uint32_t> skipped{};  // indices of pages to leave out
  // Told of a page that cannot be read, which is then left out; if this is empty, or kMostBadPagesInARow pages in a row
  // cannot be read, the error is thrown.
  std::function<void(const BadPageError&)> on_bad_page{};
  const Interrupt* interrupt = nullptr;
  bool all_pages = false;  // those without a window too, which have nothing to be predicted
};

// With ranks, each computes every so manieth micro-batch, and all get the logits of all, so that every rank's reader
// sees what a single process would show it. All ranks call it, with the same data and pages to leave out; none heeds
// `interrupt`, and a page that one of them cannot read is told to all.
//
// Every page that has a window (or every one) and is not left out goes to `reader`, in the data's order; `on_page`, if
// there is one, is called once it has ended there. Throws DivergedError, which names the first tensor that is not
// finite, where logits are not.
PredictionTotals predict_pages(const Session& session, const ModelDefinition& model, const Dataset& dataset,
                               const LoaderOptions& loader, WindowReader& reader, const PredictControl& control = {},
                               const std::function<void(std::uint32_t page)>& on_page = {});

}  // namespace plimsoll
