// Runs the evaluation program over a data set and passes each window's logits to a task, page by page: logits stay in
// the arena, and memory does not grow with the data.
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
  double loss_weight = 0;  // the divisor of the mean
  std::int64_t pages = 0;
  bool interrupted = false;  // there are more pages than these
};

// What may happen between the first page and the last.
struct PredictControl {
  std::vector<std::uint32_t> skipped{};  // indices of pages to leave out
  // Called for a page that cannot be read, which is then left out; if this is empty, or if kMostBadPagesInARow pages in
  // a row cannot be read, the error is thrown.
  std::function<void(const BadPageError&)> on_bad_page{};
  const Interrupt* interrupt = nullptr;
  bool all_pages = false;  // also those without a window, for which there is nothing to predict
};

// With ranks, each computes its share of the micro-batches in turn, and all get the logits of all, so that every rank's
// reader sees the same as in a single process. All ranks call it, with the same data and pages to leave out; they
// ignore `interrupt`, and a page that one of them cannot read is reported to all.
//
// Every page that has a window (or, with all_pages, every page) and is not left out is passed to `reader`, in the
// data's order; `on_page`, if set, is called when the page has ended there. If logits are not finite, throws
// DivergedError, which names the first tensor that is not finite.
PredictionTotals predict_pages(const Session& session, const ModelDefinition& model, const Dataset& dataset,
                               const LoaderOptions& loader, WindowReader& reader, const PredictControl& control = {},
                               const std::function<void(std::uint32_t page)>& on_page = {});

}  // namespace plimsoll
