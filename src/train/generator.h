// Generator: continues texts, token by token. Prompts are read some rows at a time, and every later row is computed
// once: the keys and values of earlier rows are kept in the run's memory (transform/key_value_cache.h).
//
//   Session session(fit(request, backend), backend);      // request.generates
//   Generator generator(session, *task.next_token_model(encoder));
//   const std::vector<Continuation> texts = generator.run(prompts, 0, options);
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "fit/session.h"
#include "train/sampling.h"

namespace plimsoll {

struct GenerationOptions {
  SamplingOptions sampling;
  std::int64_t max_new_tokens = 64;
  std::set<std::int32_t> ends{};  // tokens that end a text and belong to it
  // Returns true if the last token of a text, which is a new one, ends it; `text` begins with the prompt. Absent: only
  // `ends` do.
  std::function<bool(std::span<const std::int32_t> text)> stops{};
};

struct Continuation {
  std::vector<std::int32_t> tokens{};  // without the prompt's
  bool ended = false;                  // a token ended the text, not the limit
};

class Generator {
 public:
  // Both must outlive it. `model` is the one that the session's programs were made from.
  Generator(const Session& session, const ModelDefinition& model);

  // Returns how many texts are written at once.
  std::int64_t most_texts() const { return capacity_.samples; }
  // Continues at most most_texts() prompts, the first of which has the number `first`. A prompt must have at least one
  // token, and together with its continuation at most as many as the session was planned for. `on_token` is called for
  // each token as it comes, with its prompt's number. The result depends only on the prompt and its number. Throws
  // DataError for logits that are NaN.
  std::vector<Continuation> run(std::span<const std::vector<std::int32_t>> prompts, std::size_t first,
                                const GenerationOptions& options,
                                const std::function<void(std::size_t, std::int32_t)>& on_token = {}) const;

 private:
  struct Row {
    std::int32_t text = 0;  // its index among those that are written at once
    std::int32_t token = 0, position = 0;
    bool is_last = false;  // the text's last row so far: the logits of the next token are wanted
  };
  class Texts;

  // Computes the rows, and stores the logits of those that are their text's last, by text.
  void step(ProgramKind kind, std::span<const Row> rows) const;
  std::span<float> logits(std::int32_t text) const;

  const Session& session_;
  ModelCapacity capacity_;
  std::int64_t tokens_ = 0;  // rows of the caches for each text
  std::int32_t first_position_ = 0;
  std::int64_t vocab_size_ = 0;
  std::vector<InputSpec> constants_;  // inputs that are the same in every step
  // The arrays of a step, with room for the largest.
  struct Arrays {
    std::vector<std::int32_t> ids, positions, places, seen, last, last_of;
  };
  mutable Arrays arrays_;
  mutable std::vector<float> logits_;  // [texts, vocab_size]
};

}  // namespace plimsoll
