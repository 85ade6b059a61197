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

std::set<std::string> lora_modules(const std::vector<LinearMap>& maps, const std::vector<std::string>& targets) {
  std::set<std::string> modules;
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

std::vector<std::string> lora_targets(const std::vector<LinearMap>& maps, const std::set<std::string>& modules) {
  std::vector<std::string> targets;
  for (const char* target : kLoraTargets) {
    bool all = true;
    for (const std::string& module : lora_modules(maps, {target})) all = all && modules.contains(module);
    if (all) targets.emplace_back(target);
  }
  if (!targets.empty() && lora_modules(maps, targets) == modules) return targets;
  return {modules.begin(), modules.end()};
}

}  // namespace plimsoll
