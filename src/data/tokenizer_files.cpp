#include "data/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/tokenizer_split.h"

namespace plimsoll {
namespace {

using ordered_json = nlohmann::ordered_json;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// Maps each byte to its code point in the byte-level alphabet: at most 0x143, so one or two bytes in UTF-8.
constexpr std::array<char32_t, 256> kAlphabet = [] {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[static_cast<std::size_t>(byte)] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}();
constexpr std::size_t kAlphabetEnd = 0x144;

constexpr std::array<std::int16_t, kAlphabetEnd> kByteOf = [] {
  std::array<std::int16_t, kAlphabetEnd> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

// Only byte-level BPE is ever written without having been read: the embedded vocabulary is of that kind.
std::string make_tokenizer_json(const TokenizerDefinition& definition, TokenizerUse use) {
  const BpeOptions& options = std::get<BpeOptions>(definition.model);
  const bool prefixes = options.add_prefix_space && use == TokenizerUse::kWords;
  const SpecialTokens& special = definition.special;
  ordered_json added = ordered_json::array();
  for (const AddedToken& token : definition.added) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  ordered_json vocabulary = ordered_json::object();
  for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
    // push_back is used instead of [], because ordered_json searches from the front on every [], and each token is new.
    if (!definition.tokens[id].empty()) {
      vocabulary.get_ref<ordered_json::object_t&>().push_back({definition.tokens[id], id});
    }
  }
  ordered_json merges = ordered_json::array();
  for (const BpeMerge& merge : options.merges) {
    merges.push_back({token_text(definition, merge.left), token_text(definition, merge.right)});
  }
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", prefixes}, {"trim_offsets", true}, {"use_regex", true}};
  const ordered_json file = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", added},
                             {"normalizer", nullptr},
                             {"pre_tokenizer", byte_level},
                             {"post_processor",
                              {{"type", "RobertaProcessing"},
                               {"sep", ordered_json::array({token_text(definition, special.eos), special.eos})},
                               {"cls", ordered_json::array({token_text(definition, special.bos), special.bos})},
                               {"trim_offsets", true},
                               {"add_prefix_space", prefixes}}},
                             {"decoder", byte_level},
                             {"model",
                              {{"type", "BPE"},
                               {"dropout", nullptr},
                               {"unk_token", nullptr},
                               {"continuing_subword_prefix", ""},
                               {"end_of_word_suffix", ""},
                               {"fuse_unk", false},
                               {"byte_fallback", false},
                               {"ignore_merges", false},
                               {"vocab", std::move(vocabulary)},
                               {"merges", std::move(merges)}}}};
  return file.dump(1) + "\n";
}

// Makes a decoder's tokenizer_config.json: tokenizer.json says how text is cut, and this says which tokens are special.
// Padding with a token of text is our own choice.
ordered_json decoder_config(const TokenizerDefinition& definition) {
  const SpecialTokens& special = definition.special;
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto name = [&](const char* role, std::int32_t id) {
    const auto is_it = [&](const AddedToken& token) { return token.id == id; };
    if (std::ranges::any_of(definition.added, is_it)) config[role] = token_text(definition, id);
  };
  name("bos_token", special.bos);
  name("eos_token", special.end_of_text);
  name("pad_token", special.pad);
  return config;
}

ordered_json bpe_config(const TokenizerDefinition& definition, const BpeOptions& options, TokenizerUse use) {
  const SpecialTokens& special = definition.special;
  if (options.characters) {
    return {{"bos_token", token_text(definition, special.bos)},
            {"eos_token", token_text(definition, special.end_of_text)},
            {"tokenizer_class", options.characters->from_file ? "PreTrainedTokenizerFast" : "LlamaTokenizer"}};
  }
  if (special.of_decoder) return decoder_config(definition);
  ordered_json config;
  // Without the key this class of `transformers` adds no space.
  if (use == TokenizerUse::kWords || options.takes_boxes) config["add_prefix_space"] = options.add_prefix_space;
  config.update(ordered_json{{"bos_token", token_text(definition, special.bos)},
                             {"cls_token", token_text(definition, special.bos)},
                             {"eos_token", token_text(definition, special.eos)},
                             {"errors", "replace"},
                             {"model_max_length", 512},
                             {"pad_token", token_text(definition, special.pad)},
                             {"sep_token", token_text(definition, special.eos)},
                             {"tokenizer_class", options.takes_boxes ? "LayoutLMv3Tokenizer" : "RobertaTokenizer"}});
  if (!options.takes_boxes) return config;
  for (const char* key : {"cls_token_box", "pad_token_box", "sep_token_box"}) config[key] = {0, 0, 0, 0};
  config["only_label_first_subword"] = true;
  config["pad_token_label"] = -100;
  config["processor_class"] = "LayoutLMv3Processor";
  return config;
}

ordered_json word_piece_config(const TokenizerDefinition& definition, const WordPieceOptions& options) {
  const SpecialTokens& special = definition.special;
  const BertNormalization& normalization = options.normalization;
  return {{"cls_token", token_text(definition, special.bos)},
          {"do_lower_case", normalization.lowercase},
          {"model_max_length", 512},
          {"pad_token", token_text(definition, special.pad)},
          {"sep_token", token_text(definition, special.eos)},
          {"strip_accents", normalization.strip_accents},
          {"tokenize_chinese_chars", normalization.handle_chinese_chars},
          {"tokenizer_class", options.from_file ? "PreTrainedTokenizerFast" : "BertTokenizer"}};
}

ordered_json unigram_config(const TokenizerDefinition& definition, const UnigramOptions& options) {
  const SpecialTokens& special = definition.special;
  return {{"add_prefix_space", options.prepend},
          {"cls_token", token_text(definition, special.bos)},
          {"model_max_length", 512},
          {"pad_token", token_text(definition, special.pad)},
          {"sep_token", token_text(definition, special.eos)},
          {"tokenizer_class", options.class_name}};
}

ordered_json config_of(const TokenizerDefinition& definition, TokenizerUse use) {
  if (const auto* options = std::get_if<WordPieceOptions>(&definition.model)) {
    return word_piece_config(definition, *options);
  }
  if (const auto* options = std::get_if<UnigramOptions>(&definition.model)) return unigram_config(definition, *options);
  return bpe_config(definition, std::get<BpeOptions>(definition.model), use);
}

std::string make_tokenizer_config(const TokenizerDefinition& definition, TokenizerUse use) {
  const SpecialTokens& special = definition.special;
  ordered_json config = config_of(definition, use);
  for (const char* role : {"bos_token", "cls_token", "eos_token", "sep_token"}) {
    if (config.value(role, "none").empty()) config.erase(role);  // there is none
  }
  if (special.unk != kNoToken) config["unk_token"] = token_text(definition, special.unk);
  if (special.mask != kNoToken) config["mask_token"] = token_text(definition, special.mask);
  return config.dump(2) + "\n";
}

}  // namespace

