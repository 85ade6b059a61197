// Trims a model's vocabulary: removes tokens that the data never uses from the tokenizer and the word embedding.
//
//   const TokenCounts counts = count_tokens(pages, bundle.facts().vocab_size);
//   const TrimmedModel trimmed(bundle, counts, make_work_directory("smaller", "tokenizer"));
//   write_model("smaller", [&](const std::filesystem::path& aside) { return trimmed.save(aside); });
//
// Pages whose tokens were all counted are cut into the same pieces, and the model computes the same for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "bundle/model_bundle.h"
#include "data/tokenized_pages.h"

namespace plimsoll {

struct TokenCounts {
  std::vector<std::uint64_t> of_token;  // by id
  std::uint64_t pages = 0, words = 0, tokens = 0;

  std::uint64_t distinct() const;
  // Returns the expected share of unseen tokens in further text of the same kind: the share of those seen once
  // (Good-Turing; Good 1953).
  double unseen_share() const;
};
// Counts the tokens of the words and of the prompts. Throws DataError for a page that cannot be read.
TokenCounts count_tokens(const TokenizedPages& pages, std::int32_t vocab_size);

// The model with a smaller vocabulary. It holds the tokenizer; the weights stay in the file that they come from.
class TrimmedModel {
 public:
  // `bundle` must outlive it, have weights and no adapters. The tokenizer's files are written to `scratch`, an empty
  // directory, and read again from there, as when the model is opened.
  TrimmedModel(const ModelBundle& bundle, const TokenCounts& counts, const std::filesystem::path& scratch);

  // Returns the old ids of the kept tokens, by their new ids.
  std::span<const std::int32_t> kept() const { return kept_; }
  std::int64_t parameters() const;
  // Returns the bundle with the smaller tokenizer and config; its weights are still the larger ones.
  const ModelBundle& bundle() const { return trimmed_; }

  // Throws InternalError if a page of `pages` is cut into other pieces than before.
  void verify(const TokenizedPages& before, const TokenizedPages& now) const;

  // Writes the model directory: config.json, model.safetensors, the tokenizer's files, preprocessor_config.json.
  FileSums save(const std::filesystem::path& directory) const;

 private:
  FileSum save_weights(const std::filesystem::path& path) const;

  const ModelBundle& original_;
  ModelBundle trimmed_;
  std::vector<std::int32_t> kept_, now_;  // now_: the new ids by the old ones
};

}  // namespace plimsoll
