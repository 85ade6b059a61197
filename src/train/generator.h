// Generator: goes on with texts, token by token. Prompts are read some rows at a time, and of the rows that come then
// each is computed once: keys and values of those before are in the run's memory (transform/key_value_cache.h).
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
  std::set<std::int32_t> ends{};  // tokens that end a text, and are part of it
};

struct Continuation {
  std::vector<std::int32_t> tokens{};  // without the prompt's
  bool ended = false;                  // by a token that ends texts; else by their number
};

class Generator {
 public:
  // Both must outlive it. `model` is what the session's programs were made of.
  Generator(const Session& session, const ModelDefinition& model);

  // Texts that are written at once.
  std::int64_t most_texts() const { return capacity_.samples; }
  // At most so many prompts, the first of which has the number `first`. A prompt has a token at least, and with what may
  // follow no more than the session was planned for. `on_token` is told of each token as it comes, with its prompt's
  // number. What is written depends on nothing but the prompt and its number. Throws DataError for logits that are not
  // numbers.
  std::vector<Continuation> run(std::span<const std::vector<std::int32_t>> prompts, std::size_t first,
                                const GenerationOptions& options,
                                const std::function<void(std::size_t, std::int32_t)>& on_token = {}) const;

 private:
  struct Row {
    std::int32_t text = 0;  // among those that are written at once
    std::int32_t token = 0, position = 0;
    bool is_last = false;  // so far: logits of what follows are wanted
  };
  class Texts;

  // Leaves logits of the rows that are the last of theirs, by text.
  void step(ProgramKind kind, std::span<const Row> rows) const;
  std::span<float> logits(std::int32_t text) const;

  const Session& session_;
  ModelCapacity capacity_;
  std::int64_t tokens_ = 0;  // rows of the caches that a text has
  std::int32_t first_position_ = 0;
  std::int64_t vocab_size_ = 0;
  std::vector<InputSpec> constants_;  // inputs that hold the same in every step
  // Of a step, with room for the largest.
  struct Arrays {
    std::vector<std::int32_t> ids, positions, places, seen, last, last_of;
  };
  mutable Arrays arrays_;
  mutable std::vector<float> logits_;  // [texts, vocab_size]
};

}  // namespace plimsoll
