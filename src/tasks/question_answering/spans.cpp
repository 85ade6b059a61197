#include "tasks/question_answering/spans.h"

#include <algorithm>
#include <cmath>

#include "data/windows.h"

namespace plimsoll {
namespace {

// Returns the rows with the largest logits of `column` among those that may begin or end a span, the largest first.
std::vector<std::size_t> best_rows(std::span<const float> logits, std::span<const std::int32_t> words,
                                   std::size_t column) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < words.size(); ++row) {
    if (words[row] != kNoWord) rows.push_back(row);
  }
  const std::size_t kept = std::min(rows.size(), SpanSearch::kBest);
  const auto larger = [&](std::size_t a, std::size_t b) {
    const float x = logits[2 * a + column], y = logits[2 * b + column];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end(), larger);
  rows.resize(kept);
  return rows;
}

bool better(const SpanCandidate& a, const SpanCandidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
}

}  // namespace

void SpanSearch::begin() {
  spans_.clear();
  any_ = false;
}

bool SpanSearch::add_window(std::span<const float> logits, std::span<const std::int32_t> words) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) return false;
  const double null_score = double{logits[0]} + logits[1];
  null_score_ = any_ ? std::min(null_score_, null_score) : null_score;
  any_ = true;
  const std::vector<std::size_t> starts = best_rows(logits, words, 0), ends = best_rows(logits, words, 1);
  for (const std::size_t start : starts) {
    for (const std::size_t end : ends) {
      if (end < start || end - start >= kMostTokens) continue;
      const SpanCandidate span{.begin = static_cast<std::size_t>(words[start]),
                               .end = static_cast<std::size_t>(words[end]) + 1,
                               .score = double{logits[2 * start]} + logits[2 * end + 1]};
      const auto same = std::ranges::find_if(
          spans_, [&](const SpanCandidate& other) { return other.begin == span.begin && other.end == span.end; });
      if (same == spans_.end()) {
        spans_.push_back(span);
      } else {
        same->score = std::max(same->score, span.score);
      }
    }
  }
  std::sort(spans_.begin(), spans_.end(), better);
  if (spans_.size() > kBest) spans_.resize(kBest);
  spans_.shrink_to_fit();  // a page may have thousands of questions
  return true;
}

std::vector<SpanCandidate> SpanSearch::best() const {
  if (!any_) return {};
  std::vector<SpanCandidate> all = spans_;
  const SpanCandidate none{.score = null_score_};
  all.insert(std::find_if(all.begin(), all.end(), [&](const SpanCandidate& span) { return span.score < none.score; }),
             none);
  double sum = 0;
  for (SpanCandidate& span : all) sum += span.probability = std::exp(span.score - all.front().score);
  for (SpanCandidate& span : all) span.probability /= sum;
  return all;
}

}  // namespace plimsoll
