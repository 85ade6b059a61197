// Reads WordPiece from tokenizer.json or vocab.txt.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "data/tokenizer_reading.h"
#include "data/tokenizer_split.h"
#include "data/tokenizer_unicode.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// These classes of `transformers` make the same tokenizer as BertTokenizer.
constexpr std::array<std::string_view, 10> kBertClasses = {
    "BertTokenizer",       "LayoutLMTokenizer",    "LayoutLMv2Tokenizer", "DistilBertTokenizer", "ElectraTokenizer",
    "MobileBertTokenizer", "SqueezeBertTokenizer", "ConvBertTokenizer",   "LxmertTokenizer",     "PreTrainedTokenizer"};

WordPieceOptions& wordpiece_options(TokenizerReading& reading) { return std::get<WordPieceOptions>(reading.definition.model); }

BertNormalization read_bert_normalizer(const TokenizerReading& reading, json normalizer) {
  if (section_type(normalizer) == "Sequence" && normalizer.at("normalizers").size() == 1) {
    normalizer = json(normalizer.at("normalizers").at(0));
  }
  if (section_type(normalizer) != "BertNormalizer") {
    reading.refuse("the tokenizer normalises text in another way",
                   normalizer.is_null() ? "no normalizer" : normalizer.dump().substr(0, 200),
                   "normalizer BertNormalizer beside WordPiece", kOwnTokenizer);
  }
  BertNormalization found;
  found.clean_text = normalizer.value("clean_text", true);
  found.handle_chinese_chars = normalizer.value("handle_chinese_chars", true);
  found.lowercase = normalizer.value("lowercase", true);
  const auto accents = normalizer.find("strip_accents");
  found.strip_accents = accents == normalizer.end() || accents->is_null() ? found.lowercase : accents->get<bool>();
  return found;
}

// Removes white space of every kind from a line's end, as the library does.
std::string_view trim_end(std::string_view line) {
  while (!line.empty()) {
    std::size_t begin = line.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(line[begin]) & 0xC0) == 0x80) --begin;
    if ((UnicodeTables::instance().flags(decode_utf8(line, begin).code_point) & kWhiteSpace) == 0) break;
    line = line.substr(0, begin);
  }
  return line;
}

std::string describe(const WordPieceOptions& options) {
  const BertNormalization& n = options.normalization;
  return fmt::format(
      "clean_text {}, handle_chinese_chars {}, strip_accents {}, lowercase {}, prefix \"{}\", at most {} characters a "
      "word",
      n.clean_text, n.handle_chinese_chars, n.strip_accents, n.lowercase, options.continuing_prefix,
      options.max_word_chars);
}

}  // namespace

void read_word_piece(TokenizerReading& reading, const json& file) {
  WordPieceOptions& options = reading.definition.model.emplace<WordPieceOptions>();
  const json& model = file.at("model");
  reading.put_vocabulary(model.at("vocab"));
  options.continuing_prefix = model.value("continuing_subword_prefix", "##");
  const json longest = model.value("max_input_chars_per_word", json(100));
  if (!longest.is_number_unsigned()) {
    reading.refuse("a limit is not a whole number", "\"max_input_chars_per_word\": " + longest.dump(),
                   "a whole number");
  }
  options.max_word_chars = longest;
  options.normalization = read_bert_normalizer(reading, file.value("normalizer", json()));
  json pre_tokenizer = file.value("pre_tokenizer", json());
  if (section_type(pre_tokenizer) == "Sequence" && pre_tokenizer.at("pretokenizers").size() == 1) {
    pre_tokenizer = json(pre_tokenizer.at("pretokenizers").at(0));
  }
  if (section_type(pre_tokenizer) != "BertPreTokenizer") {
    reading.refuse("the tokenizer splits text with another pattern",
                   pre_tokenizer.is_null() ? "no pre_tokenizer" : pre_tokenizer.dump().substr(0, 200),
                   "pre_tokenizer BertPreTokenizer beside WordPiece", kOwnTokenizer);
  }
  options.unknown = reading.find(model.value("unk_token", "[UNK]"));
}

void read_word_piece_vocabulary(TokenizerReading& reading, std::string_view lines) {
  reading.definition.model.emplace<WordPieceOptions>();
  if (const auto position = find_invalid_utf8(lines)) {
    reading.refuse("the vocabulary is not UTF-8",
                   fmt::format("0x{:02X} at byte {}", static_cast<unsigned char>(lines[*position]), *position),
                   "UTF-8, a token a line");
  }
  std::vector<std::string> tokens;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    tokens.emplace_back(trim_end(line));
  }
  // Among equal lines the last one's number is the token's id; the others' numbers have no token.
  std::unordered_set<std::string_view> later;
  for (std::size_t id = tokens.size(); id-- > 0;) {
    if (!later.insert(tokens[id]).second) tokens[id].clear();
  }
  reading.expect_tokens(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].empty()) reading.put(static_cast<std::int32_t>(id), tokens[id]);
  }
}

void read_word_piece_config(TokenizerReading& reading, const json& config, const TokenizerClass& rules) {
  WordPieceOptions& options = wordpiece_options(reading);
  const bool from_json = reading.definition.files.front().name == "tokenizer.json";
  options.from_file = from_json && rules.from_file;
  if (!options.from_file) {
    if (!rules.name.empty() && std::ranges::find(kBertClasses, rules.name) == kBertClasses.end()) {
      reading.refuse("the tokenizer is of a class that is not supported",
                     fmt::format("\"tokenizer_class\": \"{}\"", rules.name),
                     "BertTokenizer, or another that makes the same tokenizer",
                     "if tokenizer.json says all that the class does, set tokenizer_class to PreTrainedTokenizerFast");
    }
    WordPieceOptions by_class;
    by_class.normalization.lowercase = config.value("do_lower_case", true);
    by_class.normalization.handle_chinese_chars = config.value("tokenize_chinese_chars", true);
    const json accents = config.value("strip_accents", json());
    by_class.normalization.strip_accents = accents.is_null() ? by_class.normalization.lowercase : accents.get<bool>();
    if (from_json && describe(by_class) != describe(options)) {
      log_warning(fmt::format(
          "{}: BertTokenizer goes by tokenizer_config.json and its defaults, and so do we, not by tokenizer.json: {}; "
          "tokenizer.json says: {}. To go by tokenizer.json, set \"tokenizer_class\" to \"PreTrainedTokenizerFast\"",
          reading.where, describe(by_class), describe(options)));
    }
    options = by_class;
  }
}

void finish_word_piece(TokenizerReading& reading) {
  WordPieceOptions& options = wordpiece_options(reading);
  if (!options.from_file) options.unknown = reading.definition.special.unk;
  if (options.unknown == kNoToken) {
    reading.refuse("the vocabulary lacks the token of unknown words", "no such token", "unk_token as \"[UNK]\"",
                   "set it in tokenizer_config.json, or use the tokenizer of the model");
  }
}

}  // namespace plimsoll
