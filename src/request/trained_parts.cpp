#include "request/trained_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/trained_parts.h"

namespace plimsoll {

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
    const std::vector<std::string> all(kLoraTargets.begin(), kLoraTargets.end());
    bundle.base = std::filesystem::absolute(bundle.origin).lexically_normal().string();
    bundle.options.lora = {
        .rank = request.lora_rank,
        .alpha = request.lora_alpha > 0 ? request.lora_alpha : 2 * static_cast<double>(request.lora_rank),
        .dropout = request.lora_dropout,
        .modules = lora_modules(bundle.definition().encoder().linear_maps(),
                                request.lora_targets.empty() ? all : request.lora_targets)};
  }
  check_trained_parts(bundle.definition(), bundle.options);
  if (!is_coded(request.frozen_weights)) return;
  bundle.options.frozen_weights = request.frozen_weights;
  const std::vector<ParameterSpec> specs = bundle.specs();
  const bool any = std::any_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
    return is_coded(parameter_type(spec, DType::kF32, bundle.options));
  });
  if (any) return;
  const char* const option = request.frozen_weights == DType::kQ8 ? "--load-in-8bit" : "--load-in-4bit";
  throw UsageError({.what = "trained weights cannot be quantized",
                    .where = option,
                    .found = "every weight of the encoder is trained",
                    .allowed = "frozen weights: with --lora-rank, or --freeze 'layoutlmv3.encoder.*'",
                    .remedy = fmt::format("pass --lora-rank 8 {}", option)});
}

}  // namespace plimsoll
