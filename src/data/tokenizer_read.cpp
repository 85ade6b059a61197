// Reads Hugging Face's tokenizer files (read_tokenizer_files of tokenizer_files.h).
#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer_reading.h"
#include "formats/json.h"

namespace plimsoll {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kFileLimitBytes = 256ULL << 20;
// The limit is far above any vocabulary in use (256,000 or so), and far below what would exhaust memory.
constexpr std::uint64_t kLargestId = 4'000'000;
// Ids have few gaps; without this limit a short file that names a large id would ask for a table of millions.
constexpr std::size_t kFreeIds = 1024;

[[noreturn]] void refuse_missing(const fs::path& directory) {
  std::string found = "none of them";
  for (const char* name : {"spiece.model", "tokenizer.model"}) {
    if (fs::exists(directory / name)) found = fmt::format("{}: a SentencePiece tokenizer of another family", name);
  }
  if (fs::exists(directory / "vocab.json")) found = "vocab.json without merges.txt";
  if (!fs::exists(directory)) found = "no such directory";
  throw DataError({.what = "no supported tokenizer",
                   .where = directory.string(),
                   .found = found,
                   .allowed = "tokenizer.json, vocab.json and merges.txt (byte-level BPE), vocab.txt (WordPiece), or "
                              "sentencepiece.bpe.model (Unigram)",
                   .remedy = kOwnTokenizer});
}

// Where the files are: in a directory, or a tokenizer.json alone.
struct Place {
  fs::path directory;
  fs::path tokenizer_json;
  bool read_others;  // a tokenizer.json with another name is read alone: files beside it need not belong to it

