// Two models on the same pages: what each finds, how sure the difference of their scores is, how often they agree.
//
//   const PagesRead a = read_pages(session, bundle, dataset, loader);  // and b, of the other model
//   const ConfidenceInterval by = difference(a, b);                    // of the first metric: b's less that of a
//   fmt::print("between {:+.3f} and {:+.3f}", by.low, by.high);
//
// Intervals are those of the bootstrap over pages, percentiles 2.5 and 97.5 of kDraws draws (Efron 1979); for a
// difference the same pages are drawn for both models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "tasks/scores.h"
#include "train/predictor.h"

namespace plimsoll {

struct PagesRead {
  Scores scores;
  std::size_t pages = 0;
  std::vector<Scores::Quotient> first{};  // of the first metric, by page
  // What was found, by page, as hashes that can be compared: one per word, class, question or link. A language model
  // finds only numbers.
  std::vector<std::vector<std::uint64_t>> found{};
  enum class Form : std::uint8_t { kList, kSet, kNumbers } form = Form::kList;  // numbers are never quite equal
  double seconds = 0;
};

// Evaluates and predicts all pages that have a window. Without `keeps` it only counts them and their time, and scores
// them together. Throws as predict_pages does.
PagesRead read_pages(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                     const LoaderOptions& loader, bool keeps = true);

inline constexpr std::size_t kDraws = 2000;
struct ConfidenceInterval {
  double low = 0, high = 0;
};
ConfidenceInterval interval(const PagesRead& of);
// Both must have read the same pages.
ConfidenceInterval difference(const PagesRead& a, const PagesRead& b);

// Returns the share of equal results, position by position; for links, which have no positions, the share of those that
// both found among those that either found. Nothing for numbers.
std::optional<double> agreement(const PagesRead& a, const PagesRead& b);

}  // namespace plimsoll
