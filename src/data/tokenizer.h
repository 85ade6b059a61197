// Encodes words as ids, the same as Hugging Face's `tokenizers`: byte-level BPE (RoBERTa, LayoutLMv3), BPE of
// characters (Llama 2), WordPiece (BERT, LayoutLM) or Unigram (XLM-RoBERTa, LayoutXLM).
//
//   const Tokenizer tokenizer = Tokenizer::from_directory("layoutlmv3-base");   // or Tokenizer::embedded()
//   std::vector<std::int32_t> ids;
//   tokenizer.encode_word("TOTAL", ids);                                        // appends 36575
//   std::string text = tokenizer.decode(ids);                                   // " TOTAL"
//
// Invariant: immutable after construction. Every const member may be called from any number of threads at once;
// encoding keeps no cache, so memory does not grow with the data.
//
// How a word becomes ids, in order (the same pipeline as in `tokenizers`, with all its special cases):
//   1. text of an added token anywhere in the word ("</s>", "[MASK]") becomes that token; one with `lstrip` (RoBERTa's
//      <mask>) also swallows the white space before it; some are looked for after the text is normalised,
//   2. each stretch of text between goes to the model: BPE puts a space in front, cuts it by GPT-2's pattern and merges
//      each piece's bytes by rank (tokenizer_bpe_model.h); WordPiece normalises it, cuts it around punctuation and
//      covers each piece with the longest tokens (tokenizer_wordpiece.h); Unigram normalises it and covers it with the
//      likeliest tokens (tokenizer_unigram.h).
// So with BPE a word that is only white space yields tokens, and only the empty word yields none; with the others white
// space and control characters yield none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer_files.h"
#include "data/tokenizer_model.h"

namespace plimsoll {

class Tokenizer {
 public:
  // Reads tokenizer.json, or else vocab.json + merges.txt, vocab.txt or sentencepiece.bpe.model, from a model
  // directory, with tokenizer_config.json and special_tokens_map.json if they are beside it. `path` may also be a
  // tokenizer.json itself. Throws DataError: no such file, torn or inconsistent content, or a tokenizer of another
  // kind.
  static Tokenizer from_directory(const std::filesystem::path& path);

  // Returns the project's own vocabulary of 8,000 entries, compiled in, with RoBERTa's numbering: <s> 0, <pad> 1, </s>
  // 2, <unk> 3, <mask> last. `takes_boxes`: it is saved as LayoutLMv3's, which takes words with boxes; else as
  // RoBERTa's, which takes text.
  static Tokenizer embedded(bool takes_boxes = true);

  explicit Tokenizer(TokenizerDefinition definition);

  // Appends the ids of one word, tokenised by itself, or nothing for an empty word. Throws DataError naming the byte if
  // `word` is not UTF-8 (a caller who knows file and page can check with find_invalid_utf8 first).
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;

  // Appends the ids of a text without a space in front, as `tokenizers` encodes it without special tokens. Throws like
  // encode_word.
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const;

  // Appends the ids of a text given in parts, as encode_text encodes them joined, and for each id the part in which its
  // token ends. Where a token does not spell its text (an unknown one, or after a normaliser that changes letters), the
  // place is found by encoding what stands before it alone, and may then be a token off.
  void encode_parts(std::span<const std::string> parts, std::vector<std::int32_t>& ids,
                    std::vector<std::int32_t>& parts_of_ids) const;

  // Appends the ids of a whole text, as `transformers` encodes it without special tokens: like encode_text, after a
  // space if the tokenizer's files ask for one.
  void encode_whole_text(std::string_view text, std::vector<std::int32_t>& ids) const;

  // Appends the ids of a question, as LayoutLMv3's tokenizer encodes it before a page: it is split at white space like
  // Python's str.split, then each word is encoded alone.
  void encode_question(std::string_view text, std::vector<std::int32_t>& ids) const;

  // Returns the number of separators between two texts: "[CLS] question [SEP] words [SEP]" of WordPiece has one, "<s>
  // question </s></s> words </s>" of the others two.
  int pair_separators() const { return std::holds_alternative<WordPieceOptions>(definition_.model) ? 1 : 2; }

  const SpecialTokens& special() const { return definition_.special; }
  // Return the boxes of special().bos and eos, if the tokenizer says them.
  const std::optional<std::array<std::int32_t, 4>>& bos_box() const { return definition_.bos_box; }
  const std::optional<std::array<std::int32_t, 4>>& eos_box() const { return definition_.eos_box; }
  // One more than the largest id: the model's word embedding needs this many rows.
  std::int32_t vocab_size() const { return static_cast<std::int32_t>(definition_.tokens.size()); }

  // Returns the token as spelled in the vocabulary file ("ĠTOTAL"); empty where an id has no token. Throws DataError
  // outside 0..vocab_size()-1.
  std::string_view id_to_token(std::int32_t id) const;

  // Returns the bytes that the ids stand for (a token may hold part of a character, so this need not be UTF-8). Special
  // tokens are left out unless `keep_special`. With BPE, decode(encode_word(w)) == " " + w for every w that begins with
  // no space and holds no added token's text; with WordPiece, pieces are joined, with a space before each word; with
  // Unigram, the replacement becomes a space.
  std::string decode(std::span<const std::int32_t> ids, bool keep_special = false) const;

  // Writes files that `transformers` loads with the same ids. A tokenizer read from files is written back byte for
  // byte, with the files found beside it; the embedded one becomes tokenizer.json and tokenizer_config.json.
  FileSums save(const std::filesystem::path& directory, TokenizerUse use = TokenizerUse::kWords) const;
  // Returns a hash of the names and bytes of the files that `save` would write for words.
  std::uint64_t fingerprint() const;

  // Returns the bytes that this object holds on the heap, for the memory plan (accurate to a few per cent).
  std::size_t memory_bytes() const;

 private:
  struct AddedMatcher {  // the added tokens that one pass looks for
    std::vector<AddedToken> tokens;
    std::array<bool, 256> first_byte{};
  };
  template <typename Added, typename Between>
  static void encode_around(const AddedMatcher& matcher, std::string_view text, const Added& found,
                            const Between& between);
  void add_matchers();
  // `running`: the text is a part of a running text, not a single word; `behind`: it follows something.
  void encode_raw(std::string_view text, std::vector<std::int32_t>& ids, bool running) const;
  void encode_between_raw(std::string_view text, std::vector<std::int32_t>& ids, bool running, bool behind) const;
  // Returns how many of the ids, which encode a stretch of a running text, end within its first `size` bytes.
  std::size_t ids_within(std::string_view stretch, std::size_t size, std::span<const std::int32_t> ids,
                         bool behind) const;

  TokenizerDefinition definition_;
  std::unique_ptr<const TokenModel> model_;
  // There are two passes, as in `tokenizers`: tokens matched in raw text first, then those matched in normalised text.
  std::array<AddedMatcher, 2> added_;
  // Flags for each byte of a word: 1 = not ASCII, 2 = may begin an added token. A word without flags is encoded fast.
  std::array<std::uint8_t, 256> byte_flags_{};
};

}  // namespace plimsoll
