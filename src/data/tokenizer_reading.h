// The readers of tokenizer files share the definition as it grows, its vocabulary, and refusals that name the file.
// read_tokenizer_files (tokenizer_files.h) goes through them in order; each kind of model has a reader.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "data/tokenizer_files.h"

namespace plimsoll {

inline constexpr const char* kOwnTokenizer =
    "use the tokenizer files that the model was trained with (those of LayoutLMv3, RoBERTa, BERT, LayoutLM, "
    "XLM-RoBERTa, LayoutXLM, Llama, Mistral, Qwen and SmolLM are supported); presets have their own, without --tokenizer";
inline constexpr const char* kDownloadAgain = "copy or download the model's tokenizer files again";

class TokenizerReading {
 public:
  using json = nlohmann::json;

  [[noreturn]] void refuse(std::string what, std::string found, std::string allowed,
                           std::string remedy = kDownloadAgain) const;
  // Refuses an option that is set although we do not compute it.
  void must_be_unset(const json& section, const char* name) const;

  // Keeps the file for writing it back, and returns its text; returns nothing if there is no such file.
  std::optional<std::string_view> take_file(const std::filesystem::path& path, std::string name);
  json parse(std::string_view text) const;

  // Announces how many tokens will be put; ids are checked against this number.
  void expect_tokens(std::size_t count);
  void put(std::int32_t id, const std::string& token);
  // Returns kNoToken if it is not in the vocabulary.
  std::int32_t find(std::string_view token) const;
  std::size_t listed() const { return listed_; }
  std::int32_t small_id(const json& value) const;
  // Puts the tokens of {"token": id, ...}.
  void put_vocabulary(const json& vocabulary);

  void add_token(AddedToken token);
  bool is_added(const std::string& content) const { return added_.contains(content); }
  std::size_t added_count() const { return added_.size(); }
  void forget_added();

  std::string where;  // the file being read
  std::string part;   // the section of tokenizer.json that is being read
  TokenizerDefinition definition;
  std::optional<CharacterRules> characters_of_file{};  // what tokenizer.json says, in case it decides

 private:
  std::unordered_map<std::string, std::int32_t> id_of_;
  std::unordered_set<std::string> added_;  // contents of definition.added
  std::size_t listed_ = 0;                 // tokens of the vocabulary
};

// The rules of a class of `transformers` apply, which tokenizer_config.json or config.json names (here without "Fast");
// the name is empty if neither does. With from_file no class changes what tokenizer.json says.
struct TokenizerClass {
  std::string name{};
  std::string model_type{};  // of config.json
  bool from_file = false;
};

// Returns the type of a section of tokenizer.json; nothing if it is null.
std::string section_type(const nlohmann::json& section);

// tokenizer_read_bpe.cpp reads byte-level BPE. `file` is the whole of tokenizer.json.
void read_bpe(TokenizerReading& reading, const nlohmann::json& file);
void read_bpe_merges(TokenizerReading& reading, std::string_view merges_text);
void read_bpe_config(TokenizerReading& reading, const nlohmann::json& config, const TokenizerClass& rules);
// Refuses a vocabulary that could not encode every text.
void check_bpe(const TokenizerReading& reading);

// tokenizer_read_wordpiece.cpp reads WordPiece.
void read_word_piece(TokenizerReading& reading, const nlohmann::json& file);
void read_word_piece_vocabulary(TokenizerReading& reading, std::string_view lines);
// Applies the class's reading of the configuration.
void read_word_piece_config(TokenizerReading& reading, const nlohmann::json& config, const TokenizerClass& rules);
// Refuses a vocabulary without a token for unknown pieces, once the special tokens are known.
void finish_word_piece(TokenizerReading& reading);

// tokenizer_read_unigram.cpp reads Unigram. A model file of SentencePiece is read with the configuration, because this
// names its first tokens.
void read_unigram(TokenizerReading& reading, const nlohmann::json& file);
void read_unigram_config(TokenizerReading& reading, const nlohmann::json& config, const TokenizerClass& rules);
// Refuses a vocabulary without a token for unknown characters.
void check_unigram(const TokenizerReading& reading);

// tokenizer_read_added.cpp reads added and special tokens.
// Holds what the post-processor puts around a text.
struct Around {
  bool known = false;                                      // a tokenizer.json says it
  std::string before{}, after{};                           // empty: no token
  std::int32_t before_id = kNoToken, after_id = kNoToken;  // kNoToken: the ids are those of the texts
};
Around read_post_processor(const TokenizerReading& reading, const nlohmann::json& processor);
void read_added_tokens(TokenizerReading& reading, const nlohmann::json& tokens);
// The configuration's own list of added tokens replaces that of tokenizer.json.
void read_listed_tokens(TokenizerReading& reading, const nlohmann::json& config);
void find_special_tokens(TokenizerReading& reading, const nlohmann::json& config, const Around& around,
                         const TokenizerClass& rules);

}  // namespace plimsoll
