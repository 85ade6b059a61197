#include "model/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

bool means(const std::string& target, const std::string& module) {
  return matches_pattern(target, module) || matches_pattern("*." + target, module);
}

}  // namespace

std::vector<LinearMap> encoder_linear_maps(const LayoutLMv3Config& config) {
  const std::int64_t d = config.hidden_size, f = config.intermediate_size;
  std::vector<LinearMap> maps;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("layoutlmv3.encoder.layer.{}.", i);
    for (const char* part : {"query", "key", "value"}) maps.push_back({layer + "attention.self." + part, d, d});
    maps.push_back({layer + "attention.output.dense", d, d});
    maps.push_back({layer + "intermediate.dense", f, d});
    maps.push_back({layer + "output.dense", d, f});
  }
  return maps;
}

std::set<std::string> lora_modules(const LayoutLMv3Config& config, const std::vector<std::string>& targets) {
  std::set<std::string> modules;
  const std::vector<LinearMap> maps = encoder_linear_maps(config);
  for (const std::string& target : targets) {
    bool any = false;
    for (const LinearMap& map : maps) {
      if (target != "all-linear" && !means(target, map.name)) continue;
      modules.insert(map.name);
      any = true;
    }
    if (any) continue;
    throw UsageError({.what = "no linear map of the encoder has that name",
                      .where = "--lora-target-modules",
                      .found = target,
                      .allowed = fmt::format("all-linear, {}, or a map's whole name: {}", fmt::join(kLoraTargets, ", "),
                                             maps.front().name),
                      .remedy = "omit the option for adapters on all six maps of every layer"});
  }
  return modules;
}

std::vector<std::string> lora_targets(const LayoutLMv3Config& config, const std::set<std::string>& modules) {
  std::vector<std::string> targets;
  for (const char* target : kLoraTargets) {
    bool all = true;
    for (const std::string& module : lora_modules(config, {target})) all = all && modules.contains(module);
    if (all) targets.emplace_back(target);
  }
  if (!targets.empty() && lora_modules(config, targets) == modules) return targets;
  return {modules.begin(), modules.end()};
}

}  // namespace plimsoll
