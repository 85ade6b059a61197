#include "data/tokenizer_trim.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/tokenizer_characters.h"
#include "data/tokenizer_split.h"
#include "formats/protobuf.h"

namespace plimsoll {
namespace {

using ordered_json = nlohmann::ordered_json;

bool is_one_character(std::string_view text) {
  return !text.empty() && !find_invalid_utf8(text) && decode_utf8(text, 0).length == text.size();
}

class Needed {
 public:
  Needed(const TokenizerDefinition& definition, std::vector<bool>& kept) : definition_(definition), kept_(kept) {}

  void operator()(const BpeOptions& options) {
    for_each_token([&](std::int32_t id, const std::string& token) {
      const std::string bytes = options.characters ? token : alphabet_to_bytes(token);
      const bool is_byte = options.characters ? byte_of_token(token).has_value() : bytes.size() == 1;
      if (is_byte || is_one_character(bytes)) keep(id);
    });
    // Several merges may make the same token, and a merge's parts may have merges later in the list.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto merge = options.merges.rbegin(); merge != options.merges.rend(); ++merge) {
        if (!is_kept(merge->result) || (is_kept(merge->left) && is_kept(merge->right))) continue;
        keep(merge->left);
        keep(merge->right);
        changed = true;
      }
    }
  }

  void operator()(const WordPieceOptions& options) {
    keep(options.unknown);
    keep_characters([&](std::string_view token) -> std::pair<std::string_view, bool> {
      const bool continues = token.starts_with(options.continuing_prefix);
      return {token.substr(continues ? options.continuing_prefix.size() : 0), continues};
    });
  }

  void operator()(const UnigramOptions& options) {
    keep(options.unknown);
    keep(static_cast<std::int32_t>(std::ranges::min_element(options.scores) - options.scores.begin()));
    keep_characters([](std::string_view token) { return std::pair(token, true); });
  }

  void keep(std::int32_t id) {
    if (id != kNoToken) kept_[static_cast<std::size_t>(id)] = true;
  }

 private:
  // Keeps tokens of one character, and those with a character that has no such token. `read` returns a token's text,
  // and whether its first character counts as one within a word.
  template <typename Read>
  void keep_characters(const Read& read) {
    std::set<std::pair<std::string_view, bool>> covered;
    for_each_token([&](std::int32_t id, const std::string& token) {
      const auto [text, inside] = read(token);
      if (!is_one_character(text)) return;
      keep(id);
      covered.insert({text, inside});
    });
    for_each_token([&](std::int32_t id, const std::string& token) {
      auto [text, inside] = read(token);
      for (; !text.empty(); inside = true) {
        const std::size_t length = decode_utf8(text, 0).length;
        if (!covered.contains({text.substr(0, length), inside})) keep(id);
        text.remove_prefix(length);
      }
    });
  }
  bool is_kept(std::int32_t id) const { return kept_[static_cast<std::size_t>(id)]; }
  template <typename Use>
  void for_each_token(const Use& use) {
    for (std::size_t id = 0; id < definition_.tokens.size(); ++id)
      use(static_cast<std::int32_t>(id), definition_.tokens[id]);
  }

  const TokenizerDefinition& definition_;
  std::vector<bool>& kept_;
};

