// Reads Unigram from tokenizer.json or sentencepiece.bpe.model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "data/tokenizer_charsmap.h"
#include "data/tokenizer_reading.h"
#include "data/tokenizer_sentencepiece.h"
#include "formats/base64.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using StepKind = NormalizerStep::Kind;

// In XLM-RoBERTa's numbering four tokens stand before the pieces.
constexpr std::int32_t kFairseqUnknown = 3;
constexpr std::size_t kPiecesLeftOut = 3;  // <unk>, <s> and </s> of the model file

UnigramOptions& unigram_options(TokenizerReading& reading) { return std::get<UnigramOptions>(reading.definition.model); }

[[noreturn]] void refuse_step(const TokenizerReading& reading, const json& step) {
  reading.refuse("the tokenizer normalises text in another way", step.dump().substr(0, 200),
                 "Precompiled, Strip and Replace beside Unigram", kOwnTokenizer);
}

void check_charsmap(const TokenizerReading& reading, const std::string& bytes) {
  if (CharsMap::parse(bytes)) return;
  reading.refuse("the character map is damaged", counted(bytes.size(), "byte"),
                 "a precompiled_charsmap of SentencePiece");
}

NormalizerStep read_step(const TokenizerReading& reading, const json& step) {
  const std::string type = section_type(step);
  if (type == "Precompiled") {
    const std::optional<std::string> bytes = decode_base64(step.at("precompiled_charsmap").get<std::string>());
    if (!bytes) reading.refuse("the character map is not base64", "precompiled_charsmap", "base64");
    check_charsmap(reading, *bytes);
    return {.kind = StepKind::kCharsMap, .text = *bytes};
  }
  if (type == "Strip") {
    return {.kind = StepKind::kStrip, .left = step.value("strip_left", false), .right = step.value("strip_right", false)};
  }
  if (type != "Replace") refuse_step(reading, step);
  const json& pattern = step.at("pattern");
  const std::string text = step.at("content");
  if (pattern.contains("Regex") && pattern["Regex"] == " {2,}") return {.kind = StepKind::kReplaceSpaces, .text = text};
  if (!pattern.contains("String") || pattern["String"] == "") refuse_step(reading, step);
  return {.kind = StepKind::kReplace, .text = text, .pattern = pattern["String"]};
}

std::vector<NormalizerStep> read_unigram_normalizer(const TokenizerReading& reading, const json& normalizer) {
  if (normalizer.is_null()) return {};
  std::vector<json> sections = {normalizer};
  if (section_type(normalizer) == "Sequence") sections = normalizer.at("normalizers").get<std::vector<json>>();
  std::vector<NormalizerStep> steps;
  for (const json& section : sections) {
    steps.push_back(read_step(reading, section));
    const auto is_map = [](const NormalizerStep& step) { return step.kind == StepKind::kCharsMap; };
    if (std::ranges::count_if(steps, is_map) > 1) refuse_step(reading, "a second Precompiled");
  }
  return steps;
}

