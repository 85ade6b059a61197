// Reads added tokens, and finds the special ones by their roles.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "data/tokenizer_reading.h"

namespace plimsoll {
namespace {

using nlohmann::json;

AddedToken added_token(const TokenizerReading& reading, std::int32_t id, const json& token) {
  if (token.value("single_word", false)) {
    reading.refuse("an added token matches whole words only", token.at("content").get<std::string>(),
                   "\"single_word\": false", "set single_word to false in the tokenizer's files");
  }
  return {.id = id,
          .content = token.at("content"),
          .lstrip = token.value("lstrip", false),
          .rstrip = token.value("rstrip", false),
          .normalized = token.value("normalized", true),
          .special = token.value("special", false)};
}

// Reads a role's token from the config: a string, or an object with flags. A role's token that is not yet an added
// token becomes one (`transformers` matches it in raw text). Returns kNoToken if the vocabulary lacks it.
std::int32_t role(TokenizerReading& reading, const json& config, const char* name, const std::string& fallback,
                  bool lstrip = false) {
  AddedToken token{.content = fallback, .lstrip = lstrip, .special = true};
  if (const auto entry = config.find(name); entry != config.end() && entry->is_string()) {
    token.content = *entry;
  } else if (entry != config.end() && entry->is_object()) {
    token.content = entry->at("content");
    token.lstrip = entry->value("lstrip", false);
    token.rstrip = entry->value("rstrip", false);
    token.normalized = entry->value("normalized", false);
  }
  token.id = reading.find(token.content);
  if (token.id != kNoToken && !reading.is_added(token.content)) reading.add_token(token);
  return token.id;
}

std::int32_t required(TokenizerReading& reading, const json& config, const char* name, const std::string& fallback) {
  const std::int32_t id = role(reading, config, name, fallback);
  if (id == kNoToken) {
    reading.refuse("the vocabulary lacks a special token", fmt::format("no token for {}", name),
                   fmt::format("{} as \"{}\"", name, fallback),
                   "set it in tokenizer_config.json, or use the tokenizer of the model");
  }
  return id;
}

// The classes of `transformers` have these special tokens if no file names them.
struct UsualTokens {
  const char *bos, *eos, *pad, *unk, *mask;
};
constexpr UsualTokens kRobertas = {"<s>", "</s>", "<pad>", "<unk>", "<mask>"};
constexpr UsualTokens kBerts = {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"};

void read_listed_special_tokens(TokenizerReading& reading, const json& config) {
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto list = config.find(name);
    if (list == config.end() || !list->is_array()) continue;
    for (const json& entry : *list) {
      AddedToken token = entry.is_string() ? AddedToken{.content = entry} : added_token(reading, kNoToken, entry);
      if (reading.is_added(token.content)) continue;
      token.special = true;
      token.id = reading.find(token.content);
      if (token.id == kNoToken) token.id = static_cast<std::int32_t>(reading.definition.tokens.size());
      reading.add_token(std::move(token));
    }
  }
}

// The classes of encoders put their tokens around a text, whatever the post-processor says.
bool is_encoders_class(const TokenizerClass& rules) {
  static const std::set<std::string_view> kClasses = {"RobertaTokenizer", "LayoutLMv3Tokenizer", "LongformerTokenizer",
                                                      "BartTokenizer"};
  static const std::set<std::string_view> kModels = {"roberta", "layoutlmv3", "lilt", "longformer", "bart"};
  return kClasses.contains(rules.name) || (rules.name.empty() && kModels.contains(rules.model_type));
}

// A decoder's tokenizer has no token for classes and separators: no file names one, and a text does not lie between
// two. Where neither post-processor nor class are known, its vocabulary lacks the usual ones.
bool is_decoders(const TokenizerReading& reading, const json& config, const Around& around,
                 const TokenizerClass& rules) {
  if (!std::holds_alternative<BpeOptions>(reading.definition.model)) return false;
  const auto names = [&](const char* role) { return config.contains(role) && !config.at(role).is_null(); };
  if (names("cls_token") || names("sep_token") || (!around.before.empty() && !around.after.empty())) return false;
  if (std::get<BpeOptions>(reading.definition.model).characters) return true;
  const bool known = around.known && (rules.from_file || !rules.name.empty() || !rules.model_type.empty());
  return known ? !is_encoders_class(rules) : reading.find(kRobertas.eos) == kNoToken;
}

// Returns the id of a token that the post-processor names; kNoToken if it names none.
std::int32_t id_of(const TokenizerReading& reading, const std::string& name, std::int32_t id) {
  if (name.empty()) return kNoToken;
  if (id == kNoToken) id = reading.find(name);
  if (id == kNoToken || id >= static_cast<std::int32_t>(reading.definition.tokens.size())) {
    reading.refuse("the post-processor names a token that the vocabulary lacks", fmt::format("\"{}\", id {}", name, id),
                   "a token of the vocabulary", "use the tokenizer of the model");
  }
  return id;
}

// A decoder's text begins or ends with a token only if the post-processor says so. Padding is masked, so that any token
// will do.
void find_decoder_tokens(TokenizerReading& reading, const json& config, const Around& around) {
  SpecialTokens& special = reading.definition.special;
  special.of_decoder = true;
  special.bos = id_of(reading, around.before, around.before_id);
  special.eos = id_of(reading, around.after, around.after_id);
  for (const char* name : {"bos_token", "eos_token", "pad_token"}) {
    const auto entry = config.find(name);
    if (entry == config.end() || entry->is_null()) continue;
    const std::int32_t id = role(reading, config, name, "");
    if (name != std::string_view("bos_token")) special.pad = id;
    if (name == std::string_view("eos_token")) special.end_of_text = id;
  }
  // The class of GPT-2's files has this token if they name none.
  if (special.end_of_text == kNoToken && !config.contains("eos_token")) {
    const bool of_characters = std::get<BpeOptions>(reading.definition.model).characters.has_value();
    special.end_of_text = reading.find(of_characters ? "</s>" : "<|endoftext|>");
    if (special.pad == kNoToken) special.pad = special.end_of_text;
  }
  if (special.pad == kNoToken) special.pad = 0;
  special.unk = config.contains("unk_token") ? role(reading, config, "unk_token", "") : kNoToken;
  // A word of a page is encoded as within a text, after a space. (`transformers` would join words, or, if asked for the
  // space, put it before every piece of a word.)
  std::get<BpeOptions>(reading.definition.model).add_prefix_space = true;
}

// The tokenizers that take boxes give the tokens around a page boxes, too.
void read_boxes(TokenizerReading& reading, const json& config, const TokenizerClass& rules) {
  using Box = std::array<std::int32_t, 4>;
  constexpr Box kFirst{}, kLast{1000, 1000, 1000, 1000};
  TokenizerDefinition& definition = reading.definition;
  if (rules.name == "LayoutXLMTokenizer" || rules.name == "LayoutLMv2Tokenizer") {
    definition.bos_box = kFirst;
    definition.eos_box = kLast;
  }
  const auto read = [&](const char* key, std::optional<Box>& box) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) return;
    const bool is_box = found->is_array() && found->size() == 4 && std::ranges::all_of(*found, [](const json& each) {
                          return each.is_number_integer() && each >= 0 && each <= 1000;
                        });
    if (!is_box) reading.refuse(fmt::format("\"{}\" is not a box", key), found->dump(), "four numbers from 0 to 1000");
    box = found->get<Box>();
  };
  read("cls_token_box", definition.bos_box);
  read("sep_token_box", definition.eos_box);
}

}  // namespace