// Edits the files. Reading has checked them, so what they hold where ids are expected are ids.
class Trimmer {
 public:
  Trimmer(const TokenizerDefinition& definition, const std::vector<bool>& kept) : ids_(trimmed_ids(kept)) {
    for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
      id_of_.emplace(definition.tokens[id], static_cast<std::int32_t>(id));
    }
  }

  std::string trimmed(const TokenizerFile& file) const {
    if (file.name == "tokenizer.json") return with_json(file, [&](ordered_json& json) { trim_tokenizer(json); });
    if (file.name == "tokenizer_config.json") return with_json(file, [&](ordered_json& json) { trim_config(json); });
    if (file.name == "vocab.json" || file.name == "added_tokens.json") {
      return with_json(file, [&](ordered_json& json) { trim_ids_by_token(json); });
    }
    if (file.name == "merges.txt") return trimmed_merges(file.content);
    if (file.name == "vocab.txt") return trimmed_lines(file.content);
    if (file.name == "sentencepiece.bpe.model") return trimmed_pieces(file.content);
    return file.content;
  }

 private:
  template <typename Edit>
  static std::string with_json(const TokenizerFile& file, const Edit& edit) {
    ordered_json json = ordered_json::parse(file.content);
    edit(json);
    return json.dump(2) + "\n";
  }

  // Returns the new id; nothing for a token that leaves, or for an unknown id.
  std::optional<std::int32_t> now(std::int64_t id) const {
    if (id < 0 || id >= std::ssize(ids_) || ids_[static_cast<std::size_t>(id)] == kNoToken) return std::nullopt;
    return ids_[static_cast<std::size_t>(id)];
  }
  bool keeps(const std::string& token) const {
    const auto found = id_of_.find(token);
    return found != id_of_.end() && now(found->second).has_value();
  }
  void renumber(ordered_json& id) const {
    if (!id.is_number_integer()) return;
    if (const auto number = now(id.get<std::int64_t>())) id = *number;
  }

  // {"token": id, …}. Objects keep their order, and a look-up in one would search all of it.
  void trim_ids_by_token(ordered_json& vocabulary) const {
    ordered_json::object_t left;
    for (auto& [token, id] : vocabulary.get_ref<ordered_json::object_t&>()) {
      if (const auto number = now(id.get<std::int64_t>())) left.push_back({token, *number});
    }
    vocabulary = std::move(left);
  }

  bool keeps_merge(const std::string& left, const std::string& right) const {
    return keeps(left) && keeps(right) && keeps(left + right);
  }

  void trim_model(ordered_json& model) const {
    ordered_json& vocabulary = model.at("vocab");
    if (vocabulary.is_object()) {
      trim_ids_by_token(vocabulary);
    } else {
      ordered_json left = ordered_json::array();
      for (std::size_t id = 0; id < vocabulary.size(); ++id) {
        if (now(static_cast<std::int64_t>(id))) left.push_back(std::move(vocabulary[id]));
      }
      vocabulary = std::move(left);
    }
    if (model.contains("unk_id")) renumber(model["unk_id"]);
    if (!model.contains("merges")) return;
    ordered_json left = ordered_json::array();
    for (ordered_json& merge : model["merges"]) {
      std::string first, second;
      if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const std::size_t space = text.find(' ');
        first = text.substr(0, space);
        second = text.substr(space + 1);
      } else {
        first = merge.at(0).get<std::string>();
        second = merge.at(1).get<std::string>();
      }
      if (keeps_merge(first, second)) left.push_back(std::move(merge));
    }
    model["merges"] = std::move(left);
  }

  void trim_tokenizer(ordered_json& json) const {
    trim_model(json.at("model"));
    if (json.contains("added_tokens") && json["added_tokens"].is_array()) {
      for (ordered_json& token : json["added_tokens"]) renumber(token.at("id"));
    }
    if (json.contains("post_processor")) trim_post_processor(json["post_processor"]);
    if (json.contains("padding") && json["padding"].contains("pad_id")) renumber(json["padding"]["pad_id"]);
  }

  void trim_post_processor(ordered_json& processor) const {
    if (!processor.is_object()) return;
    for (const char* key : {"sep", "cls"}) {  // ["</s>", 2]
      if (processor.contains(key) && processor[key].is_array() && processor[key].size() == 2)
        renumber(processor[key][1]);
    }
    if (processor.contains("special_tokens") && processor["special_tokens"].is_object()) {
      for (auto& [name, token] : processor["special_tokens"].items()) {
        for (ordered_json& id : token.at("ids")) renumber(id);
      }
    }
    if (processor.contains("processors") && processor["processors"].is_array()) {
      for (ordered_json& part : processor["processors"]) trim_post_processor(part);
    }
  }

  // Its list of added tokens has ids as keys.
  void trim_config(ordered_json& config) const {
    if (!config.is_object() || !config.contains("added_tokens_decoder")) return;
    ordered_json left = ordered_json::object();
    for (auto& [key, token] : config["added_tokens_decoder"].items()) {
      std::int64_t id = -1;
      std::from_chars(key.data(), key.data() + key.size(), id);
      if (const auto number = now(id)) left[std::to_string(*number)] = token;
    }
    config["added_tokens_decoder"] = std::move(left);
  }

  template <typename Keeps>
  static std::string kept_lines(std::string_view text, const Keeps& keeps_line) {
    std::string left;
    for (std::size_t number = 0; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      std::string_view line = text.substr(0, end);
      if (keeps_line(number, line.substr(0, line.find_last_not_of("\r\n") + 1))) left += line;
      text.remove_prefix(end);
    }
    return left;
  }

  std::string trimmed_merges(std::string_view text) const {
    return kept_lines(text, [&](std::size_t, std::string_view line) {
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos || line.starts_with("#version")) return true;
      return keeps_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)));
    });
  }

  // The line's number is the token's id.
  std::string trimmed_lines(std::string_view text) const {
    return kept_lines(
        text, [&](std::size_t number, std::string_view) { return now(static_cast<std::int64_t>(number)).has_value(); });
  }

  // The pieces are fields of the message, one after the other; all else is copied as it is.
  std::string trimmed_pieces(std::string_view message) const {
    constexpr std::uint32_t kPieces = 1, kText = 1;
    std::string left;
    ProtobufReader reader(message);
    std::string_view rest = message;
    while (const std::optional<ProtobufField> field = reader.next()) {
      const std::string_view whole = rest.substr(0, rest.size() - reader.rest().size());
      rest = reader.rest();
      std::optional<std::string> text;
      if (field->number == kPieces && field->type == ProtobufField::Type::kBytes) {
        ProtobufReader piece(field->bytes);
        while (const std::optional<ProtobufField> part = piece.next()) {
          if (part->number == kText && part->type == ProtobufField::Type::kBytes) text = part->bytes;
        }
      }
      // A piece that is not a token of this tokenizer has no row to lose.
      if (!text || !id_of_.contains(*text) || keeps(*text)) left += whole;
    }
    return left;
  }

  std::vector<std::int32_t> ids_;
  std::unordered_map<std::string, std::int32_t> id_of_;
};

}  // namespace

void keep_needed_tokens(const TokenizerDefinition& definition, std::vector<bool>& kept) {
  check(kept.size() == definition.tokens.size(), "there is a flag for each token");
  Needed needed(definition, kept);
  const SpecialTokens& special = definition.special;
  for (const std::int32_t id : {special.bos, special.pad, special.eos, special.unk, special.mask}) needed.keep(id);
  for (const AddedToken& token : definition.added) needed.keep(token.id);
  std::visit(needed, definition.model);
}

std::vector<std::int32_t> trimmed_ids(const std::vector<bool>& kept) {
  std::vector<std::int32_t> ids;
  std::int32_t next = 0;
  for (const bool stays : kept) ids.push_back(stays ? next++ : kNoToken);
  return ids;
}

std::vector<TokenizerFile> trimmed_files(const TokenizerDefinition& definition, const std::vector<bool>& kept) {
  const Trimmer trimmer(definition, kept);
  std::vector<TokenizerFile> files = tokenizer_files(definition);
  for (TokenizerFile& file : files) file.content = trimmer.trimmed(file);
  return files;
}

}  // namespace plimsoll
