// Defines a tokenizer as data, and reads and writes its files: Hugging Face's tokenizer.json, or vocab.json +
// merges.txt (byte-level BPE), vocab.txt (WordPiece) or sentencepiece.bpe.model (Unigram), with tokenizer_config.json,
// special_tokens_map.json and added_tokens.json beside them.
//
//   TokenizerDefinition definition = read_tokenizer_files("layoutlmv3-base");
//   write_tokenizer_files(definition, "output/checkpoint-100");
//
// Files are read as `transformers` 5.17 reads them, which is not always what they seem to say. For LayoutLMv3Tokenizer,
// add_prefix_space comes from tokenizer_config.json, else it is true, whatever the pre_tokenizer section holds; other
// byte-level classes always put a space in front of words, and RoBERTa's takes none without it. For BertTokenizer,
// do_lower_case, strip_accents and tokenize_chinese_chars come from there, else they have that class's defaults,
// whatever the normalizer section holds; a warning says where the two differ. XLMRobertaTokenizer and
// LayoutXLMTokenizer take tokenizer.json's vocabulary (the former its character map too) and fix the rest. Only if
// tokenizer_config.json names PreTrainedTokenizerFast or TokenizersBackend does tokenizer.json decide. LlamaTokenizer
// takes tokenizer.json's vocabulary of characters and sets a space in front as add_prefix_space and legacy say. Padding
// and truncation sections are ignored; a special token that no file lists as an added token is matched without
// swallowing white space. Where no file names a class, the model's type in config.json does, but llama has none, so
// its tokenizer.json decides.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/tokenizer_bpe.h"
#include "data/tokenizer_normalize.h"
#include "data/tokenizer_split.h"
#include "formats/checksums.h"

namespace plimsoll {

// A token that is looked for in the text itself, before it is cut into pieces.
struct AddedToken {
  std::int32_t id = kNoToken;
  std::string content{};
  bool lstrip = false;      // swallows white space before it
  bool rstrip = false;      // swallows white space after it
  bool normalized = false;  // matched in the second pass
  bool special = false;     // left out of decoded text
  bool outside = false;     // the model's own vocabulary lacks it
};

struct SpecialTokens {
  std::int32_t bos = kNoToken;   // <s> or [CLS], in front of a page
  std::int32_t pad = kNoToken;   // <pad> or [PAD]
  std::int32_t eos = kNoToken;   // </s> or [SEP], after a page
  std::int32_t unk = kNoToken;   // <unk> or [UNK]; may be kNoToken: bytes are never unknown
  std::int32_t mask = kNoToken;  // <mask> or [MASK]; may be kNoToken
  // eos_token, the end of a text that a decoder learns to write; kNoToken for other models.
  std::int32_t end_of_text = kNoToken;
  bool of_decoder = false;  // there are no tokens for classes and separators
};

struct TokenizerFile {
  std::string name{};     // without its folder
  std::string content{};  // byte for byte
};

// The rules of BPE that merges characters, like SentencePiece's (Llama 2): spaces are "▁", and a character that the
// vocabulary lacks is spelled in the tokens of its bytes ("<0x0A>"), all of which exist.
struct CharacterRules {
  // Says where a space is put in front of text that begins with none.
  enum class Prefix : std::uint8_t {
    kAlways,  // also after an added token
    kFirst,   // at the text's beginning
    kNever
  };
  Prefix prefix = Prefix::kFirst;
  bool by_normalizer =
      false;               // it is set everywhere, even in front of a space, before some added tokens are looked for
  bool from_file = false;  // tokenizer.json decides these, not a class of `transformers`
};

// The options of byte-level BPE, whose tokens are in the alphabet of bytes_to_alphabet, and each byte has one; or of
// characters.
struct BpeOptions {
  std::vector<BpeMerge> merges{};  // best first
  std::optional<CharacterRules> characters{};
  bool add_prefix_space = true;  // in front of each word
  bool prefixes_texts = true;    // and of a whole text
  SplitRules split{};
  bool composes = false;        // text is normalised to NFC before it is split
  bool ignores_merges = false;  // a piece that is a token is that token, whatever merges would make of it (Llama 3)
  bool takes_boxes = true;  // the class of `transformers` that is named in a new tokenizer_config.json asks for boxes
};

struct WordPieceOptions {
  std::int32_t unknown = kNoToken;       // the token of a piece that no tokens cover
  std::string continuing_prefix = "##";  // in front of tokens that do not begin a piece
  std::size_t max_word_chars = 100;      // longer pieces are unknown
  bool from_file = false;                // tokenizer.json decides these, not a class of `transformers`
  BertNormalization normalization{};
};

struct UnigramOptions {
  std::vector<double> scores{};     // by id, of the vocabulary without added tokens
  std::int32_t unknown = kNoToken;  // the token of characters that no token covers
  std::vector<NormalizerStep> normalization{};
  bool split_white_space = true;       // text is cut at white space, which is lost
  std::string replacement = "\u2581";  // stands for a space, and in front of each word
  bool prepend = true;                 // it is set in front of a word that has none there
  bool split = true;                   // words are cut before each
  std::string class_name{};            // of `transformers`, whose rules these are
};

struct TokenizerDefinition {
  std::vector<std::string> tokens{};  // by id; empty where an id is free
  std::variant<BpeOptions, WordPieceOptions, UnigramOptions> model{};
  std::vector<AddedToken> added{};
  SpecialTokens special{};
  // The boxes of special.bos and special.eos, x0, y0, x1, y1; nothing if neither a file nor the class says them.
  std::optional<std::array<std::int32_t, 4>> bos_box{}, eos_box{};
  std::vector<TokenizerFile> files{};  // as read; empty if the tokenizer came from no files
};

// Returns the token's text as the vocabulary spells it; nothing for kNoToken.
std::string_view token_text(const TokenizerDefinition& definition, std::int32_t id);

// Spells bytes in the byte-level alphabet: each byte is one printable character (space is Ġ, newline Ċ), so that tokens
// can stand in JSON. 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves, the others for U+0100 onwards in order.
std::string bytes_to_alphabet(std::string_view bytes);
// The inverse. Text with a character outside the alphabet (an added token's) is returned unchanged.
std::string alphabet_to_bytes(std::string_view text);

// `path` is a directory or a tokenizer.json. Throws DataError with file, what was found and what to do.
TokenizerDefinition read_tokenizer_files(const std::filesystem::path& path);

// Says what is tokenised: words, each with a space in front, or running texts, to which nothing is added. Files that
// are made here say so to `transformers`; they treat words as before.
enum class TokenizerUse : std::uint8_t { kWords, kTexts };

// Returns the files to write for this tokenizer: those it was read from, or else a tokenizer.json made here; if there
// is no tokenizer_config.json, one is added that makes `transformers` choose the class that it was read for.
std::vector<TokenizerFile> tokenizer_files(const TokenizerDefinition& definition,
                                           TokenizerUse use = TokenizerUse::kWords);
FileSums write_tokenizer_files(const TokenizerDefinition& definition, const std::filesystem::path& directory,
                               TokenizerUse use = TokenizerUse::kWords);

}  // namespace plimsoll
