// Reads Hugging Face's tokenizer files (read_tokenizer_files of tokenizer_files.h).
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer_files.h"
#include "data/tokenizer_split.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uint64_t kFileLimitBytes = 256ULL << 20;
// The limit is far above any vocabulary in use (256,000 or so), and far below what would exhaust memory.
constexpr std::uint64_t kLargestId = 4'000'000;
// Ids have few gaps; without this limit a short file that names a large id would ask for a table of millions.
constexpr std::size_t kFreeIds = 1024;
constexpr const char* kOwnTokenizer =
    "use the tokenizer files that the model was trained with (LayoutLMv3's and RoBERTa's are supported); presets have "
    "their own, without --tokenizer";
constexpr const char* kDownloadAgain = "copy or download the model's tokenizer files again";

class Reader {
 public:
  TokenizerDefinition read(const fs::path& path);

 private:
  [[noreturn]] void refuse(std::string what, std::string found, std::string allowed,
                           std::string remedy = kDownloadAgain) const {
    throw DataError({std::move(what), where_, std::move(found), std::move(allowed), std::move(remedy)});
  }
  [[noreturn]] void refuse_missing(const fs::path& directory) const;

  // Keeps the file for writing it back, and returns its text; returns nothing if there is no such file.
  std::optional<std::string_view> take_file(const fs::path& path, std::string name);
  json parse(std::string_view text) const;

  void read_tokenizer_json(const json& file);
  void read_model(const json& model);
  void read_vocabulary(const json& vocabulary);
  void read_merges_text(std::string_view text);
  void add_merge(std::string_view left, std::string_view right);
  void read_config(const json& config);
  AddedToken added_token(std::int32_t id, const json& token) const;
  void read_listed_tokens(const json& config);
  void find_special_tokens(const json& config);

  std::int32_t find(std::string_view token) const;
  std::int32_t small_id(const json& value) const;
  void put(std::int32_t id, const std::string& token);
  void add_token(AddedToken token);
  bool is_added(const std::string& content) const { return added_.contains(content); }

  std::string where_;  // the file being read
  TokenizerDefinition definition_;
  std::unordered_map<std::string, std::int32_t> id_of_;
  std::unordered_set<std::string> added_;    // contents of definition_.added
  std::size_t listed_ = 0;                   // tokens of the vocabulary
  std::string template_bos_, template_eos_;  // tokens that the post-processor puts around a text
};

void Reader::refuse_missing(const fs::path& directory) const {
  std::string found = "none of them";
  if (fs::exists(directory / "vocab.txt")) found = "vocab.txt: a WordPiece tokenizer, as in BERT and LayoutLM (1, 2)";
  for (const char* name : {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model"}) {
    if (fs::exists(directory / name)) found = fmt::format("{}: a Unigram (SentencePiece) tokenizer", name);
  }
  if (fs::exists(directory / "vocab.json")) found = "vocab.json without merges.txt";
  if (!fs::exists(directory)) found = "no such directory";
  throw DataError({.what = "no supported tokenizer",
                   .where = directory.string(),
                   .found = found,
                   .allowed = "tokenizer.json, or vocab.json and merges.txt (byte-level BPE)",
                   .remedy = kOwnTokenizer});
}

std::optional<std::string_view> Reader::take_file(const fs::path& path, std::string name) {
  if (!fs::exists(path)) return std::nullopt;
  where_ = path.string();
  definition_.files.push_back({std::move(name), read_text_file(path, kFileLimitBytes)});
  return definition_.files.back().content;
}

json Reader::parse(std::string_view text) const {
  if (nests_too_deep(text)) {
    refuse("a tokenizer file nests too deep", "more than " + counted(kMaxJsonDepth, "level"),
           "the format of Hugging Face's tokenizers");
  }
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    refuse("a tokenizer file is not JSON, or is truncated", error.what(), "a complete JSON document");
  }
}

