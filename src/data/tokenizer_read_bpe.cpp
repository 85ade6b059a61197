// Reads byte-level BPE from tokenizer.json, or from vocab.json and merges.txt; and BPE of characters from
// tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "data/tokenizer_characters.h"
#include "data/tokenizer_reading.h"

namespace plimsoll {
namespace {

using nlohmann::json;

void add_merge(TokenizerReading& reading, std::string_view left, std::string_view right) {
  std::vector<BpeMerge>& merges = std::get<BpeOptions>(reading.definition.model).merges;
  const std::string result = std::string(left).append(right);
  const BpeMerge merge{reading.find(left), reading.find(right), reading.find(result)};
  if (merge.left == kNoToken || merge.right == kNoToken || merge.result == kNoToken) {
    const std::string missing(merge.left == kNoToken    ? left
                              : merge.right == kNoToken ? right
                                                        : std::string_view(result));
    reading.refuse("a merge names a token that the vocabulary lacks",
                   fmt::format("merge {}, token \"{}\"", merges.size() + 1, missing),
                   "merges and vocabulary of one tokenizer", "use both files of the same model");
  }
  merges.push_back(merge);
}

void read_model(TokenizerReading& reading, const json& model) {
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    reading.must_be_unset(model, name);
  }
  std::get<BpeOptions>(reading.definition.model).ignores_merges = model.value("ignore_merges", false);
  reading.put_vocabulary(model.at("vocab"));
  const json& merges = model.at("merges");
  if (!merges.is_array()) {
    reading.refuse("the merges are not a list", fmt::format("{} {}", merges.type_name(), merges.dump().substr(0, 40)),
                   R"("merges": [["Ġ", "a"], …] or ["Ġ a", …])");
  }
  for (const json& merge : merges) {
    if (merge.is_array()) {
      if (merge.size() != 2) reading.refuse("a merge is not a pair", merge.dump(), "two tokens");
      add_merge(reading, merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      const std::string_view line = merge.get_ref<const std::string&>();
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos) {
        reading.refuse("a merge is not a pair", merge.dump(), "two tokens with a space between");
      }
      add_merge(reading, line.substr(0, space), line.substr(space + 1));
    }
  }
}

// The patterns of tiktoken's cl100k_base, as in Llama 3 and Qwen.
constexpr std::string_view kLlama3Begin = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})",
                           kLlama3End = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The parts of the pattern of tiktoken's o200k_base, which gpt-oss has whole, and Mistral's Tekken without
// contractions.
constexpr std::string_view kWordBegin = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])",
                           kWordEnd = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])",
                           kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)",
                           kO200kEnd = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::optional<SplitRules> rules_of_pattern(std::string_view pattern) {
  for (const auto& [digits, most] : {std::pair("", 1), std::pair("{1,3}", 3)}) {
    if (pattern == fmt::format("{}{}{}", kLlama3Begin, digits, kLlama3End))
      return SplitRules{.pattern = SplitRules::Pattern::kLlama3, .most_digits = most};
    for (const bool contracts : {false, true}) {
      const std::string_view ending = contracts ? kContractions : "";
      const std::string words =
          fmt::format("{}*{}+{}|{}+{}*{}", kWordBegin, kWordEnd, ending, kWordBegin, kWordEnd, ending);
      if (pattern != fmt::format("{}|\\p{{N}}{}{}", words, digits, kO200kEnd)) continue;
      return SplitRules{.pattern = SplitRules::Pattern::kO200k, .most_digits = most, .contractions = contracts};
    }
  }
  return std::nullopt;
}

