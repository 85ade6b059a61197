// Low-rank adapters (Hu et al. 2021, LoRA) beside the encoder's linear maps: y = W x + b + (alpha / rank) B A
// dropout(x), where only A f[rank, in] and B f[out, rank] train. Names and defaults are those of Hugging Face's PEFT.
//
//   LoraOptions lora{.rank = 8, .alpha = 16};
//   lora.modules = lora_modules(model.encoder().linear_maps(), {"query", "value"});
//   // parameters "encoder.layer.0.attention.self.query.lora_A.weight", "….lora_B.weight", …
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace plimsoll {

struct LoraOptions {
  std::int64_t rank = 0;  // 0: no adapters
  double alpha = 0;
  double dropout = 0;               // of the adapter's input
  std::set<std::string> modules{};  // "encoder.layer.0.attention.self.query", …

  bool enabled() const { return rank > 0; }
  double scale() const { return alpha / static_cast<double>(rank); }
  friend bool operator==(const LoraOptions&, const LoraOptions&) = default;
};

// The six linear maps of a layer, as --lora-target-modules names them.
inline constexpr std::array<const char*, 6> kLoraTargets = {
    "query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"};

struct LinearMap {
  std::string name;
  std::int64_t out = 0, in = 0;
};
// The modules among `maps` that targets mean, as PEFT reads a list of them: those of that name, or whose name ends in
// "." and the target. So "output.dense" is both of a layer's. Shell patterns are taken, too. Throws UsageError for a
// target that means none.
std::set<std::string> lora_modules(const std::vector<LinearMap>& maps, const std::vector<std::string>& targets);

// The shortest list that PEFT and `lora_modules` read as these modules.
std::vector<std::string> lora_targets(const std::vector<LinearMap>& maps, const std::set<std::string>& modules);

inline std::string lora_a_name(const std::string& module) { return module + ".lora_A.weight"; }
inline std::string lora_b_name(const std::string& module) { return module + ".lora_B.weight"; }

}  // namespace plimsoll
