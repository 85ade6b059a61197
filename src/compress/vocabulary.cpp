#include "compress/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "compress/copied_tensor.h"
#include "data/tokenizer_trim.h"
#include "formats/json.h"
#include "formats/safetensors.h"

namespace plimsoll {
namespace {

constexpr const char* kGeneration = "generation_config.json";

// Calls visit(id) for each whole number in a value, or in the lists in it.
template <typename Json, typename Visit>
void for_each_number(Json& value, const Visit& visit) {
  if (value.is_number_integer()) visit(value);
  if (!value.is_array()) return;
  for (auto& each : value) for_each_number(each, visit);
}

// Calls visit(id) for every token's number that a config names: "eos_token_id": 2, or a list of them; the tokens that
// generation suppresses, forces or biases, in lists of lists.
template <typename Json, typename Visit>
void for_each_named_token(Json& config, const Visit& visit) {
  constexpr std::string_view kLists[] = {"suppress_tokens", "begin_suppress_tokens", "bad_words_ids",
                                         "force_words_ids"};
  if (!config.is_object()) return;
  for (auto& [key, value] : config.items()) {
    if (key.ends_with("_token_id") || std::ranges::find(kLists, key) != std::end(kLists)) for_each_number(value, visit);
    // [[ids, bias], …] and [[place, id], …]
    const bool biases = key == "sequence_bias", forces = key == "forced_decoder_ids";
    if ((!biases && !forces) || !value.is_array()) continue;
    for (auto& pair : value) {
      if (pair.is_array() && pair.size() == 2) for_each_number(pair[biases ? 0 : 1], visit);
    }
  }
}

void renumber(nlohmann::json& config, const std::vector<std::int32_t>& now) {
  for_each_named_token(config, [&](nlohmann::json& id) {
    const auto old = id.get<std::int64_t>();
    if (old >= 0 && old < std::ssize(now)) id = now[static_cast<std::size_t>(old)];
  });
}

// Returns the old config.json, with the new vocabulary's size and ids.
nlohmann::json trimmed_config(const ModelBundle& bundle, const std::vector<std::int32_t>& now, std::size_t kept) {
  nlohmann::json config = bundle.config.source;
  config["vocab_size"] = kept;
  renumber(config, now);
  if (config.contains("quantization_config")) {  // weights are written as floats
    config.erase("quantization_config");
    config.erase("torch_dtype");
    config["dtype"] = "float32";
  }
  return config;
}

// Tokens that a config names stay, whether or not the tokenizer knows what they are for.
void keep_named_tokens(const nlohmann::json& config, std::vector<bool>& kept) {
  for_each_named_token(config, [&](const nlohmann::json& id) {
    const auto number = id.get<std::int64_t>();
    if (number >= 0 && number < std::ssize(kept)) kept[static_cast<std::size_t>(number)] = true;
  });
}

// Returns the content of generation_config.json; null if there is none.
nlohmann::json generation_config(const ModelBundle& bundle) {
  const auto found = bundle.companions.find(kGeneration);
  return found == bundle.companions.end() ? nlohmann::json() : parse_json(found->second, kGeneration);
}

// Returns the file's tensors that have a row for each token: the word embedding, a language model's head, and what a
// head that is not ours (as of masked language models) has, which is known by its length alone.
std::set<std::string> tensors_with_tokens(const ModelBundle& bundle) {
  const std::int32_t tokens = bundle.facts().vocab_size;
  // A tensor whose rows may as well be hidden values stays whole, and whoever opens the model sees another size.
  const bool tells = tokens != bundle.facts().hidden_size;
  std::set<std::string> ours, names;
  for (const ParameterSpec& spec : bundle.specs()) {
    const auto name = name_in_weights(bundle.source(0), spec.name);
    if (!name) continue;
    ours.insert(*name);
    if (spec.part == ParameterSpec::Part::kWordEmbedding || spec.part == ParameterSpec::Part::kLanguageHead) {
      names.insert(*name);
    }
  }
  for (const TensorEntry& entry : bundle.weights->entries()) {
    const Shape& shape = entry.type.shape;
    if (tells && !ours.contains(entry.name) && shape.rank() > 0 && shape[0] == tokens) names.insert(entry.name);
  }
  return names;
}

Shape with_rows(const Shape& shape, std::int64_t rows) {
  return shape.rank() == 1 ? Shape{rows} : Shape{rows, shape.elements() / shape[0]};
}

}  // namespace

std::uint64_t TokenCounts::distinct() const {
  return static_cast<std::uint64_t>(std::ranges::count_if(of_token, [](std::uint64_t count) { return count > 0; }));
}

double TokenCounts::unseen_share() const {
  return tokens == 0 ? 1 : static_cast<double>(std::ranges::count(of_token, 1U)) / static_cast<double>(tokens);
}

TokenCounts count_tokens(const TokenizedPages& pages, std::int32_t vocab_size) {
  TokenCounts counts{.of_token = std::vector<std::uint64_t>(static_cast<std::size_t>(vocab_size)),
                     .pages = pages.size()};
  PageTokens tokens;
  const auto count = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) ++counts.of_token.at(static_cast<std::size_t>(id));
    counts.tokens += ids.size();
  };
  for (std::size_t i = 0; i < pages.size(); ++i) {
    counts.words += pages.read(i, tokens).words.size();
    count(tokens.ids);
    for (const std::vector<std::int32_t>& prompt : tokens.prompts) count(prompt);
  }
  return counts;
}