  explicit Place(const fs::path& path) {
    const bool is_file = fs::is_regular_file(path);
    directory = is_file ? path.parent_path() : path;
    tokenizer_json = is_file ? path : directory / "tokenizer.json";
    read_others = !is_file || path.filename() == "tokenizer.json";
  }
};

std::optional<json> take_json(TokenizerReading& reading, const Place& place, const char* name) {
  const auto text = place.read_others ? reading.take_file(place.directory / name, name) : std::nullopt;
  return text ? std::optional<json>(reading.parse(*text)) : std::nullopt;
}

// Reads the model; returns the tokens that a post-processor names.
Around read_tokenizer_json(TokenizerReading& reading, const json& file) {
  if (!file.is_object() || !file.contains("model")) {
    reading.refuse("this JSON is not a tokenizer", file.is_object() ? "no \"model\" section" : file.type_name(),
                   "a tokenizer.json of Hugging Face's tokenizers", kOwnTokenizer);
  }
  reading.part = "model";
  const json& model = file.at("model");
  for (const char* name : {"model", "normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const json section = file.value(name, json());
    if (section.is_object() || section.is_null()) continue;
    reading.refuse(fmt::format("\"{}\" of a tokenizer is not an object", name), section.dump().substr(0, 60),
                   "{\"type\": …}, or null");
  }
  // Old files do not name the type.
  const std::string type = model.value("type", model.contains("merges")                     ? "BPE"
                                               : model.contains("max_input_chars_per_word") ? "WordPiece"
                                               : model.contains("unk_id")                   ? "Unigram"
                                                                                            : "none");
  if (type == "BPE") {
    read_bpe(reading, file);
  } else if (type == "WordPiece") {
    read_word_piece(reading, file);
  } else if (type == "Unigram") {
    read_unigram(reading, file);
  } else {
    reading.refuse("unsupported kind of tokenizer", type,
                   "byte-level BPE, as in LayoutLMv3 and RoBERTa, WordPiece, as in BERT, or Unigram, as in XLM-RoBERTa",
                   kOwnTokenizer);
  }
  reading.part = "added_tokens";
  read_added_tokens(reading, file.value("added_tokens", json()));
  reading.part = "post_processor";
  return read_post_processor(reading, file.value("post_processor", json()));
}

// Reads the files that replace a tokenizer.json if there is none.
void read_old_files(TokenizerReading& reading, const Place& place) {
  const auto exists = [&](const char* name) { return fs::exists(place.directory / name); };
  if (exists("vocab.json") && exists("merges.txt")) {
    reading.put_vocabulary(*take_json(reading, place, "vocab.json"));
    read_bpe_merges(reading, *reading.take_file(place.directory / "merges.txt", "merges.txt"));
  } else if (exists("vocab.txt")) {
    read_word_piece_vocabulary(reading, *reading.take_file(place.directory / "vocab.txt", "vocab.txt"));
  } else if (exists("sentencepiece.bpe.model")) {
    // The vocabulary is read with the configuration.
    reading.definition.model.emplace<UnigramOptions>();
    reading.take_file(place.directory / "sentencepiece.bpe.model", "sentencepiece.bpe.model");
  } else {
    refuse_missing(place.directory);
  }
}

TokenizerClass tokenizer_class(const TokenizerReading& reading, const Place& place, const json& config) {
  const auto text = [](const json& object, const char* key) -> std::string {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
  };
  TokenizerClass rules{.name = text(config, "tokenizer_class")};
  const fs::path model_config = place.directory / "config.json";
  if (rules.name.empty() && place.read_others && fs::exists(model_config)) {
    const json model = parse_json(read_text_file(model_config, kFileLimitBytes), model_config.string());
    if (model.is_discarded()) {
      reading.refuse("a model's configuration is not JSON, or is truncated", model_config.string(),
                     "a complete JSON document");
    }
    rules.name = text(model, "tokenizer_class");
    rules.model_type = text(model, "model_type");
  }
  // `transformers` 5.17 has a class for each type of model but llama.
  const bool of_llama = rules.name.empty() && rules.model_type == "llama";
  rules.from_file =
      !place.read_others || of_llama || rules.name == "PreTrainedTokenizerFast" || rules.name == "TokenizersBackend";
  if (rules.name.ends_with("Fast")) rules.name.resize(rules.name.size() - std::string_view("Fast").size());
  return rules;
}

// Returns tokenizer_config.json with what special_tokens_map.json changes in it.
json read_configuration(TokenizerReading& reading, const Place& place) {
  const auto take = [&](const char* name) {
    json found = take_json(reading, place, name).value_or(json::object());
    if (!found.is_object()) reading.refuse("a tokenizer configuration is not an object", found.type_name(), "{...}");
    return found;
  };
  const json tokens = take("special_tokens_map.json");
  json config = take("tokenizer_config.json");
  // The older file is only kept where the configuration lists its tokens with their flags.
  if (!config.contains("added_tokens_decoder")) config.update(tokens);
  return config;
}

void read_files(TokenizerReading& reading, const Place& place) {
  const auto tokenizer = reading.take_file(place.tokenizer_json, "tokenizer.json");
  Around around;
  if (tokenizer) {
    around = read_tokenizer_json(reading, reading.parse(*tokenizer));
    // These are not read, but still belong to the model directory.
    for (const char* name : {"vocab.json", "merges.txt", "vocab.txt", "sentencepiece.bpe.model", "added_tokens.json"}) {
      if (place.read_others) reading.take_file(place.directory / name, name);
    }
  } else {
    read_old_files(reading, place);
  }
  // added_tokens.json beside an old file holds the tokens added later: {"token": id}.
  const json added_tokens =
      (tokenizer ? std::nullopt : take_json(reading, place, "added_tokens.json")).value_or(json::object());
  const std::string model_where = reading.where;
  const json config = read_configuration(reading, place);
  const TokenizerClass rules = tokenizer_class(reading, place, config);
  if (std::holds_alternative<BpeOptions>(reading.definition.model)) {
    read_bpe_config(reading, config, rules);
  } else {
    const bool word_piece = std::holds_alternative<WordPieceOptions>(reading.definition.model);
    word_piece ? read_word_piece_config(reading, config, rules) : read_unigram_config(reading, config, rules);
  }
  read_listed_tokens(reading, config);
  find_special_tokens(reading, config, around, rules);
  for (const auto& [content, id] : added_tokens.items()) {
    if (!reading.is_added(content)) {
      reading.add_token({.id = reading.small_id(id), .content = content, .normalized = true});
    }
  }
  reading.where = model_where;
  if (std::holds_alternative<BpeOptions>(reading.definition.model)) check_bpe(reading);
  if (std::holds_alternative<WordPieceOptions>(reading.definition.model)) finish_word_piece(reading);
  if (std::holds_alternative<UnigramOptions>(reading.definition.model)) check_unigram(reading);
}

}  // namespace

TokenizerDefinition read_tokenizer_files(const std::filesystem::path& path) {
  TokenizerReading reading;
  try {
    read_files(reading, Place(path));
  } catch (const json::exception& error) {
    const std::string part = reading.part.empty() ? "" : fmt::format(", in \"{}\"", reading.part);
    reading.refuse("a tokenizer file has a value of an unexpected type", json_fault(error) + part,
                   "the format of Hugging Face's tokenizers");
  }
  return std::move(reading.definition);
}

std::string section_type(const json& section) { return section.is_object() ? section.value("type", "") : ""; }

void TokenizerReading::refuse(std::string what, std::string found, std::string allowed, std::string remedy) const {
  throw DataError({std::move(what), where, std::move(found), std::move(allowed), std::move(remedy)});
}

void TokenizerReading::must_be_unset(const json& section, const char* name) const {
  const auto value = section.find(name);
  if (value == section.end() || value->is_null() || *value == false || *value == "" || *value == 0.0) return;
  refuse("the tokenizer uses an unsupported option", fmt::format("\"{}\": {}", name, value->dump()),
         fmt::format("\"{}\" unset, as in LayoutLMv3", name), kOwnTokenizer);
}

std::optional<std::string_view> TokenizerReading::take_file(const fs::path& path, std::string name) {
  if (!fs::exists(path)) return std::nullopt;
  where = path.string();
  part.clear();
  definition.files.push_back({std::move(name), read_text_file(path, kFileLimitBytes)});
  return definition.files.back().content;
}

json TokenizerReading::parse(std::string_view text) const {
  if (nests_too_deep(text)) {
    refuse("a tokenizer file nests too deep", "more than " + counted(kMaxJsonDepth, "level"),
           "the format of Hugging Face's tokenizers");
  }
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    refuse("a tokenizer file is not JSON, or is truncated", json_fault(error), "a complete JSON document");
  }
}