// Returns nothing if text is split in a way that we do not support.
std::optional<SplitRules> split_rules(const json& pre_tokenizer) {
  std::vector<json> parts = {pre_tokenizer};
  if (section_type(pre_tokenizer) == "Sequence") parts = pre_tokenizer.at("pretokenizers").get<std::vector<json>>();
  if (parts.empty() || parts.size() > 2 || section_type(parts.back()) != "ByteLevel") return std::nullopt;
  const bool by_gpt2 = parts.back().value("use_regex", true);
  if (parts.size() == 1) return by_gpt2 ? std::optional(SplitRules{}) : std::nullopt;
  const json& first = parts.front();
  if (section_type(first) == "Digits" && first.value("individual_digits", false) && by_gpt2) {
    return SplitRules{.single_digits = true};
  }
  if (section_type(first) != "Split" || by_gpt2 || first.value("behavior", "") != "Isolated" ||
      first.value("invert", false) || !first.at("pattern").contains("Regex")) {
    return std::nullopt;
  }
  return rules_of_pattern(first.at("pattern").at("Regex").get<std::string>());
}

bool sets_spaces(const json& normalizer) {
  if (section_type(normalizer) != "Sequence") return false;
  const json& steps = normalizer.at("normalizers");
  return steps.size() == 2 && section_type(steps[0]) == "Prepend" && steps[0].value("prepend", "") == kSpaceMark &&
         section_type(steps[1]) == "Replace" && steps[1].value("content", "") == kSpaceMark &&
         steps[1].at("pattern") == json{{"String", " "}};
}

// Returns what the file says about BPE of characters; nothing if we do not support that.
std::optional<CharacterRules> character_rules(const json& file) {
  using Prefix = CharacterRules::Prefix;
  const json normalizer = file.value("normalizer", json()), pre_tokenizer = file.value("pre_tokenizer", json());
  if (pre_tokenizer.is_null() && sets_spaces(normalizer)) {
    return CharacterRules{.prefix = Prefix::kAlways, .by_normalizer = true, .from_file = true};
  }
  if (!normalizer.is_null() || section_type(pre_tokenizer) != "Metaspace" || pre_tokenizer.value("split", true) ||
      pre_tokenizer.value("replacement", std::string(kSpaceMark)) != kSpaceMark) {
    return std::nullopt;
  }
  const std::string scheme = pre_tokenizer.value("prepend_scheme", "always");
  for (const auto& [name, prefix] :
       {std::pair("always", Prefix::kAlways), std::pair("first", Prefix::kFirst), std::pair("never", Prefix::kNever)}) {
    if (scheme == name) return CharacterRules{.prefix = prefix, .from_file = true};
  }
  return std::nullopt;
}

}  // namespace

void read_bpe(TokenizerReading& reading, const json& file) {
  if (file.at("model").value("byte_fallback", false)) {
    read_model(reading, file.at("model"));
    BpeOptions& options = std::get<BpeOptions>(reading.definition.model);
    options.characters.emplace();
    // The configuration decides which of them counts.
    reading.characters_of_file = character_rules(file);
    return;
  }
  if (const auto normalizer = file.find("normalizer"); normalizer != file.end() && !normalizer->is_null()) {
    const bool empty = section_type(*normalizer) == "Sequence" && normalizer->at("normalizers").empty();
    std::get<BpeOptions>(reading.definition.model).composes = section_type(*normalizer) == "NFC";
    if (!empty && section_type(*normalizer) != "NFC") {
      reading.refuse("the tokenizer normalises text", section_type(*normalizer), "with BPE, the normalizer NFC or none",
                     kOwnTokenizer);
    }
  }
  read_model(reading, file.at("model"));
  const json pre_tokenizer = file.value("pre_tokenizer", json());
  const std::optional<SplitRules> split = split_rules(pre_tokenizer);
  if (!split) {
    reading.refuse(
        "the tokenizer splits text with another pattern",
        pre_tokenizer.is_null() ? "no pre_tokenizer" : pre_tokenizer.dump().substr(0, 200),
        "pre_tokenizer ByteLevel with use_regex, or after Split by the pattern of Llama 3, Qwen, o200k or Tekken",
        kOwnTokenizer);
  }
  BpeOptions& options = std::get<BpeOptions>(reading.definition.model);
  options.split = *split;
  const bool alone = section_type(pre_tokenizer) == "ByteLevel";
  options.prefixes_texts =
      (alone ? pre_tokenizer : pre_tokenizer.at("pretokenizers").back()).value("add_prefix_space", true);
}

