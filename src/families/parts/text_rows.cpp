#include "families/parts/text_rows.h"

#include <string>
#include <string_view>

namespace plimsoll {

std::vector<InputSpec> text_row_inputs(const ModelCapacity& capacity, bool boxes, bool types) {
  using Full = InputSpec::Full;
  const std::int64_t rows = capacity.text_rows;
  std::vector<InputSpec> inputs;
  const auto add = [&](std::string_view name, Shape shape, Full full = Full::kZeros, std::int64_t count = 0) {
    inputs.push_back({.name = std::string(name), .type = {DType::kI32, shape}, .full = full, .count = count});
  };
  add(input::kInputIds, {rows});
  if (boxes) add(input::kBbox, {rows, 4});
  add(input::kPositionIds, {rows});
  if (types) add(input::kTokenTypeIds, {rows});
  add(input::kRowKeys, {rows, 2});
  add(input::kSampleOffsets, {capacity.samples + 1}, Full::kOffsets, rows);
  add(input::kKeyMask, {rows}, Full::kOnes);
  add(input::kRows, {1}, Full::kCount, rows);
  return inputs;
}

LayerInputs text_row_context(const ModelBuilder& builder) {
  return {.context = {.sample_offsets = builder.input(input::kSampleOffsets),
                      .key_mask = builder.input(input::kKeyMask),
                      .row_keys = builder.input(input::kRowKeys),
                      .dropout_key = builder.input(input::kDropoutKey)},
          .rows = builder.input(input::kRows)};
}

void initialise_as(const BertValues& values, std::vector<ParameterSpec>& specs) {
  for (ParameterSpec& spec : specs) {
    spec.normal_std = values.initializer_range;
    spec.padding_row = values.pad_token_id;
  }
}

}  // namespace plimsoll
