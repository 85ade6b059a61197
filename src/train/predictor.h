// Runs the evaluation program over a data set and hands out each page's word predictions, one page at a time: logits
// never leave the arena, memory does not grow with the data.
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

namespace plimsoll {

// One page's words, merged from its windows: each word is predicted in the one window that owns it.
struct PagePrediction {
  std::uint32_t page = 0;            // index in the data set's source
  std::vector<std::int32_t> labels;  // by word: the likeliest label, -1 for a word without tokens
  std::vector<float> probabilities;  // of that label
  std::vector<std::int32_t> gold;    // the data's label, -100 where there is none
  std::vector<float> scores;         // of every label, [words, labels], 0 for a word without tokens; if asked for
};

struct PredictionTotals {
  double loss_sum = 0;  // over labelled tokens
  std::int64_t labelled_tokens = 0;
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
  bool all_scores = false;  // PagePrediction::scores too
};

// `on_page` is called once for each page that has a window and is not left out, in the data's order. Throws
// DivergedError, which names the first tensor that is not finite, where logits are not.
PredictionTotals predict_pages(const Session& session, const ModelDefinition& model, const Dataset& dataset,
                               const LoaderOptions& loader, const std::function<void(const PagePrediction&)>& on_page,
                               const PredictControl& control = {});

}  // namespace plimsoll
