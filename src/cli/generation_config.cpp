#include "cli/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kFile = "generation_config.json";

// Keys of generation_config.json that do not change texts here: their request is always met, or has no meaning without
// beams or an assistant. Numbers must have these values.
constexpr std::array kHarmlessKeys = {"transformers_version",
                                      "_from_model_config",
                                      "bos_token_id",
                                      "pad_token_id",
                                      "use_cache",
                                      "cache_implementation",
                                      "cache_config",
                                      "return_dict_in_generate",
                                      "output_attentions",
                                      "output_hidden_states",
                                      "output_scores",
                                      "output_logits",
                                      "early_stopping",
                                      "renormalize_logits",
                                      "remove_invalid_values",
                                      "low_memory",
                                      "decoder_start_token_id",
                                      "num_assistant_tokens",
                                      "disable_compile",
                                      "assistant_confidence_threshold",
                                      "num_assistant_tokens_schedule",
                                      "max_length",  // of which the caller warns
                                      "_commit_hash",
                                      "trust_remote_code"};
constexpr std::array<std::pair<std::string_view, double>, 13> kNeutralNumbers = {{{"num_beams", 1},
                                                                                  {"num_beam_groups", 1},
                                                                                  {"num_return_sequences", 1},
                                                                                  {"length_penalty", 1},
                                                                                  {"typical_p", 1},
                                                                                  {"encoder_repetition_penalty", 1},
                                                                                  {"guidance_scale", 1},
                                                                                  {"diversity_penalty", 0},
                                                                                  {"min_length", 0},
                                                                                  {"no_repeat_ngram_size", 0},
                                                                                  {"encoder_no_repeat_ngram_size", 0},
                                                                                  {"epsilon_cutoff", 0},
                                                                                  {"eta_cutoff", 0}}};

void name_what_is_not_done(const json& config) {
  constexpr std::array kRead = {"eos_token_id", "do_sample",          "temperature",    "top_k",
                                "top_p",        "repetition_penalty", "max_new_tokens", "stop_strings"};
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(kRead, key) != kRead.end() || value.is_null() || value == false) continue;
    if (std::ranges::find(kHarmlessKeys, key) != kHarmlessKeys.end()) continue;
    const auto* const neutral = std::ranges::find(kNeutralNumbers, key, &std::pair<std::string_view, double>::first);
    if (neutral != kNeutralNumbers.end() && value.is_number() && value.get<double>() == neutral->second) continue;
    log_warning(fmt::format("generation_config.json asks for {} = {}, which is not done here", key, value.dump()));
  }
}

[[noreturn]] void refuse(const std::string& model, const char* key, const json& found, const char* allowed) {
  throw DataError({.what = fmt::format("{} has a value that makes no sense", kFile),
                   .where = fmt::format("{}/{}, key \"{}\"", model, kFile, key),
                   .found = found.dump().substr(0, 60),
                   .allowed = allowed,
                   .remedy = std::string_view(key) == "eos_token_id"
                                 ? "mend it there"
                                 : "mend it there, or pass the option of that name"});
}

json read_file(const ModelBundle& bundle) {
  const auto text = bundle.companions.find(kFile);
  if (text == bundle.companions.end()) return json::object();
  json config = parse_json(text->second, text->first);
  if (config.is_object()) return config;
  throw DataError({.what = fmt::format("{} is not valid JSON", kFile),
                   .where = bundle.origin,
                   .found = counted(text->second.size(), "byte"),
                   .allowed = "an object, as `transformers` saves it",
                   .remedy = "mend or remove the file"});
}

std::set<std::int32_t> ends_of(const ModelBundle& bundle, const json& generation) {
  constexpr const char* kKey = "eos_token_id";
  std::set<std::int32_t> ends;
  for (const json* const config : {&generation, &bundle.config.source}) {
    const auto found = config->find(kKey);
    if (!ends.empty() || found == config->end() || found->is_null()) continue;
    for (const json& id : found->is_array() ? *found : json::array({*found})) {
      if (id.is_number_integer()) {
        ends.insert(id.get<std::int32_t>());
      } else if (config == &generation) {
        refuse(bundle.origin, kKey, *found, "a token's id, or a list of them");
      }
    }
  }
  const std::int32_t own = bundle.tokenizer->special().end_of_text;
  if (ends.empty() && own != kNoToken) ends.insert(own);
  return ends;
}

// Returns the texts that end a continuation: one, or a list.
std::vector<std::string> stop_strings_of(const ModelBundle& bundle, const json& config) {
  constexpr const char* kKey = "stop_strings";
  const json found = config.value(kKey, json());
  std::vector<std::string> all;
  if (found.is_null()) return all;
  for (const json& each : found.is_array() ? found : json::array({found})) {
    if (!each.is_string() || each.get<std::string>().empty())
      refuse(bundle.origin, kKey, found, "a text, or a list of them");
    all.push_back(each.get<std::string>());
  }
  return all;
}

// Reports options that only matter for sampling if there is none.
void tell_unused_options(const Command& command) {
  for (const char* option : {"--temperature", "--top-k", "--top-p"}) {
    if (command.count(option) > 0) log_warning(fmt::format("{} changes nothing without --do-sample", option));
  }
}

}  // namespace

std::int64_t read_generation_config(const ModelBundle& bundle, const Command& command, GenerationOptions& form,
                                    std::vector<std::string>& stop_strings) {
  const json config = read_file(bundle);
  // Reads a number with the same limits as the option; `open`: `low` itself is not allowed.
  const auto number = [&](const char* key, const char* option, auto& value, double low, double high, bool open,
                          const char* allowed) {
    using Number = std::remove_reference_t<decltype(value)>;
    const auto found = config.find(key);
    if (command.count(option) > 0 || found == config.end() || found->is_null()) return;
    const bool right = std::is_integral_v<Number> ? found->is_number_integer() : found->is_number();
    const double given = right ? found->get<double>() : low - 1;
    if ((open ? given <= low : given < low) || given > high) refuse(bundle.origin, key, *found, allowed);
    value = found->get<Number>();
  };
  SamplingOptions& sampling = form.sampling;
  const json do_sample = config.value("do_sample", json());
  if (command.count("--do-sample") == 0 && !do_sample.is_null()) {
    if (!do_sample.is_boolean()) refuse(bundle.origin, "do_sample", do_sample, "true or false");
    sampling.do_sample = do_sample.get<bool>();
  }
  constexpr double kMost = 1e6;
  number("repetition_penalty", "--repetition-penalty", sampling.repetition_penalty, 0, kMost, true, "more than 0");
  number("max_new_tokens", "--max-new-tokens", form.max_new_tokens, 1, 1 << 20, false, "a whole number, 1 or more");
  if (sampling.do_sample) {
    number("temperature", "--temperature", sampling.temperature, 0, kMost, true,
           "more than 0; 1 leaves scores as they are");
    number("top_p", "--top-p", sampling.top_p, 0, 1, true, "more than 0, at most 1");
    number("top_k", "--top-k", sampling.top_k, 0, 1e9, false, "a whole number, 0 or more");
  }
  form.ends = ends_of(bundle, config);
  if (command.count("--stop-strings") == 0) stop_strings = stop_strings_of(bundle, config);
  name_what_is_not_done(config);
  if (!sampling.do_sample) tell_unused_options(command);
  const bool is_limited = command.count("--max-new-tokens") > 0 || !config.value("max_new_tokens", json()).is_null();
  const json max_length = config.value("max_length", json());
  return is_limited || !max_length.is_number_integer() ? 0 : max_length.get<std::int64_t>();
}

}  // namespace plimsoll