std::string_view token_text(const TokenizerDefinition& definition, std::int32_t id) {
  return id == kNoToken ? std::string_view{} : std::string_view(definition.tokens[static_cast<std::size_t>(id)]);
}

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const char32_t code_point = kAlphabet[static_cast<unsigned char>(byte)];
    if (code_point < 0x80) {
      text += static_cast<char>(code_point);
    } else {
      text += static_cast<char>(0xC0 | code_point >> 6);
      text += static_cast<char>(0x80 | (code_point & 0x3F));
    }
  }
  return text;
}

std::string alphabet_to_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t position = 0; position < text.size();) {
    const DecodedChar decoded = decode_utf8(text, position);
    if (decoded.code_point >= kAlphabetEnd || kByteOf[decoded.code_point] < 0) return std::string(text);
    bytes += static_cast<char>(kByteOf[decoded.code_point]);
    position += decoded.length;
  }
  return bytes;
}

std::vector<TokenizerFile> tokenizer_files(const TokenizerDefinition& definition, TokenizerUse use) {
  std::vector<TokenizerFile> files = definition.files;
  if (files.empty()) files.push_back({"tokenizer.json", make_tokenizer_json(definition, use)});
  const bool has_config = std::any_of(files.begin(), files.end(),
                                      [](const TokenizerFile& file) { return file.name == "tokenizer_config.json"; });
  if (!has_config) files.push_back({"tokenizer_config.json", make_tokenizer_config(definition, use)});
  return files;
}

FileSums write_tokenizer_files(const TokenizerDefinition& definition, const std::filesystem::path& directory,
                               TokenizerUse use) {
  FileSums sums;
  for (const TokenizerFile& file : tokenizer_files(definition, use)) {
    sums[file.name] = write_text_file(directory / file.name, file.content);
  }
  return sums;
}

}  // namespace plimsoll