TokenizerDefinition Reader::read(const fs::path& path) {
  const bool is_file = fs::is_regular_file(path);
  const fs::path directory = is_file ? path.parent_path() : path;
  // A tokenizer.json under another name stands alone: files beside it need not belong to it.
  const bool read_others = !is_file || path.filename() == "tokenizer.json";
  const auto take_other = [&](const char* name) -> std::optional<json> {
    const auto text = read_others ? take_file(directory / name, name) : std::nullopt;
    return text ? std::optional<json>(parse(*text)) : std::nullopt;
  };
  try {
    const auto tokenizer = take_file(is_file ? path : directory / "tokenizer.json", "tokenizer.json");
    if (tokenizer) {
      read_tokenizer_json(parse(*tokenizer));
      // These are not read, but still belong to the model directory.
      for (const char* name : {"vocab.json", "merges.txt", "added_tokens.json"}) {
        if (read_others) take_file(directory / name, name);
      }
    } else {
      if (!fs::exists(directory / "vocab.json") || !fs::exists(directory / "merges.txt")) {
        refuse_missing(directory);
      }
      read_vocabulary(*take_other("vocab.json"));
      read_merges_text(*take_file(directory / "merges.txt", "merges.txt"));
    }
    // added_tokens.json beside vocab.json holds the tokens added later: {"token": id}.
    const json added_tokens = (tokenizer ? std::nullopt : take_other("added_tokens.json")).value_or(json::object());
    const std::string tokenizer_where = where_;
    json config = take_other("special_tokens_map.json").value_or(json::object());
    if (const auto own = take_other("tokenizer_config.json")) config.update(*own);
    read_config(config);
    read_listed_tokens(config);
    find_special_tokens(config);
    for (const auto& [content, id] : added_tokens.items()) {
      if (!is_added(content)) add_token({.id = small_id(id), .content = content, .normalized = true});
    }
    where_ = tokenizer_where;
    // Without merges no token but a single byte is ever made, so a vocabulary of words must have lost them.
    constexpr std::size_t kBytesAndMore = 512;
    if (definition_.merges.empty() && listed_ > kBytesAndMore + added_.size()) {
      refuse("the tokenizer has no merges, so most of its tokens could never occur",
             counted(listed_, "token") + ", no merge", "the merges that the vocabulary was trained with");
    }
    for (int byte = 0; byte < 256; ++byte) {
      const char character = static_cast<char>(byte);
      if (find(bytes_to_alphabet({&character, 1})) != kNoToken) continue;
      refuse("the vocabulary lacks some bytes, so some text would be lost",
             fmt::format("no token for byte 0x{:02X}", byte), "a token for each of the 256 bytes",
             "train the tokenizer with the byte-level alphabet as initial alphabet");
    }
  } catch (const json::exception& error) {
    refuse("a tokenizer file has a value of an unexpected type", error.what(),
           "the format of Hugging Face's tokenizers");
  }
  return std::move(definition_);
}

void Reader::read_tokenizer_json(const json& file) {
  if (!file.is_object() || !file.contains("model")) {
    refuse("this JSON is not a tokenizer", file.is_object() ? "no \"model\" section" : file.type_name(),
           "a tokenizer.json of Hugging Face's tokenizers", kOwnTokenizer);
  }
  const auto type_of = [](const json& section) -> std::string {
    return section.is_object() ? section.value("type", "") : "";
  };
  if (const auto normalizer = file.find("normalizer"); normalizer != file.end() && !normalizer->is_null()) {
    const bool empty = type_of(*normalizer) == "Sequence" && normalizer->at("normalizers").empty();
    if (!empty) refuse("the tokenizer normalises text", type_of(*normalizer), "no normalizer", kOwnTokenizer);
  }
  json pre_tokenizer = file.value("pre_tokenizer", json());
  if (type_of(pre_tokenizer) == "Sequence" && pre_tokenizer.at("pretokenizers").size() == 1) {
    pre_tokenizer = json(pre_tokenizer.at("pretokenizers").at(0));
  }
  read_model(file.at("model"));
  if (type_of(pre_tokenizer) != "ByteLevel" || !pre_tokenizer.value("use_regex", true)) {
    refuse("the tokenizer splits text with another pattern",
           pre_tokenizer.is_null() ? "no pre_tokenizer" : pre_tokenizer.dump().substr(0, 200),
           "pre_tokenizer ByteLevel with use_regex", kOwnTokenizer);
  }
  const json added_tokens = file.value("added_tokens", json());
  if (!added_tokens.is_array() && !added_tokens.is_null()) {
    refuse("the added tokens are not a list", added_tokens.dump().substr(0, 40),
           R"("added_tokens": [{"id": 0, …}, …])");
  }
  for (const json& token : added_tokens) {
    add_token(added_token(small_id(token.at("id")), token));
  }
  // The post-processor names the tokens around a text; it is only needed if no config file does.
  std::vector<json> processors = {file.value("post_processor", json())};
  if (type_of(processors[0]) == "Sequence") processors = processors[0].at("processors").get<std::vector<json>>();
  for (const json& processor : processors) {
    if (type_of(processor) == "RobertaProcessing" || type_of(processor) == "BertProcessing") {
      template_bos_ = processor.at("cls").at(0);
      template_eos_ = processor.at("sep").at(0);
    } else if (type_of(processor) == "TemplateProcessing") {
      for (const json& part : processor.at("single")) {
        const auto token = part.find("SpecialToken");
        if (token == part.end()) continue;
        (template_bos_.empty() ? template_bos_ : template_eos_) = token->at("id");
      }
    }
  }
}

