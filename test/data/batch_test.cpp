#include "data/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/dropout.h"

namespace plimsoll {
namespace {

constexpr BatchFormat kFormat{.input_size = 48, .patch_size = 16, .pad_token_id = 1};  // 3 x 3 patches, V = 10

std::map<std::string, std::span<std::int32_t>> integers(const Batch& batch) {
  std::map<std::string, std::span<std::int32_t>> arrays;
  for (const auto& [name, view] : batch.tensors()) {
    if (view.dtype() == DType::kI32) arrays[std::string(name)] = view.span<std::int32_t>();
  }
  return arrays;
}

TEST(Batch, PacksSamplesWithoutPadding) {
  Batch batch(kFormat, 3, 16);
  const std::vector<std::int32_t> ids = {0, 7, 2}, boxes = {0, 0, 0, 0, 10, 20, 30, 40, 0, 0, 0, 0};
  const std::vector<std::int32_t> labels = {-100, 3, -100};
  batch.append({.input_ids = ids, .bbox = boxes, .labels = labels, .attends = {}, .index_in_update = 5})[0] = 1.5F;
  batch.append({.input_ids = std::span(ids).first(2), .bbox = std::span(boxes).first(8), .labels = {}, .attends = {},
                .index_in_update = 6});
  EXPECT_EQ(batch.samples(), 2);
  EXPECT_EQ(batch.text_rows(), 5);
  EXPECT_EQ(batch.labelled_tokens(), 1);
  auto arrays = integers(batch);
  EXPECT_EQ(arrays["rows"][0], 25);
  EXPECT_EQ(arrays["visual_rows"][0], 20);
  EXPECT_EQ(arrays["patch_rows"][0], 18);
  EXPECT_EQ(arrays["text_rows"][0], 5);
  EXPECT_EQ(std::vector<std::int32_t>(arrays["sample_offsets"].begin(), arrays["sample_offsets"].end()),
            (std::vector<std::int32_t>{0, 13, 25, 25}));
  EXPECT_EQ(std::vector<std::int32_t>(arrays["position_ids"].begin(), arrays["position_ids"].begin() + 5),
            (std::vector<std::int32_t>{2, 3, 4, 2, 3}));
  // Every real row has a source that points back to it.
  for (std::int32_t row = 0; row < 25; ++row) {
    const std::int32_t source = arrays["row_source"][static_cast<std::size_t>(row)];
    const std::int32_t back = source >= 0 ? arrays["text_row_index"][static_cast<std::size_t>(source)]
                                          : arrays["visual_row_index"][static_cast<std::size_t>(-1 - source)];
    EXPECT_EQ(back, row);
  }
  EXPECT_EQ(arrays["row_source"][25], -1);
  EXPECT_EQ(arrays["labels"][1], 3);
  EXPECT_EQ(arrays["labels"][5], kIgnoredLabel);
  // Text positions count from 0, visual ones again from 0; the CLS box is [1, 1, 999, 999].
  EXPECT_EQ(arrays["relative_coordinates"][3], 1);
  EXPECT_EQ(arrays["relative_coordinates"][4], 10);
  EXPECT_EQ(arrays["relative_coordinates"][5], 40);
  EXPECT_EQ(arrays["relative_coordinates"][9], 0);
  EXPECT_EQ(arrays["relative_coordinates"][10], 1);
  EXPECT_EQ(arrays["relative_coordinates"][11], 999);
  EXPECT_EQ(arrays["relative_coordinates"][3 * 12 + 1], 666);   // the last patch
  EXPECT_EQ(arrays["relative_coordinates"][3 * 12 + 2], 1000);
  EXPECT_EQ(arrays["row_keys"][0], 5);
  EXPECT_EQ(arrays["row_keys"][2 * 3 + 1], kVisualCoordinate);
  EXPECT_EQ(arrays["text_row_keys"][2 * 3], 6);
}

TEST(Batch, PaddingKeepsItsPositionAndIsNotAttendedTo) {
  Batch batch(kFormat, 1, 4);
  const std::vector<std::int32_t> ids = {0, 9, 1, 1}, boxes(16, 0), attends = {1, 1, 0, 0};
  batch.append({.input_ids = ids, .bbox = boxes, .labels = {}, .attends = attends, .index_in_update = 0});
  auto arrays = integers(batch);
  EXPECT_EQ(std::vector<std::int32_t>(arrays["position_ids"].begin(), arrays["position_ids"].end()),
            (std::vector<std::int32_t>{2, 3, 1, 1}));
  EXPECT_EQ(arrays["key_mask"][2], 0);
  EXPECT_EQ(arrays["key_mask"][4], 1);
}

TEST(Batch, ClearForgetsAndCapacityHolds) {
  Batch batch(kFormat, 1, 4);
  const std::vector<std::int32_t> ids = {0, 9, 2}, boxes(12, 7);
  batch.append({.input_ids = ids, .bbox = boxes, .labels = ids, .attends = {}, .index_in_update = 0});
  EXPECT_THROW(batch.append({.input_ids = ids, .bbox = boxes, .labels = {}, .attends = {}, .index_in_update = 1}),
               InternalError);
  batch.clear();
  EXPECT_EQ(batch.samples(), 0);
  auto arrays = integers(batch);
  EXPECT_TRUE(std::all_of(arrays["bbox"].begin(), arrays["bbox"].end(), [](auto v) { return v == 0; }));
  EXPECT_EQ(arrays["rows"][0], 0);
  std::size_t bytes = 0;
  for (const auto& [name, view] : batch.tensors()) bytes += view.bytes();
  EXPECT_NEAR(static_cast<double>(Batch::host_bytes(kFormat, 1, 4)), static_cast<double>(bytes), 64);
}

}  // namespace
}  // namespace plimsoll
