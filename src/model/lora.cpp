#include "model/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <regex>
#include <stdexcept>

#include "base/counted.h"
#include "base/error.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

bool means(const std::string& target, const std::string& module) {
  return matches_pattern(target, module) || matches_pattern("*." + target, module);
}

std::regex expression_of(const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace

std::int64_t LoraOptions::rank_of(const std::string& module) const {
  const auto other = ranks.find(module);
  return other == ranks.end() ? rank : other->second;
}

double LoraOptions::scale_of(const std::string& module) const {
  const auto other = alphas.find(module);
  const auto columns = static_cast<double>(rank_of(module));
  return (other == alphas.end() ? alpha : other->second) / (rslora ? std::sqrt(columns) : columns);
}

bool LoraOptions::saves(const std::string& parameter) const { return is_within(parameter, saved); }

bool is_within(const std::string& name, const std::set<std::string>& modules) {
  return std::ranges::any_of(
      modules, [&](const std::string& module) { return name == module || name.starts_with(module + "."); });
}

std::set<std::string> saved_modules(const std::vector<std::string>& parameters, const std::vector<std::string>& names) {
  std::set<std::string> all;  // every module above a parameter
  for (const std::string& parameter : parameters) {
    for (std::size_t dot = parameter.find('.'); dot != std::string::npos; dot = parameter.find('.', dot + 1)) {
      all.insert(parameter.substr(0, dot));
    }
  }
  const auto refuse = [&](std::string what, const std::string& name, std::string allowed) {
    throw UsageError({.what = std::move(what),
                      .where = "--modules-to-save",
                      .found = name,
                      .allowed = std::move(allowed),
                      .remedy = "the head is trained and saved in any case"});
  };
  std::set<std::string> modules;
  for (const std::string& name : names) {
    bool any = false;
    for (const std::string& module : all) {
      if (!means(name, module)) continue;
      const auto is_layer = [&](const std::string& other) {
        return other.starts_with(module + ".") &&
               std::isdigit(static_cast<unsigned char>(other[module.size() + 1])) != 0;
      };
      if (std::ranges::any_of(all, is_layer)) {
        refuse("a list of layers is no module that PEFT could save", name, fmt::format("{}.0 and the like", name));
      }
      modules.insert(module);
      any = true;
    }
    if (!any) {
      refuse("no module of the model has that name", name,
             fmt::format("the name of a module, or the end of one, such as LayerNorm or {}", *std::next(all.begin())));
    }
  }
  std::erase_if(modules, [outer = modules](const std::string& module) {
    const std::size_t dot = module.rfind('.');
    return dot != std::string::npos && is_within(module.substr(0, dot), outer);
  });
  return modules;
}

std::string adapters_text(const LoraOptions& lora, bool with_head) {
  std::int64_t least = lora.rank, most = lora.rank;
  if (!lora.modules.empty()) least = most = lora.rank_of(*lora.modules.begin());
  for (const std::string& module : lora.modules) {
    least = std::min(least, lora.rank_of(module));
    most = std::max(most, lora.rank_of(module));
  }
  const std::string kind = lora.dora ? "DoRA adapters" : "adapters";
  const std::string ranks =
      least == most ? fmt::format("{} of rank {}", kind, most) : fmt::format("{} of ranks {} to {}", kind, least, most);
  if (lora.saved.empty()) return with_head ? ranks + " and the head" : ranks;
  return fmt::format("{}{} and {}", ranks, with_head ? ", the head" : "", counted(lora.saved.size(), "module"));
}

std::vector<std::string> usual_lora_targets(const std::vector<LinearMap>& maps) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"query", "key", "value", "attention.output.dense", "intermediate.dense",
                                 "output.dense"},
        std::vector<std::string>{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
        std::vector<std::string>{"c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"}}) {
    const bool known = std::ranges::all_of(names, [&](const std::string& name) {
      return std::ranges::any_of(maps, [&](const LinearMap& map) { return means(name, map.name); });
    });
    if (known) return names;
  }
  return {"all-linear"};
}

std::set<std::string> lora_modules(const std::vector<LinearMap>& maps, const std::vector<std::string>& targets,
                                   const char* option) {
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
                      .where = option,
                      .found = target,
                      .allowed = fmt::format("all-linear, {}, or a map's whole name: {}",
                                             fmt::join(usual_lora_targets(maps), ", "), maps.front().name),
                      .remedy = "omit the option for adapters on all of these in every layer"});
  }
  return modules;
}

std::vector<std::string> lora_targets(const std::vector<LinearMap>& maps, const std::set<std::string>& modules) {
  std::vector<std::string> targets;
  for (const std::string& target : usual_lora_targets(maps)) {
    if (target == "all-linear") break;  // within a list, PEFT takes it for a name
    bool all = true;
    for (const std::string& module : lora_modules(maps, {target})) all = all && modules.contains(module);
    if (all) targets.push_back(target);
  }
  if (!targets.empty() && lora_modules(maps, targets) == modules) return targets;
  return {modules.begin(), modules.end()};
}

std::int64_t layer_of(const std::string& module) {
  std::smatch number;
  static const std::regex kNumber("\\.([0-9]{1,9})\\.");
  return std::regex_search(module, number, kNumber) ? std::stoll(number[1]) : -1;
}

std::map<std::string, double> pattern_values(const LoraPatterns& patterns, const std::set<std::string>& modules) {
  std::map<std::string, double> values;
  for (const auto& [pattern, value] : patterns) {
    const std::regex expression = expression_of("(.*\\.)?(" + pattern + ")");
    for (const std::string& module : modules) {
      if (std::regex_match(module, expression)) values.emplace(module, value);  // an earlier value stays
    }
  }
  return values;
}

LoraPatterns patterns_of(const std::map<std::string, double>& values, const std::vector<LinearMap>& maps) {
  std::map<double, std::set<std::string>> modules;
  for (const auto& [module, value] : values) modules[value].insert(module);
  LoraPatterns patterns;
  for (const auto& [value, group] : modules) {
    for (std::string& target : lora_targets(maps, group)) patterns.emplace_back(std::move(target), value);
  }
  return patterns;
}

}  // namespace plimsoll
