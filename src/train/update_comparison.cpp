#include "train/update_comparison.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include "base/error.h"
#include "model/grad_cache.h"
#include "transform/optimizer.h"

namespace plimsoll {

UpdateComparison::UpdateComparison(const Session& session)
    : session_(session), program_(session.program(ProgramKind::kCompare)) {
  const std::set<std::string_view> scalars = {input::kLossScale, input::kDropoutKey, input::kSamples,
                                              kKeepGradientsInput, kFirstSampleInput};
  for (const Value& value : program_.graph().values()) {
    if (value.role != Role::kInput || value.producer != kNoNode || scalars.contains(value.name)) continue;
    inputs_.push_back({.name = value.name,
                       .to = program_.source(value.name),
                       .of_samples = value.name != input::kClassWeights,
                       .bytes = std::vector<std::byte>(value.type.bytes())});
  }
}

void UpdateComparison::collect(const Batch& batch) {
  const std::int64_t first = batch.info().first_sample;
  for (Input& input : inputs_) {
    const std::span<const std::byte> from = batch.tensor(input.name).byte_span();
    if (!input.of_samples) {
      std::ranges::copy(from, input.bytes.begin());
      continue;
    }
    const std::size_t row = from.size() / static_cast<std::size_t>(batch.shape().max_samples);
    const std::size_t begin = row * static_cast<std::size_t>(first);
    const std::size_t count = row * static_cast<std::size_t>(batch.samples());
    check(begin + count <= input.bytes.size(), "an update has no more samples than it was planned for");
    std::ranges::copy(from.first(count), input.bytes.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  samples_ = first + batch.samples();
  labelled_ = batch.info().loss_weight_in_update;
}

const Program& UpdateComparison::bind(const StepScalars& scalars) const {
  for (const Input& input : inputs_) input.to.write(input.bytes);
  program_.set_rows(program_.graph().find_source(input::kSamples), static_cast<std::int32_t>(samples_));
  program_.source(input::kLossScale).set(labelled_ > 0 ? static_cast<float>(scalars.scale / labelled_) : 0.0F);
  program_.source(input::kDropoutKey).write(std::as_bytes(std::span(scalars.dropout_key)));
  program_.source(kKeepGradientsInput).set(std::int32_t{0});
  program_.source(kFirstSampleInput).set(std::int32_t{0});
  return program_;
}

void UpdateComparison::forget() const {
  write_in_pieces(session_.persistent(kEmbeddingTable),
                  [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); });
}

}  // namespace plimsoll
