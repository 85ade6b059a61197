// Reads byte-level BPE from tokenizer.json, or from vocab.json and merges.txt.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/counted.h"
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
  for (const char* name :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    reading.must_be_unset(model, name);
  }
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

// The patterns of tiktoken's cl100k_base, as Llama 3 and Qwen have them.
constexpr std::string_view kLlama3Begin = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})",
                           kLlama3End = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Returns nothing if text is split in a way that is not ours.
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
  const std::string pattern = first.at("pattern").at("Regex");
  for (const auto& [digits, most] : {std::pair("", 1), std::pair("{1,3}", 3)}) {
    if (pattern != std::string(kLlama3Begin) + digits + std::string(kLlama3End)) continue;
    return SplitRules{.pattern = SplitRules::Pattern::kLlama3, .most_digits = most};
  }
  return std::nullopt;
}

}  // namespace

void read_bpe(TokenizerReading& reading, const json& file) {
  if (const auto normalizer = file.find("normalizer"); normalizer != file.end() && !normalizer->is_null()) {
    const bool empty = section_type(*normalizer) == "Sequence" && normalizer->at("normalizers").empty();
    std::get<BpeOptions>(reading.definition.model).composes = section_type(*normalizer) == "NFC";
    if (!empty && section_type(*normalizer) != "NFC") {
      reading.refuse("the tokenizer normalises text", section_type(*normalizer), "NFC, or no normalizer beside BPE",
                     kOwnTokenizer);
    }
  }
  read_model(reading, file.at("model"));
  const json pre_tokenizer = file.value("pre_tokenizer", json());
  const std::optional<SplitRules> split = split_rules(pre_tokenizer);
  if (!split) {
    reading.refuse("the tokenizer splits text with another pattern",
                   pre_tokenizer.is_null() ? "no pre_tokenizer" : pre_tokenizer.dump().substr(0, 200),
                   "pre_tokenizer ByteLevel with use_regex, or behind Split by the pattern of Llama 3 or Qwen",
                   kOwnTokenizer);
  }
  std::get<BpeOptions>(reading.definition.model).split = *split;
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

void read_bpe_config(TokenizerReading& reading, const json& config) {
  std::get<BpeOptions>(reading.definition.model).add_prefix_space = config.value("add_prefix_space", true);
}

void check_bpe(const TokenizerReading& reading) {
  // Without merges no token but a single byte is ever made, so a vocabulary of words must have lost them.
  constexpr std::size_t kBytesAndMore = 512;
  if (std::get<BpeOptions>(reading.definition.model).merges.empty() &&
      reading.listed() > kBytesAndMore + reading.added_count()) {
    reading.refuse("the tokenizer has no merges, so most of its tokens could never occur",
                   counted(reading.listed(), "token") + ", no merge",
                   "the merges that the vocabulary was trained with");
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    if (reading.find(bytes_to_alphabet({&character, 1})) != kNoToken) continue;
    reading.refuse("the vocabulary lacks some bytes, so some text would be lost",
                   fmt::format("no token for byte 0x{:02X}", byte), "a token for each of the 256 bytes",
                   "train the tokenizer with the byte-level alphabet as initial alphabet");
  }
}

}  // namespace plimsoll
