#include "request/trained_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/counted.h"
#include "base/error.h"
#include "bundle/adapter.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

// Returns --modules-to-save without the head, which trains and is saved in any case.
std::set<std::string> chosen_to_save(const PartsRequest& request, const ModelDefinition& model) {
  std::vector<std::string> names;
  std::set<std::string> head;
  for (const ParameterSpec& spec : model.specs()) {
    names.push_back(spec.name);
    if (spec.is_head()) head.insert(spec.name);
  }
  std::set<std::string> modules = saved_modules(names, request.saved_modules);
  if (const std::string table = tied_table(model); !table.empty() && is_within(table, modules)) {
    throw UsageError({.what = "the word embedding is the head, too, and cannot be saved with adapters",
                      .where = "--modules-to-save",
                      .found = table,
                      .allowed = "modules without it: PEFT would leave the head as it was in the base",
                      .remedy = "omit it from --modules-to-save, or train the whole model without --lora-rank"});
  }
  std::erase_if(modules, [&](const std::string& module) {
    return std::ranges::all_of(
        names, [&](const std::string& name) { return !is_within(name, {module}) || head.contains(name); });
  });
  return modules;
}

std::set<std::string> chosen_modules(const PartsRequest& request, const std::vector<LinearMap>& maps,
                                     const std::set<std::string>& saved) {
  std::set<std::string> modules =
      lora_modules(maps, request.lora_targets.empty() ? usual_lora_targets(maps) : request.lora_targets);
  for (const std::string& name : lora_modules(maps, request.lora_excluded, "--exclude-modules")) modules.erase(name);
  for (const std::int64_t layer : request.lora_layers) {
    if (std::ranges::any_of(maps, [layer](const LinearMap& map) { return layer_of(map.name) == layer; })) continue;
    throw UsageError({.what = "the encoder has no such layer",
                      .where = "--layers-to-transform",
                      .found = fmt::format("{}", layer),
                      .allowed = fmt::format("0 to {}", layer_of(maps.back().name))});
  }
  if (!request.lora_layers.empty()) {
    std::erase_if(modules, [&](const std::string& module) {
      return std::ranges::find(request.lora_layers, layer_of(module)) == request.lora_layers.end();
    });
  }
  std::erase_if(modules, [&](const std::string& module) { return is_within(module, saved); });
  if (!modules.empty()) return modules;
  throw UsageError({.what = "no linear map is left to have an adapter",
                    .where = "--lora-target-modules, --exclude-modules, --layers-to-transform, --modules-to-save",
                    .found = "every map is left out, or trains in full",
                    .allowed = "at least one linear map that is targeted and not left out",
                    .remedy = "exclude or save fewer modules"});
}

// Returns the modules' values by --rank-pattern or --alpha-pattern.
std::map<std::string, double> values_of(const LoraPatterns& patterns, const std::set<std::string>& modules,
                                        const char* option, double least, bool whole) {
  for (const auto& [pattern, value] : patterns) {
    if (!(value >= least) || value > 65536 || (whole && value != std::floor(value))) {
      throw UsageError({.what = "a pattern has an invalid number",
                        .where = option,
                        .found = fmt::format("{}={}", pattern, value),
                        .allowed = fmt::format("a {}number from {} to 65536", whole ? "whole " : "", least)});
    }
    std::map<std::string, double> matched;
    try {
      matched = pattern_values({{pattern, value}}, modules);
    } catch (const std::invalid_argument& error) {
      throw UsageError({.what = fmt::format("a pattern is no regular expression: {}", error.what()),
                        .where = option,
                        .found = pattern,
                        .allowed = "a regular expression, such as query or layer\\.[0-5]\\..*"});
    }
    if (!matched.empty()) continue;
    throw UsageError({.what = "the pattern matches no linear map that has an adapter",
                      .where = option,
                      .found = pattern,
                      .allowed = fmt::format("a regular expression for the name of at least one of {}, or for what "
                                             "follows a dot in it, such as {}",
                                             counted(modules.size(), "map"), *modules.begin())});
  }
  return pattern_values(patterns, modules);
}

