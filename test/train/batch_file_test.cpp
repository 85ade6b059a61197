// Batches read from files, with padding as rows and without.
#include "train/batch_file.h"

#include <gtest/gtest.h>

#include <vector>

#include "harness/paths.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::span<const std::int32_t> integers(const Batch& batch, std::string_view name) {
  return batch.tensor(name).span<std::int32_t>();
}

TEST(BatchFile, LeavesPaddingOut) {
  const fs::path folder = test_data_dir() / "model" / "linear";
  const LayoutLMv3Config config = read_config(folder);
  const auto whole = read_batch_file(folder / "batch0.safetensors", config);
  const auto packed = read_batch_file(folder / "batch0.safetensors", config, false);
  EXPECT_EQ(packed->samples(), whole->samples());
  EXPECT_EQ(packed->labelled_tokens(), whole->labelled_tokens());
  EXPECT_EQ(packed->shape().max_text_rows % 16, 0);
  EXPECT_LT(packed->shape().max_text_rows - packed->text_rows(), 16);

  // Row by row, what is left of the whole batch.
  std::vector<std::int32_t> ids, coordinates;
  for (std::int64_t row = 0; row < whole->text_rows(); ++row) {
    const auto at = static_cast<std::size_t>(row);
    const auto model_row = static_cast<std::size_t>(integers(*whole, "text_row_index")[at]);
    if (integers(*whole, "key_mask")[model_row] == 0) continue;
    ids.push_back(integers(*whole, "input_ids")[at]);
    coordinates.push_back(integers(*whole, "text_row_keys")[2 * at + 1]);
  }
  ASSERT_EQ(packed->text_rows(), static_cast<std::int64_t>(ids.size()));
  EXPECT_LT(packed->text_rows(), whole->text_rows()) << "the file has padding";
  for (std::size_t at = 0; at < ids.size(); ++at) {
    EXPECT_EQ(integers(*packed, "input_ids")[at], ids[at]) << at;
    EXPECT_EQ(integers(*packed, "text_row_keys")[2 * at + 1], coordinates[at]) << at;
  }
}

}  // namespace
}  // namespace plimsoll
