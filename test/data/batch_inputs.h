// The shape of a batch that has every array which a batch can fill.
#pragma once

#include "data/batch.h"

namespace plimsoll::test {

inline BatchShape shape_with_every_input(std::int64_t samples, std::int64_t text, const ImageForm& image) {
  const std::int64_t visual = samples * image.visual_tokens(), rows = text + visual;
  BatchShape shape{.max_samples = samples, .max_text_rows = text, .image = image};
  const auto add = [&](std::string_view name, Shape dims, DType dtype = DType::kI32) {
    shape.inputs.push_back({.name = std::string(name), .type = {dtype, dims}});
  };
  for (const auto name : {input::kInputIds, input::kPositionIds, input::kTokenTypeIds}) add(name, {text});
  add(input::kBbox, {text, 4});
  add(input::kPixelValues, {samples, image.channels, image.size, image.size}, DType::kF32);
  add(input::kRowSource, {rows});
  add(input::kTextRowIndex, {text});
  add(input::kVisualRowIndex, {visual});
  add(input::kRowKeys, {rows, 2});
  add(input::kTextRowKeys, {text, 2});
  add(input::kSampleOffsets, {samples + 1});
  add(input::kRelativeCoordinates, {rows, 3});
  add(input::kKeyMask, {rows});
  for (const auto name : {input::kTextRows, input::kVisualRows, input::kPatchRows, input::kRows}) add(name, {1});
  add(input::kLabels, {text});
  return shape;
}

}  // namespace plimsoll::test
