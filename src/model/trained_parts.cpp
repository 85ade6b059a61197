#include "model/trained_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/nearest.h"

namespace plimsoll {
namespace {

// Returns what a pattern that matches nothing was probably meant to be.
std::vector<std::string> near_matches(const std::string& pattern, const std::vector<ParameterSpec>& specs,
                                      const std::string& prefix) {
  const auto matches_any = [&](const std::string& other) {
    return std::any_of(specs.begin(), specs.end(), [&](const auto& spec) { return matches_pattern(other, spec.name); });
  };
  // A module's name without the rest, a name without the model's prefix, or a part of either.
  for (const std::string& other : {pattern + ".*", pattern + "*", prefix + pattern, prefix + pattern + ".*",
                                   "*." + pattern, "*." + pattern + ".*"}) {
    if (matches_any(other)) return {other};
  }
  std::vector<std::pair<std::size_t, std::string>> by_distance;
  std::set<std::string> candidates;
  for (const ParameterSpec& spec : specs) {
    candidates.insert(spec.name);
    for (std::size_t dot = spec.name.find('.'); pattern.ends_with('*') && dot != std::string::npos;
         dot = spec.name.find('.', dot + 1)) {
      candidates.insert(spec.name.substr(0, dot + 1) + "*");
    }
  }
  for (const std::string& name : candidates) by_distance.emplace_back(edit_distance(pattern, name), name);
  std::sort(by_distance.begin(), by_distance.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, by_distance.size()); ++i) names.push_back(by_distance[i].second);
  return names;
}

}  // namespace

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

std::string embeddings_pattern(const ModelDefinition& model) {
  const std::vector<ParameterSpec> specs = model.specs();
  const auto table = std::ranges::find(specs, ParameterSpec::Part::kWordEmbedding, &ParameterSpec::part);
  check(table != specs.end(), "a model has a word embedding");
  constexpr std::string_view kFolder = ".embeddings.";
  const std::size_t folder = table->name.find(kFolder);
  return folder == std::string::npos ? table->name : table->name.substr(0, folder + kFolder.size()) + "*";
}

void check_trained_parts(const ModelDefinition& model, const ModelOptions& options) {
  const std::vector<ParameterSpec> specs = model.specs(options);
  const std::string prefix = fmt::format("{}.", model.encoder().prefix());
  for (const std::string& pattern : options.freeze) {
    const bool matches = std::any_of(specs.begin(), specs.end(),
                                     [&](const ParameterSpec& spec) { return matches_pattern(pattern, spec.name); });
    if (matches) continue;
    throw UsageError(
        {.what = "the pattern matches no parameter",
         .where = "--freeze",
         .found = pattern,
         .allowed = fmt::format("a pattern that matches the whole name of at least one of {}, "
                                "such as {}",
                                counted(specs.size(), "parameter"), embeddings_pattern(model)),
         .remedy = fmt::format("did you mean {}?", fmt::join(near_matches(pattern, specs, prefix), ", or "))});
  }
  if (trained_parameter_count(specs) > 0) return;
  throw UsageError({.what = "every parameter is frozen: there is nothing to train",
                    .where = "--freeze",
                    .found = fmt::format("{}", fmt::join(options.freeze, ", ")),
                    .allowed = "patterns that leave at least one parameter, such as the head's, classifier.*",
                    .remedy = "omit a pattern; plimsoll eval measures a model as it is"});
}

std::int64_t trained_parameter_count(const std::vector<ParameterSpec>& specs) {
  return std::accumulate(specs.begin(), specs.end(), std::int64_t{0}, [](std::int64_t sum, const ParameterSpec& spec) {
    return sum + (spec.trains ? spec.file_shape.elements() : 0);
  });
}

std::string tied_table(const ModelDefinition& model) {
  const std::string table(model.shared_head()->scoring_weight());
  return !table.empty() && model.encoder().language_head().tied ? table : std::string();
}

bool trains_head(const ModelDefinition& model, const ModelOptions& options) {
  const std::vector<ParameterSpec> specs = model.specs(options);
  return std::ranges::any_of(specs, [](const ParameterSpec& spec) { return spec.trains && spec.is_head(); });
}

void hold_in_codes(ModelOptions& options, DType code, bool rounds_activations) {
  options.freeze = {"*"};
  options.frozen_weights = code;
  options.frozen_embedding = DType::kQ8;
  options.rounds_activations = rounds_activations;
}

std::string trained_parts_text(const ModelDefinition& model, const ModelOptions& options) {
  if (options.trains_all()) return {};
  const std::vector<ParameterSpec> specs = model.specs(options);
  std::vector<std::string> why;
  if (options.lora.enabled()) why.push_back(adapters_text(options.lora, trains_head(model, options)));
  if (!options.masked_maps.empty()) why.emplace_back("factors of columns");
  if (!options.freeze.empty()) why.push_back(fmt::format("frozen: {}", fmt::join(options.freeze, ", ")));
  return fmt::format("{} of {} train ({})", trained_parameter_count(specs),
                     counted(parameter_count(specs), "parameter"), fmt::join(why, "; "));
}

}  // namespace plimsoll
