#include "train/batch_binding.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "model/grad_cache.h"
#include "model/parameter_spec.h"
#include "transform/distillation.h"
#include "transform/optimizer.h"

namespace plimsoll {

BatchBinding::BatchBinding(const Program& program, const Batch& batch, WordRows word_rows)
    : program_(&program), word_rows_(std::move(word_rows)) {
  const auto optional = [&](std::string_view name) {
    return program.has_source(name) ? program.source(name) : DeviceTensor();
  };
  for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
    const auto& [name, view] = batch.tensors()[i];
    if (!program.has_source(name)) continue;
    const ValueId source = program.graph().find_source(name);
    copies_.push_back({.tensor = i,
                       .input = program.tensor(source),
                       .row_count = program.is_row_count(source) ? source : kNoValue,
                       .is_pixels = name == input::kPixelValues,
                       .is_tokens = word_rows_ != nullptr && name == input::kInputIds});
    const Copy& copy = copies_.back();
    const bool same = copy.input.type() == view.type();
    check(same || (copy.is_pixels && view.elements() == copy.input.elements()),
          "batch and program have the same capacities");
    const DeviceTensor& input = copy.input;
    if (copy.is_pixels && input.host_bytes().empty()) {
      pixels_.resize(static_cast<std::size_t>(input.elements()));
    }
    if (copy.is_tokens && input.host_bytes().empty()) {
      rows_of_tokens_.resize(static_cast<std::size_t>(input.elements()));
    }
  }
  loss_scale_ = program.source(input::kLossScale);
  label_loss_scale_ = optional(kLabelLossScaleInput);
  row_loss_scale_ = optional(kRowLossScaleInput);
  dropout_key_ = program.source(input::kDropoutKey);
  learning_rate_ = optional(kLearningRateInput);
  step_ = optional(kStepInput);
  max_grad_norm_ = optional(kMaxGradNormInput);
  unscale_ = optional(kUnscaleInput);
  keep_ = optional(kKeepGradientsInput);
  first_sample_ = optional(kFirstSampleInput);
}

void BatchBinding::copy(const Batch& batch) const {
  for (const Copy& copy : copies_) {
    if (copy.row_count != kNoValue) {
      program_->set_rows(copy.row_count, *batch.tensors()[copy.tensor].second.data<std::int32_t>());
    } else if (copy.is_tokens) {
      copy_tokens(batch, copy.input, batch.tensors()[copy.tensor].second.span<std::int32_t>());
    } else if (!copy.is_pixels) {
      copy.input.write(batch.tensors()[copy.tensor].second.byte_span());
    } else if (pixels_.empty()) {
      batch.write_pixels(copy.input.view().span<float>());
    } else {
      batch.write_pixels(pixels_);
      copy.input.write(std::as_bytes(std::span(pixels_)));
    }
  }
}

// Writes which row of the word embedding is each token's, in memory.
void BatchBinding::copy_tokens(const Batch& batch, const DeviceTensor& input,
                               std::span<const std::int32_t> tokens) const {
  const auto used = static_cast<std::size_t>(batch.text_rows());
  const bool in_place = rows_of_tokens_.empty();
  const std::span<std::int32_t> rows = in_place ? input.view().span<std::int32_t>() : std::span(rows_of_tokens_);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::optional<std::int32_t> row = word_row(*word_rows_, tokens[i]);
    check(row || i >= used, [&] { return fmt::format("token {} has a row in memory", tokens[i]); });
    rows[i] = row.value_or(0);
  }
  if (!in_place) input.write(std::as_bytes(rows));
}

void BatchBinding::set_loss_scale(float scale) const { loss_scale_.set(scale); }

void BatchBinding::set_label_loss_scale(float scale) const {
  if (label_loss_scale_.exists()) label_loss_scale_.set(scale);
}

void BatchBinding::set_row_loss_scale(float scale) const {
  if (row_loss_scale_.exists()) row_loss_scale_.set(scale);
}

void BatchBinding::set_dropout_key(PhiloxKey key) const { dropout_key_.write(std::as_bytes(std::span(key))); }

void BatchBinding::set_update(double learning_rate, std::int64_t step, double max_grad_norm, double loss_scale) const {
  check(loss_scale == 1 || !learning_rate_.exists() || unscale_.exists(),
        "a program that updates from a scaled loss unscales");
  if (!learning_rate_.exists()) return;
  learning_rate_.set(static_cast<float>(learning_rate));
  step_.set(static_cast<std::int32_t>(step));
  max_grad_norm_.set(static_cast<float>(max_grad_norm));
  if (unscale_.exists()) unscale_.set(static_cast<float>(1 / loss_scale));
}

void BatchBinding::set_first_sample(std::int64_t sample) const {
  if (first_sample_.exists()) first_sample_.set(static_cast<std::int32_t>(sample));
}

void BatchBinding::set_keep_gradients(bool keep) const {
  if (keep_.exists()) keep_.set(std::int32_t{keep ? 1 : 0});
}

}  // namespace plimsoll
