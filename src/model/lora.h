// Low-rank adapters (Hu et al. 2021, LoRA) beside the encoder's linear maps: y = W x + b + scale B A dropout(x), where
// only A f[rank, in] and B f[out, rank] train. The scale is alpha / rank, or alpha / sqrt(rank) (Kalajdzievski 2023,
// rsLoRA). With DoRA (Liu et al. 2024) a magnitude m[out] trains too: each row of W + scale B A is divided by its norm,
// which counts as a constant in gradients, and multiplied by the row's magnitude. Names, defaults and what dropout is
// applied to are those of Hugging Face's PEFT.
//
//   LoraOptions lora{.rank = 8, .alpha = 16};
//   lora.modules = lora_modules(model.encoder().linear_maps(), {"query", "value"});
//   // parameters "encoder.layer.0.attention.self.query.lora_A.weight", "….lora_B.weight", …
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensor/shape.h"

namespace plimsoll {

struct LoraOptions {
  std::int64_t rank = 0;  // 0: no adapters
  double alpha = 0;
  double dropout = 0;   // of the adapter's input
  bool rslora = false;  // the scale is alpha / sqrt(rank)
  bool dora = false;
  std::set<std::string> modules{};  // "encoder.layer.0.attention.self.query", …
  // The rank or alpha of modules for which it differs.
  std::map<std::string, std::int64_t> ranks{};
  std::map<std::string, double> alphas{};
  // Modules of the encoder that train in full and are saved with the adapters, PEFT's modules_to_save:
  // "encoder.layer.0.output.LayerNorm". They hold none of `modules`.
  std::set<std::string> saved{};

  bool enabled() const { return rank > 0; }
  std::int64_t rank_of(const std::string& module) const;
  double scale_of(const std::string& module) const;
  bool saves(const std::string& parameter) const;
  friend bool operator==(const LoraOptions&, const LoraOptions&) = default;
};

struct LinearMap {
  std::string name;
  std::int64_t out = 0, in = 0;
};
// Returns the linear maps of a layer, as --lora-target-modules names them: six in an encoder's layers, seven in a
// decoder's.
std::vector<std::string> usual_lora_targets(const std::vector<LinearMap>& maps);
// Returns the modules among `maps` that match the targets, as PEFT reads a list of them: by the whole name, or by the
// end of the name after a dot. So "output.dense" matches two modules of a layer. Shell patterns work, too. Throws
// UsageError, naming `option`, for a target that matches none.
std::set<std::string> lora_modules(const std::vector<LinearMap>& maps, const std::vector<std::string>& targets,
                                   const char* option = "--lora-target-modules");
// Returns the number of the encoder's layer that a module belongs to: the first part of its name that is a number; -1:
// none.
std::int64_t layer_of(const std::string& module);

// PEFT's rank_pattern or alpha_pattern, in its order.
using LoraPatterns = std::vector<std::pair<std::string, double>>;
// Returns, for each of `modules` that a pattern matches, the number of the first pattern that does. A pattern is a
// regular expression for a name or for the end of a name after a dot, as in PEFT's get_pattern_key. Throws
// std::invalid_argument for a text that is not a regular expression.
std::map<std::string, double> pattern_values(const LoraPatterns& patterns, const std::set<std::string>& modules);
// Returns patterns that give each of `maps` in `values` its number, and match no other map.
LoraPatterns patterns_of(const std::map<std::string, double>& values, const std::vector<LinearMap>& maps);

// Returns the shortest list that PEFT and `lora_modules` read as these modules.
std::vector<std::string> lora_targets(const std::vector<LinearMap>& maps, const std::set<std::string>& modules);

// Returns whether a parameter, or a module, is within one of these modules.
bool is_within(const std::string& name, const std::set<std::string>& modules);
// Returns the modules of these parameters that the names match, as targets match maps, without modules within other
// matches. Throws UsageError for a name that matches none, or that matches a list of layers, which is not a module that
// could be replaced.
std::set<std::string> saved_modules(const std::vector<std::string>& parameters, const std::vector<std::string>& names);
// Returns "adapters of rank 8, the head and 2 modules"; a language model's head does not train with them.
std::string adapters_text(const LoraOptions& lora, bool with_head);

inline std::string lora_a_name(const std::string& module) { return module + ".lora_A.weight"; }
inline std::string magnitude_name(const std::string& module) { return module + ".lora_magnitude_vector"; }
inline std::string lora_b_name(const std::string& module) { return module + ".lora_B.weight"; }

}  // namespace plimsoll
