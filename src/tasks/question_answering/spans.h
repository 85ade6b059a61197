// Finds the likeliest spans of words over all windows of a page, as `transformers`' run_qa does: the best starts and
// ends of each window are paired, pairs are ranked by the sum of their logits, and the score of "no answer" is the
// smallest that any window gives its first token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// Words [begin, end) of the page; end 0: no answer. `probability` is a softmax over the listed spans.
struct SpanCandidate {
  std::size_t begin = 0, end = 0;
  double score = 0;  // the sum of both logits
  double probability = 0;

  bool is_null() const { return end == 0; }
};

class SpanSearch {
 public:
  // This many starts and ends of a window are paired, and this many spans are kept.
  static constexpr std::size_t kBest = 20;
  // A span has at most this many tokens.
  static constexpr std::size_t kMostTokens = 128;

  void begin();
  // `logits` [rows, 2] of a window's text rows, start and end; `words` [rows]: the word of each, kNoWord for rows that
  // are not part of the page. Returns false if a logit is not finite.
  [[nodiscard]] bool add_window(std::span<const float> logits, std::span<const std::int32_t> words);
  // Returns the best spans, best first; the null answer is among them, first if it is the likeliest. Empty before the
  // first window.
  std::vector<SpanCandidate> best() const;

 private:
  std::vector<SpanCandidate> spans_;  // each span once
  double null_score_ = 0;
  bool any_ = false;
};

}  // namespace plimsoll