LoraOptions chosen_adapters(const PartsRequest& request, const ModelDefinition& model) {
  const std::set<std::string> saved = chosen_to_save(request, model);
  LoraOptions lora{.rank = request.lora_rank,
                   .alpha = request.lora_alpha > 0 ? request.lora_alpha : 2 * static_cast<double>(request.lora_rank),
                   .dropout = request.lora_dropout,
                   .rslora = request.lora_rslora,
                   .dora = request.lora_dora,
                   .modules = chosen_modules(request, model.encoder().linear_maps(), saved),
                   .saved = saved};
  lora.alphas = values_of(request.alpha_pattern, lora.modules, "--alpha-pattern", 0, false);
  for (const auto& [module, rank] : values_of(request.rank_pattern, lora.modules, "--rank-pattern", 1, true)) {
    lora.ranks[module] = static_cast<std::int64_t>(rank);
  }
  return lora;
}

// Weights that train must be floats, but the file has codes.
void refuse_training_of_codes(const ModelBundle& bundle) {
  for (const ParameterSpec& spec : bundle.specs()) {
    if (!spec.trains || spec.part != ParameterSpec::Part::kEncoderMatrix) continue;
    if (bundle.options.kept_in_floats.contains(spec.name)) continue;
    throw UsageError({.what = "the model's weights are in 4 or 8 bits, and they do not train",
                      .where = "--model",
                      .found = fmt::format("{}, where '{}' would train", bundle.origin, spec.name),
                      .allowed = "frozen weights: adapters (--lora-rank) or --freeze",
                      .remedy = "pass --lora-rank 16 for adapters; to train every weight, take the model that this one "
                                "was made of"});
  }
}

}  // namespace

void choose_trained_parts(ModelBundle& bundle, const PartsRequest& request) {
  bundle.options.freeze = request.freeze;
  if (request.lora_rank > 0) {
    const std::string asked = fmt::format("--lora-rank {} with --model {}", request.lora_rank, bundle.origin);
    if (bundle.weights == nullptr) {
      throw UsageError({.what = "adapters need a base model with stored weights",
                        .where = "--lora-rank",
                        .found = asked + ", a preset, whose weights would be random and lost",
                        .allowed = "a model directory",
                        .remedy = fmt::format("write the preset first: plimsoll init --model {} --output-dir DIR; then "
                                              "train with --model DIR",
                                              bundle.origin)});
    }
    if (bundle.options.lora.enabled()) {
      throw UsageError(
          {.what = "the model has adapters already",
           .where = "--lora-rank",
           .found = fmt::format("{}, adapters of rank {}", asked, bundle.options.lora.rank),
           .allowed = "no --lora-rank, to continue training those adapters; or a model without adapters",
           .remedy = fmt::format("omit --lora-rank; or merge them first: plimsoll merge --adapter {} --output-dir DIR",
                                 bundle.origin)});
    }
    bundle.base = std::filesystem::absolute(bundle.origin).lexically_normal().string();
    bundle.options.lora = chosen_adapters(request, bundle.definition());
    bundle.base_fingerprint = fingerprint_of_base(bundle);
  }
  check_trained_parts(bundle.definition(), bundle.options);
  if (bundle.quantized) refuse_training_of_codes(bundle);
  if (!is_coded(request.frozen_weights)) return;
  bundle.options.frozen_weights = request.frozen_weights;
  bundle.options.frozen_embedding = DType::kQ8;
  const std::vector<ParameterSpec> specs = bundle.specs();
  const bool any = std::any_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
    return is_coded(parameter_type(spec, DType::kF32, bundle.options));
  });
  if (any) return;
  const char* const option = request.frozen_weights == DType::kQ8 ? "--load-in-8bit" : "--load-in-4bit";
  throw UsageError(
      {.what = "trained weights cannot be quantized",
       .where = option,
       .found = "every weight of the encoder is trained",
       .allowed = fmt::format("frozen weights: with --lora-rank, or --freeze '{}.*'", bundle.config.encoder->prefix()),
       .remedy = fmt::format("pass --lora-rank 8 {}", option)});
}

}  // namespace plimsoll