void Reader::read_model(const json& model) {
  const std::string type = model.value("type", model.contains("merges") ? "BPE" : "none");
  if (type != "BPE") {
    refuse("unsupported kind of tokenizer", type, "byte-level BPE, as in LayoutLMv3 and RoBERTa", kOwnTokenizer);
  }
  const auto must_be_unset = [&](const char* name) {
    const auto value = model.find(name);
    if (value == model.end() || value->is_null() || *value == false || *value == "" || *value == 0.0) return;
    refuse("the tokenizer uses an unsupported option", fmt::format("\"{}\": {}", name, value->dump()),
           fmt::format("\"{}\" unset, as in LayoutLMv3", name), kOwnTokenizer);
  };
  for (const char* name :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    must_be_unset(name);
  }
  read_vocabulary(model.at("vocab"));
  const json& merges = model.at("merges");
  if (!merges.is_array()) {
    refuse("the merges are not a list", fmt::format("{} {}", merges.type_name(), merges.dump().substr(0, 40)),
           R"("merges": [["Ġ", "a"], …] or ["Ġ a", …])");
  }
  for (const json& merge : merges) {
    if (merge.is_array()) {
      if (merge.size() != 2) refuse("a merge is not a pair", merge.dump(), "two tokens");
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      const std::string_view line = merge.get_ref<const std::string&>();
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos)
        refuse("a merge is not a pair", merge.dump(), "two tokens with a space between");
      add_merge(line.substr(0, space), line.substr(space + 1));
    }
  }
}

void Reader::read_vocabulary(const json& vocabulary) {
  if (!vocabulary.is_object())
    refuse("the vocabulary is not an object", vocabulary.type_name(), "{\"token\": id, ...}");
  listed_ = vocabulary.size();
  id_of_.reserve(listed_);
  for (const auto& [token, id] : vocabulary.items()) put(small_id(id), token);
}

void Reader::read_merges_text(std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || (line.empty() && text.empty())) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      refuse("a merge is not a pair", fmt::format("line {}: \"{}\"", number, line), "two tokens with a space between");
    }
    add_merge(line.substr(0, space), line.substr(space + 1));
  }
}

void Reader::add_merge(std::string_view left, std::string_view right) {
  const std::string result = std::string(left).append(right);
  const BpeMerge merge{find(left), find(right), find(result)};
  if (merge.left == kNoToken || merge.right == kNoToken || merge.result == kNoToken) {
    const std::string missing(merge.left == kNoToken    ? left
                              : merge.right == kNoToken ? right
                                                        : std::string_view(result));
    refuse("a merge names a token that the vocabulary lacks",
           fmt::format("merge {}, token \"{}\"", definition_.merges.size() + 1, missing),
           "merges and vocabulary of one tokenizer", "use both files of the same model");
  }
  definition_.merges.push_back(merge);
}

void Reader::read_config(const json& config) {
  if (!config.is_object()) refuse("a tokenizer configuration is not an object", config.type_name(), "{...}");
  definition_.add_prefix_space = config.value("add_prefix_space", true);
}

AddedToken Reader::added_token(std::int32_t id, const json& token) const {
  if (token.value("single_word", false)) {
    refuse("an added token matches whole words only", token.at("content").get<std::string>(), "\"single_word\": false",
           "set single_word to false in the tokenizer's files");
  }
  return {.id = id,
          .content = token.at("content"),
          .lstrip = token.value("lstrip", false),
          .rstrip = token.value("rstrip", false),
          .normalized = token.value("normalized", true),
          .special = token.value("special", false)};
}