Around read_post_processor(const TokenizerReading& reading, const json& processor) {
  Around around{.known = true};
  std::vector<json> processors = {processor};
  if (section_type(processor) == "Sequence") processors = processor.at("processors").get<std::vector<json>>();
  for (const json& one : processors) {
    if (section_type(one) == "RobertaProcessing" || section_type(one) == "BertProcessing") {
      around.before = one.at("cls").at(0);
      around.after = one.at("sep").at(0);
    } else if (section_type(one) == "TemplateProcessing") {
      bool behind = false;
      for (const json& part : one.at("single")) {
        behind = behind || part.contains("Sequence");
        const auto token = part.find("SpecialToken");
        if (token == part.end()) continue;
        std::string& place = behind ? around.after : around.before;
        if (!place.empty()) {
          reading.refuse(fmt::format("the post-processor puts several tokens {} a text", behind ? "after" : "before"),
                         one.at("single").dump().substr(0, 200), "one token before a text and one after it, or none",
                         "use the tokenizer of the model");
        }
        place = token->at("id");
        // The name stands for these ids, whatever the vocabulary calls them.
        const json ids = one.value("special_tokens", json::object()).value(place, json::object()).value("ids", json());
        if (!ids.is_array()) continue;
        if (ids.size() != 1) {
          reading.refuse("a special token of the post-processor is not one token", ids.dump().substr(0, 60),
                         "\"ids\" of one token", "use the tokenizer of the model");
        }
        (behind ? around.after_id : around.before_id) = reading.small_id(ids[0]);
      }
    }
  }
  return around;
}

