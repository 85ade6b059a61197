#include "train/batch_binding.h"

#include <cstring>
#include <string_view>

#include "transform/optimizer.h"

namespace plimsoll {

BatchBinding::BatchBinding(const Program& program, const Batch& batch) {
  const auto optional = [&](std::string_view name) {
    return program.has_source(name) ? program.source(name) : TensorView();
  };
  for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
    const auto& [name, view] = batch.tensors()[i];
    if (!program.has_source(name)) continue;
    copies_.push_back({.tensor = i, .input = program.source(name)});
    const bool same = copies_.back().input.type() == view.type();
    check(same || (name == "pixel_values" && view.elements() == copies_.back().input.elements()),
          "batch and program have the same capacities");
  }
  loss_scale_ = program.source("loss_scale");
  dropout_key_ = program.source("dropout_key");
  learning_rate_ = optional(kLearningRateInput);
  step_ = optional(kStepInput);
  max_grad_norm_ = optional(kMaxGradNormInput);
  unscale_ = optional(kUnscaleInput);
  keep_ = optional(kKeepGradientsInput);
}

void BatchBinding::copy(const Batch& batch) const {
  for (const Copy& copy : copies_) {
    if (copy.input.dtype() == DType::kF32) {
      batch.write_pixels(copy.input.span<float>());
      continue;
    }
    std::memcpy(copy.input.raw(), batch.tensors()[copy.tensor].second.raw(), copy.input.bytes());
  }
}

void BatchBinding::set_loss_scale(float scale) const { *loss_scale_.data<float>() = scale; }

void BatchBinding::set_dropout_key(PhiloxKey key) const { std::memcpy(dropout_key_.raw(), key.data(), sizeof(key)); }

void BatchBinding::set_update(double learning_rate, std::int64_t step, double max_grad_norm, double loss_scale) const {
  check(loss_scale == 1 || learning_rate_.raw() == nullptr || unscale_.raw() != nullptr,
        "a program that updates from a scaled loss unscales");
  if (learning_rate_.raw() == nullptr) return;
  *learning_rate_.data<float>() = static_cast<float>(learning_rate);
  *step_.data<std::int32_t>() = static_cast<std::int32_t>(step);
  *max_grad_norm_.data<float>() = static_cast<float>(max_grad_norm);
  if (unscale_.raw() != nullptr) *unscale_.data<float>() = static_cast<float>(1 / loss_scale);
}

void BatchBinding::set_keep_gradients(bool keep) const {
  if (keep_.raw() != nullptr) *keep_.data<std::int32_t>() = keep ? 1 : 0;
}

}  // namespace plimsoll