void read_bpe_merges(TokenizerReading& reading, std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || (line.empty() && text.empty())) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      reading.refuse("a merge is not a pair", fmt::format("line {}: \"{}\"", number, line),
                     "two tokens with a space between");
    }
    add_merge(reading, line.substr(0, space), line.substr(space + 1));
  }
}

void read_bpe_config(TokenizerReading& reading, const json& config, const TokenizerClass& of) {
  using Prefix = CharacterRules::Prefix;
  BpeOptions& options = std::get<BpeOptions>(reading.definition.model);
  const auto flag = [&](const char* name, bool otherwise) {
    const auto entry = config.find(name);
    return entry != config.end() && entry->is_boolean() ? entry->get<bool>() : otherwise;
  };
  // The key does not affect a ByteLevel that follows another step; the classes that split like GPT-2 put no space in
  // front unless the key says so, whatever the file has.
  const bool of_pages = of.name.starts_with("LayoutLMv3") ||
                        (of.name.empty() && (of.model_type == "layoutlmv3" || of.model_type == "lilt"));
  if (options.split == SplitRules{} && !of.from_file) {
    options.prefixes_texts = flag("add_prefix_space", of.name.starts_with("LayoutLMv3"));
  }
  // Elsewhere the key is about texts alone: RoBERTa's class saves it as false, and refuses words unless it is true,
  // which `run_ner.py` asks for.
  options.add_prefix_space = !of_pages || flag("add_prefix_space", true);
  if (!options.characters) return;
  if (!of.from_file && of.name == "LlamaTokenizer") {
    options.characters = {.prefix = !flag("add_prefix_space", true) ? Prefix::kNever
                                    : flag("legacy", false)         ? Prefix::kAlways
                                                                    : Prefix::kFirst};
  } else if (reading.characters_of_file && (of.from_file || of.name.empty())) {
    options.characters = *reading.characters_of_file;
  } else {
    reading.refuse("the tokenizer merges characters in a way that is not Llama 2's",
                   of.name.empty() || of.from_file ? "its normalizer and pre_tokenizer" : "class " + of.name,
                   "LlamaTokenizer, or a normalizer of Prepend and Replace, or a Metaspace that does not split",
                   kOwnTokenizer);
  }
}

void check_bpe(const TokenizerReading& reading) {
  const BpeOptions& options = std::get<BpeOptions>(reading.definition.model);
  if (options.characters && options.ignores_merges) {
    reading.refuse("the tokenizer uses an unsupported option", "\"ignore_merges\": true, and merges of characters",
                   "\"ignore_merges\" with merges of bytes, as in Llama 3", kOwnTokenizer);
  }
  // Without merges no token but a single byte is ever made, so a vocabulary of words must have lost them.
  constexpr std::size_t kBytesAndMore = 512;
  if (std::get<BpeOptions>(reading.definition.model).merges.empty() &&
      reading.listed() > kBytesAndMore + reading.added_count()) {
    reading.refuse("the tokenizer has no merges, so most of its tokens could never occur",
                   counted(reading.listed(), "token") + ", no merge",
                   "the merges that the vocabulary was trained with");
  }
  const bool of_characters = std::get<BpeOptions>(reading.definition.model).characters.has_value();
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const std::string token =
        of_characters ? byte_token(static_cast<unsigned char>(byte)) : bytes_to_alphabet({&character, 1});
    if (reading.find(token) != kNoToken) continue;
    reading.refuse("the vocabulary lacks some bytes, so some text would be lost",
                   fmt::format("no token for byte 0x{:02X}", byte), "a token for each of the 256 bytes",
                   "train the tokenizer with the byte-level alphabet as initial alphabet");
  }
}

}  // namespace plimsoll