TrimmedModel::TrimmedModel(const ModelBundle& bundle, const TokenCounts& counts, const std::filesystem::path& scratch)
    : original_(bundle), trimmed_(bundle) {
  check(bundle.weights != nullptr && !bundle.options.lora.enabled(), "there are weights to trim");
  // A Tokenizer does not keep all of its definition. The class that reads it may be named in the model's own
  // config.json.
  const auto put_config = [&](const nlohmann::json& config) {
    write_text_file(scratch / "config.json", config.dump(2) + "\n");
  };
  put_config(bundle.config.source);
  bundle.tokenizer->save(scratch);
  const TokenizerDefinition definition = read_tokenizer_files(scratch);
  std::vector<bool> kept(definition.tokens.size());
  for (std::size_t id = 0; id < kept.size(); ++id) kept[id] = counts.of_token.at(id) > 0;
  keep_named_tokens(bundle.config.source, kept);
  nlohmann::json generation = generation_config(bundle);
  keep_named_tokens(generation, kept);
  // RoBERTa's models count positions from padding, whose id must not change.
  const auto token = bundle.facts().token;
  if (token.first_position > 0) std::fill_n(kept.begin(), token.pad_id + 1, true);
  keep_needed_tokens(definition, kept);
  now_ = trimmed_ids(kept);
  for (std::size_t id = 0; id < kept.size(); ++id) {
    if (kept[id]) kept_.push_back(static_cast<std::int32_t>(id));
  }
  const nlohmann::json config = trimmed_config(bundle, now_, kept_.size());
  put_config(config);
  for (const TokenizerFile& file : trimmed_files(definition, kept)) write_text_file(scratch / file.name, file.content);
  trimmed_.tokenizer = std::make_shared<Tokenizer>(Tokenizer::from_directory(scratch));
  trimmed_.config = parse_config(config, bundle.origin);
  trimmed_.config.task = bundle.config.task;
  if (generation.is_object()) {
    renumber(generation, now_);
    trimmed_.companions[kGeneration] = generation.dump(2) + "\n";
  }
}

std::int64_t TrimmedModel::parameters() const { return parameter_count(trimmed_.specs()); }

void TrimmedModel::verify(const TokenizedPages& before, const TokenizedPages& now) const {
  PageTokens old, found;
  const auto renumbered = [&](std::vector<std::int32_t> ids) {
    for (std::int32_t& id : ids) id = now_.at(static_cast<std::size_t>(id));
    return ids;
  };
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Page page = before.read(i, old);
    now.read(i, found);
    bool same =
        renumbered(old.ids) == found.ids && old.words == found.words && old.prompts.size() == found.prompts.size();
    for (std::size_t p = 0; same && p < old.prompts.size(); ++p) same = renumbered(old.prompts[p]) == found.prompts[p];
    check(same, [&] { return fmt::format("the trimmed tokenizer cuts {} into the same pieces", place(page)); });
  }
}

FileSum TrimmedModel::save_weights(const std::filesystem::path& path) const {
  check_parameters(original_.specs(), original_.source(0));
  const WeightsFile& weights = *original_.weights;
  const std::set<std::string> with_tokens = tensors_with_tokens(original_);
  std::vector<TensorDeclaration> declarations;
  for (const TensorEntry& entry : weights.entries()) {
    declarations.push_back({entry.name, entry.type});
    if (with_tokens.contains(entry.name))
      declarations.back().type.shape = with_rows(entry.type.shape, std::ssize(kept_));
  }
  SafetensorsWriter writer(path, std::move(declarations));
  TensorCopier copier(weights, writer);
  for (const TensorEntry& entry : weights.entries()) {
    copier.check_numbers(entry);
    if (!with_tokens.contains(entry.name)) {
      copier.copy(entry);
      continue;
    }
    // Runs of kept rows are read at once.
    const std::int64_t columns = entry.type.shape.elements() / entry.type.shape[0];
    for (std::size_t begin = 0, end = 0; begin < kept_.size(); begin = end) {
      for (end = begin + 1; end < kept_.size() && kept_[end] == kept_[end - 1] + 1;) ++end;
      copier.copy(entry, kept_[begin] * columns, (kept_[end - 1] + 1) * columns);
    }
  }
  return writer.finish();
}

FileSums TrimmedModel::save(const std::filesystem::path& directory) const {
  FileSums sums = save_model_parts(directory, trimmed_);
  // Only the vocabulary's size and ids change: an encoder without a head stays one.
  sums["config.json"] = write_text_file(directory / "config.json", trimmed_.config.source.dump(2) + "\n");
  sums["model.safetensors"] = save_weights(directory / "model.safetensors");
  return sums;
}

}  // namespace plimsoll