void read_added_tokens(TokenizerReading& reading, const json& tokens) {
  if (!tokens.is_array() && !tokens.is_null()) {
    reading.refuse("the added tokens are not a list", tokens.dump().substr(0, 40),
                   R"("added_tokens": [{"id": 0, …}, …])");
  }
  for (const json& token : tokens) {
    reading.add_token(added_token(reading, reading.small_id(token.at("id")), token));
  }
}

void read_listed_tokens(TokenizerReading& reading, const json& config) {
  const json decoder = config.value("added_tokens_decoder", json::object());
  if (!decoder.empty()) reading.forget_added();
  for (const auto& [id, token] : decoder.items()) {
    if (id.empty() || id.size() > 7 || id.find_first_not_of("0123456789") != std::string::npos) {
      reading.refuse("added_tokens_decoder has a key that is not an id", id, "a whole number");
    }
    reading.add_token(added_token(reading, std::stoi(id), token));
  }
}

void find_special_tokens(TokenizerReading& reading, const json& config, const Around& around,
                         const TokenizerClass& rules) {
  read_boxes(reading, config, rules);
  const bool bert = std::holds_alternative<WordPieceOptions>(reading.definition.model);
  const UsualTokens& usual = bert ? kBerts : kRobertas;
  SpecialTokens& special = reading.definition.special;
  if (is_decoders(reading, config, around, rules)) {
    find_decoder_tokens(reading, config, around);
    return read_listed_special_tokens(reading, config);
  }
  special.bos = required(reading, config, "cls_token", around.before.empty() ? usual.bos : around.before);
  special.eos = required(reading, config, "sep_token", around.after.empty() ? usual.eos : around.after);
  special.pad = required(reading, config, "pad_token", usual.pad);
  special.unk = role(reading, config, "unk_token", usual.unk);
  // LayoutXLMTokenizer's <mask> swallows the white space before it, unless a file says otherwise.
  const auto* unigram = std::get_if<UnigramOptions>(&reading.definition.model);
  special.mask = role(reading, config, "mask_token", usual.mask,
                      unigram != nullptr && unigram->class_name == "LayoutXLMTokenizer");
  for (const char* name : {"bos_token", "eos_token"}) {
    // BERT has no tokens of its own.
    if (!bert || config.contains(name)) role(reading, config, name, name == std::string("bos_token") ? "<s>" : "</s>");
  }
  // No class adds tokens that the file does not.
  if (around.known && rules.from_file) {
    special.bos = id_of(reading, around.before, around.before_id);
    special.eos = id_of(reading, around.after, around.after_id);
  }
  read_listed_special_tokens(reading, config);
}

}  // namespace plimsoll
