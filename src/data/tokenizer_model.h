// A Tokenizer asks its model (byte-level BPE, BPE of characters, WordPiece or Unigram) for the ids of the text between
// added tokens.
//
// Invariant: a model is immutable, and its members may be called from any number of threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

class TokenModel {
 public:
  TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;
  virtual ~TokenModel() = default;

  // Appends the ids of valid UTF-8 without an added token: normalises it, cuts it into pieces and encodes each.
  virtual void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  // These are the two steps of encode_text, between which some added tokens are looked for.
  virtual bool normalizes() const = 0;  // false: `normalize` returns its argument
  virtual std::string normalize(std::string_view text) const = 0;
  virtual void encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  // Do the same for a part of a running text, without putting a space in front of it.
  virtual void encode_running(std::string_view text, std::vector<std::int32_t>& ids) const { encode_text(text, ids); }
  virtual void encode_normalized_running(std::string_view text, std::vector<std::int32_t>& ids) const {
    encode_normalized(text, ids);
  }

  // Does the same for text after an added token, for models to which that makes a difference.
  virtual void encode_behind(std::string_view text, std::vector<std::int32_t>& ids, bool running) const {
    running ? encode_running(text, ids) : encode_text(text, ids);
  }
  virtual void encode_normalized_behind(std::string_view text, std::vector<std::int32_t>& ids, bool running) const {
    running ? encode_normalized_running(text, ids) : encode_normalized(text, ids);
  }

  // Appends the text of a token; a token that begins a word has a space in front.
  virtual void append_text(std::string_view token, std::string& text) const = 0;
  // Returns the text that append_text makes of its tokens, but for a space in front.
  virtual std::string spelled(std::string_view text) const { return normalize(text); }

  // Returns the bytes that the model holds on the heap.
  virtual std::size_t memory_bytes() const = 0;
};

}  // namespace plimsoll