void TokenizerReading::expect_tokens(std::size_t count) {
  listed_ = count;
  id_of_.reserve(count);
}

std::int32_t TokenizerReading::find(std::string_view token) const {
  const auto entry = id_of_.find(std::string(token));
  return entry == id_of_.end() ? kNoToken : entry->second;
}

std::int32_t TokenizerReading::small_id(const json& value) const {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= kLargestId;
  if (!fits) refuse("a token id is out of range", value.dump(), fmt::format("a whole number from 0 to {}", kLargestId));
  return value.get<std::int32_t>();
}

void TokenizerReading::put_vocabulary(const json& vocabulary) {
  if (!vocabulary.is_object()) {
    refuse("the vocabulary is not an object", vocabulary.type_name(), "{\"token\": id, ...}");
  }
  expect_tokens(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) put(small_id(id), token);
}

void TokenizerReading::put(std::int32_t id, const std::string& token) {
  const auto index = static_cast<std::size_t>(id);
  const std::size_t tokens = std::max(listed_, id_of_.size()), allowed = 2 * tokens + kFreeIds;
  if (index > allowed) {
    refuse("a token's id is far from all others", fmt::format("{} for \"{}\"", id, token),
           fmt::format("at most {} among {}", allowed, counted(tokens, "token")));
  }
  if (index >= definition.tokens.size()) definition.tokens.resize(index + 1);
  std::string& place = definition.tokens[index];
  if (!place.empty() && place != token) {
    refuse("two tokens have the same id", fmt::format("{}: \"{}\" and \"{}\"", id, place, token), "one token per id");
  }
  place = token;
  id_of_.insert_or_assign(token, id);  // of equal tokens the last counts, as in `tokenizers`
}

void TokenizerReading::add_token(AddedToken token) {
  if (token.content.empty()) refuse("an added token has no text", fmt::format("id {}", token.id), "some text");
  const std::int32_t known = find(token.content);
  if (known != kNoToken && known != token.id) {
    refuse("an added token's id differs from the vocabulary's",
           fmt::format("\"{}\": {} and {}", token.content, token.id, known), "one id per token");
  }
  token.outside = known == kNoToken;
  put(token.id, token.content);
  added_.insert(token.content);
  definition.added.push_back(std::move(token));
}

void TokenizerReading::forget_added() {
  definition.added.clear();
  added_.clear();
}

}  // namespace plimsoll