void read_pre_tokenizer(const TokenizerReading& reading, const json& section, UnigramOptions& options) {
  std::vector<json> parts = {section};
  if (section_type(section) == "Sequence") parts = section.at("pretokenizers").get<std::vector<json>>();
  options.split_white_space = parts.size() == 2 && section_type(parts[0]) == "WhitespaceSplit";
  const auto refuse = [&](const std::string& allowed) {
    reading.refuse("the tokenizer splits text with another pattern",
                   section.is_null() ? "no pre_tokenizer" : section.dump().substr(0, 200), allowed, kOwnTokenizer);
  };
  if (parts.empty() || section_type(parts.back()) != "Metaspace" ||
      parts.size() != (options.split_white_space ? 2U : 1U)) {
    refuse("pre_tokenizer Metaspace, or WhitespaceSplit and Metaspace, beside Unigram");
  }
  const json& metaspace = parts.back();
  options.replacement = metaspace.value("replacement", "\u2581");
  if (options.replacement.empty()) refuse("a replacement of one character");
  // Old files have add_prefix_space instead of prepend_scheme.
  const std::string scheme =
      metaspace.value("prepend_scheme", metaspace.value("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "never") refuse("prepend_scheme \"always\" or \"never\"");
  options.prepend = scheme == "always";
  options.split = metaspace.value("split", true);
}

// Takes the vocabulary's next token.
void add_piece(TokenizerReading& reading, const std::string& text, double score) {
  std::vector<double>& scores = unigram_options(reading).scores;
  if (!text.empty()) reading.put(static_cast<std::int32_t>(scores.size()), text);
  scores.push_back(score);
}

// Applies the rules of the class of `transformers` to the vocabulary, whatever else the file says.
void apply_class(TokenizerReading& reading, const json& config) {
  UnigramOptions& options = unigram_options(reading);
  options.unknown = kFairseqUnknown;
  options.replacement = "\u2581";
  options.split = true;
  options.prepend = config.value("add_prefix_space", true);
  if (options.class_name == "LayoutXLMTokenizer") {
    options.split_white_space = false;
    options.normalization = {{.kind = StepKind::kStrip, .right = true}, {.kind = StepKind::kReplaceSpaces, .text = "\u2581"}};
  } else {
    options.split_white_space = true;
    std::erase_if(options.normalization, [](const NormalizerStep& step) { return step.kind != StepKind::kCharsMap; });
  }
}

// Numbers the pieces as the classes do: <s>, <pad>, </s>, <unk>, the file's pieces from the fourth on, <mask>.
void read_pieces(TokenizerReading& reading, const json& config) {
  const SentencePieceModel model =
      read_sentence_pieces(reading.definition.files.front().content, reading.definition.files.front().name);
  const auto token = [&](const char* name, const char* usual) -> std::string {
    const auto entry = config.find(name);
    if (entry == config.end() || entry->is_null()) return usual;
    return entry->is_object() ? entry->at("content") : *entry;
  };
  reading.expect_tokens(model.pieces.size() + 2);
  add_piece(reading, token("bos_token", "<s>"), 0.0);
  add_piece(reading, token("pad_token", "<pad>"), 0.0);
  add_piece(reading, token("eos_token", "</s>"), 0.0);
  add_piece(reading, token("unk_token", "<unk>"), 0.0);
  std::vector<AddedToken> added;
  for (std::size_t i = kPiecesLeftOut; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    const bool control = piece.kind == SentencePiece::Kind::kControl;
    if (control || piece.kind == SentencePiece::Kind::kUserDefined) {
      added.push_back({.id = static_cast<std::int32_t>(unigram_options(reading).scores.size()),
                       .content = piece.text,
                       .special = control});
    }
    add_piece(reading, piece.text, piece.score);
  }
  add_piece(reading, token("mask_token", "<mask>"), 0.0);
  if (!model.charsmap.empty()) {
    check_charsmap(reading, model.charsmap);
    unigram_options(reading).normalization = {{.kind = StepKind::kCharsMap, .text = model.charsmap}};
  }
  // The classes look for the model's own symbols in text, unless the configuration lists tokens of this kind.
  if (config.contains("additional_special_tokens") || config.contains("extra_special_tokens")) return;
  for (AddedToken& one : added) {
    if (!one.content.empty() && !reading.is_added(one.content)) reading.add_token(std::move(one));
  }
}

}  // namespace

void read_unigram(TokenizerReading& reading, const json& file) {
  UnigramOptions& options = reading.definition.model.emplace<UnigramOptions>();
  const json& model = file.at("model");
  reading.must_be_unset(model, "byte_fallback");
  const json& vocabulary = model.at("vocab");
  if (!vocabulary.is_array() || vocabulary.empty()) {
    reading.refuse("the vocabulary is not a list of tokens with scores", vocabulary.dump().substr(0, 40),
                   R"("vocab": [["<s>", 0.0], …])");
  }
  reading.expect_tokens(vocabulary.size());
  for (const json& entry : vocabulary) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      reading.refuse("a token of the vocabulary has no score", entry.dump().substr(0, 200), R"(["token", score])");
    }
    add_piece(reading, entry[0], entry[1]);
  }
  const json unknown = model.value("unk_id", json());
  options.unknown = unknown.is_null() ? kNoToken : reading.small_id(unknown);
  options.normalization = read_unigram_normalizer(reading, file.value("normalizer", json()));
  read_pre_tokenizer(reading, file.value("pre_tokenizer", json()), options);
}

void read_unigram_config(TokenizerReading& reading, const json& config, const TokenizerClass& rules) {
  UnigramOptions& options = unigram_options(reading);
  const bool from_json = reading.definition.files.front().name == "tokenizer.json";
  if (from_json && rules.from_file) {
    options.class_name = "PreTrainedTokenizerFast";
    return;
  }
  const bool layout = rules.model_type.starts_with("layout");
  options.class_name = !rules.name.empty() ? rules.name : layout ? "LayoutXLMTokenizer" : "XLMRobertaTokenizer";
  if (options.class_name != "XLMRobertaTokenizer" && options.class_name != "LayoutXLMTokenizer") {
    reading.refuse("the tokenizer is of a class that is not supported",
                   fmt::format("\"tokenizer_class\": \"{}\"", rules.name),
                   "XLMRobertaTokenizer or LayoutXLMTokenizer beside Unigram",
                   "if tokenizer.json says all that the class does, set tokenizer_class to PreTrainedTokenizerFast");
  }
  if (!from_json) read_pieces(reading, config);
  apply_class(reading, config);
}

void check_unigram(const TokenizerReading& reading) {
  const UnigramOptions& options = std::get<UnigramOptions>(reading.definition.model);
  if (options.unknown == kNoToken || static_cast<std::size_t>(options.unknown) >= options.scores.size()) {
    reading.refuse("the vocabulary lacks the token of unknown characters", fmt::format("unk_id {}", options.unknown),
                   fmt::format("an id below {}", options.scores.size()), kOwnTokenizer);
  }
}

}  // namespace plimsoll