// The configuration's own list of added tokens replaces that of tokenizer.json.
void Reader::read_listed_tokens(const json& config) {
  const json decoder = config.value("added_tokens_decoder", json::object());
  if (!decoder.empty()) {
    definition_.added.clear();
    added_.clear();
  }
  for (const auto& [id, token] : decoder.items()) {
    if (id.empty() || id.size() > 7 || id.find_first_not_of("0123456789") != std::string::npos) {
      refuse("added_tokens_decoder has a key that is not an id", id, "a whole number");
    }
    add_token(added_token(std::stoi(id), token));
  }
}

void Reader::find_special_tokens(const json& config) {
  // Reads a role's token from the config: a string, or an object with flags. A role's token that is not yet an added
  // token becomes one (`transformers` matches it in raw text).
  const auto role = [&](const char* name, const std::string& fallback) {
    AddedToken token{.content = fallback, .special = true};
    if (const auto entry = config.find(name); entry != config.end() && entry->is_string()) {
      token.content = *entry;
    } else if (entry != config.end() && entry->is_object()) {
      token.content = entry->at("content");
      token.lstrip = entry->value("lstrip", false);
      token.rstrip = entry->value("rstrip", false);
      token.normalized = entry->value("normalized", false);
    }
    token.id = find(token.content);
    if (token.id != kNoToken && !is_added(token.content)) add_token(token);
    return token.id;
  };
  const auto required = [&](const char* name, const std::string& fallback) {
    const std::int32_t id = role(name, fallback);
    if (id == kNoToken) {
      refuse("the vocabulary lacks a special token", fmt::format("no token for {}", name),
             fmt::format("{} as \"{}\"", name, fallback),
             "set it in tokenizer_config.json, or use the tokenizer of a LayoutLMv3 model");
    }
    return id;
  };
  SpecialTokens& special = definition_.special;
  special.bos = required("cls_token", template_bos_.empty() ? "<s>" : template_bos_);
  special.eos = required("sep_token", template_eos_.empty() ? "</s>" : template_eos_);
  special.pad = required("pad_token", "<pad>");
  special.unk = role("unk_token", "<unk>");
  special.mask = role("mask_token", "<mask>");
  role("bos_token", "<s>");
  role("eos_token", "</s>");
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto list = config.find(name);
    if (list == config.end() || !list->is_array()) continue;
    for (const json& entry : *list) {
      AddedToken token = entry.is_string() ? AddedToken{.content = entry} : added_token(kNoToken, entry);
      if (is_added(token.content)) continue;
      token.special = true;
      token.id = find(token.content);
      if (token.id == kNoToken) token.id = static_cast<std::int32_t>(definition_.tokens.size());
      add_token(std::move(token));
    }
  }
}

std::int32_t Reader::find(std::string_view token) const {
  const auto entry = id_of_.find(std::string(token));
  return entry == id_of_.end() ? kNoToken : entry->second;
}

std::int32_t Reader::small_id(const json& value) const {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= kLargestId;
  if (!fits) refuse("a token id is out of range", value.dump(), fmt::format("a whole number from 0 to {}", kLargestId));
  return value.get<std::int32_t>();
}

void Reader::put(std::int32_t id, const std::string& token) {
  const auto index = static_cast<std::size_t>(id);
  const std::size_t tokens = std::max(listed_, id_of_.size()), allowed = 2 * tokens + kFreeIds;
  if (index > allowed) {
    refuse("a token's id is far from all others", fmt::format("{} for \"{}\"", id, token),
           fmt::format("at most {} among {}", allowed, counted(tokens, "token")));
  }
  if (index >= definition_.tokens.size()) definition_.tokens.resize(index + 1);
  std::string& place = definition_.tokens[index];
  if (!place.empty() && place != token) {
    refuse("two tokens have the same id", fmt::format("{}: \"{}\" and \"{}\"", id, place, token), "one token per id");
  }
  place = token;
  id_of_.emplace(token, id);
}

void Reader::add_token(AddedToken token) {
  if (token.content.empty()) refuse("an added token has no text", fmt::format("id {}", token.id), "some text");
  const std::int32_t known = find(token.content);
  if (known != kNoToken && known != token.id) {
    refuse("an added token's id differs from the vocabulary's",
           fmt::format("\"{}\": {} and {}", token.content, token.id, known), "one id per token");
  }
  put(token.id, token.content);
  added_.insert(token.content);
  definition_.added.push_back(std::move(token));
}

}  // namespace

TokenizerDefinition read_tokenizer_files(const std::filesystem::path& path) { return Reader().read(path); }

}  // namespace plimsoll
