// Merges the windows of a page into one prediction per word: each word is predicted in the one window that owns it.
//
//   WordMerger words;
//   words.begin_page(7);  words.add_window(batch, sample, logits);  use(words.page());
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "tensor/tensor.h"

namespace plimsoll {

struct WordPredictions {
  std::uint32_t page = 0;            // index in the data set's source
  std::vector<std::int32_t> labels;  // by word: the likeliest label, kNoPrediction for a word without tokens
  std::vector<float> probabilities;  // of that label
  std::vector<std::int32_t> gold;    // the data's label, -100 if there is none
  double loss = 0;                   // sum of cross-entropies over the words that have a label
  std::int64_t loss_terms = 0;       // how many words these are
  std::vector<float> scores;         // of every label, [words, labels], 0 for a word without tokens; if asked for
};

class WordMerger {
 public:
  explicit WordMerger(bool all_scores = false) : all_scores_(all_scores) {}

  void begin_page(std::uint32_t page);
  // `logits` f32[Nt, C]. Returns false if a word's are not finite.
  [[nodiscard]] bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits);
  const WordPredictions& page() const { return page_; }

 private:
  bool add_word(std::int32_t word, std::span<const float> logits, std::int32_t gold);

  bool all_scores_;
  WordPredictions page_;
};

}  // namespace plimsoll
