// Cuts a page's tokens into overlapping windows that fit the model, <s> tokens </s> (with BERT [CLS] tokens [SEP]),
// without losing a word.
//
// Windows begin and end between words if a word fits into one, so a word's first token (which carries its label) is
// always in a window with the rest of it. Only a word longer than a whole window is cut. Running texts are cut at any
// token.
//
//   page's tokens   a a b c c c d e e     (letters: words)      max_length 7: five tokens and <s>, </s>; stride 2
//   window 0        a a b                  c would be cut, so it waits for the next window
//   window 1            b c c c d          overlap of at most two tokens, whole words
//   window 2                    d e e
//   owner           0 0 0 1 1 1 1 2 2      where the word has most context on its poorer side
//
// Evaluation reads a word's prediction from the one window that owns it; training uses every window's labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/page.h"

namespace plimsoll {

class Tokenizer;

// The part of a tokenizer that data needs. Functions append ids and are thread-safe.
struct WordEncoder {
  std::function<void(std::string_view word, std::vector<std::int32_t>& ids)> encode;
  // Encodes a running text (Page::is_text), given in parts, and appends for each id the part in which its token ends.
  std::function<void(std::span<const std::string> parts, std::vector<std::int32_t>& ids,
                     std::vector<std::int32_t>& parts_of_ids)>
      encode_text{};
  std::int32_t bos_id = 0, pad_id = 1, eos_id = 2;  // kNoToken: no token comes before, or after, a text
  // For a text before the words: appends its ids, and says how many separators (eos_id) follow it.
  std::function<void(std::string_view text, std::vector<std::int32_t>& ids)> encode_prompt{};
  int pair_separators = 2;
  // The tokens with which a running text begins and ends; they belong to the first and the last word. -1 (kNoToken):
  // none.
  std::int32_t text_begin_id = -1, text_end_id = -1;
};

// Return encoders that keep the tokenizer alive. The second one is for texts that a language model learns: a text is
// encoded without a space in front, and the tokens around it are put around the whole text, not around each window.
WordEncoder word_encoder(const std::shared_ptr<const Tokenizer>& tokenizer);
WordEncoder text_encoder(const std::shared_ptr<const Tokenizer>& tokenizer);

enum class LongPages : std::uint8_t {
  kWindows,   // several overlapping windows
  kTruncate,  // the first window only: words are lost, and counted
  kRefuse     // an error
};

struct WindowOptions {
  int max_length = 512;  // of a window, including <s> and </s>
  int stride = 128;      // overlap in tokens, at most; Hugging Face's name
  int outer = 2;         // how many of a window's tokens are <s> and </s>
  LongPages long_pages = LongPages::kWindows;
  int most_length = 0;  // that the model takes; 0: unknown

  int content() const { return max_length - outer; }
};
// Throws UsageError unless 3 <= max_length <= 65535 and 0 <= stride < content().
void validate(const WindowOptions& options);

inline constexpr std::int32_t kNoWord = -1;

struct PageTokens {
  std::vector<std::int32_t> ids;                   // without <s> and </s>
  std::vector<std::int32_t> words;                 // the word of each token (of a text: the part), ascending
  std::vector<std::int32_t> first_of_word;         // the first token of each word; -1: the word has none
  std::vector<std::vector<std::int32_t>> prompts;  // the tokens of each of the page's prompts (data/targets.h)
  bool is_text = false;                            // they are the tokens of a running text

  // Tokenises the page's words, and `texts` as its prompts.
  void assign(const Page& page, const WordEncoder& encoder, std::span<const std::string_view> texts = {});
};

// Tokens [begin, end) of a page.
struct Window {
  std::int32_t begin = 0, end = 0;
  friend bool operator==(const Window&, const Window&) = default;
};

// Returns at least one window; an empty page has one, empty window. kRefuse cuts as kWindows does; the caller sees two.
void cut_windows(const PageTokens& tokens, const WindowOptions& options, std::vector<Window>& windows);

// A text before a page's words in each of its windows: "<s> question </s></s> words </s>".
struct Prompt {
  // A word needs some context, or a page would become a window for each of its words.
  static constexpr int kLeastRoom = 16;

  std::vector<std::int32_t> ids;  // its own, and the separators after it; empty: there is no text

  // Sets it to the prompt of one of the page's items.
  void assign(const PageTokens& tokens, std::size_t item, const WordEncoder& encoder);
  // Returns what it leaves of each window for the page; nullopt if that is less than kLeastRoom.
  std::optional<WindowOptions> room(const WindowOptions& options) const;
};

// Returns the window that owns the word whose first token is `token`: among those that hold it, the one with the most
// tokens on the side of the word that has fewer (at a page's own beginning or end, a side counts as large enough), the
// earliest of equals; -1 if none holds it.
int owning_window(std::span<const Window> windows, std::int32_t token, std::int32_t token_count);

}  // namespace plimsoll
