// Tests batches read from files, with padding as rows and without.
#include "train/batch_file.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "harness/paths.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::span<const std::int32_t> integers(const Batch& batch, std::string_view name) {
  return batch.tensor(name).span<std::int32_t>();
}

TEST(BatchFile, LeavesPaddingOut) {
  const fs::path folder = test_data_dir() / "model" / "linear";
  ModelBundle bundle;
  bundle.config = read_config(folder);
  const auto whole = read_batch_file(folder / "batch0.safetensors", bundle);
  const auto packed = read_batch_file(folder / "batch0.safetensors", bundle, false);
  EXPECT_EQ(packed->samples(), whole->samples());
  EXPECT_EQ(packed->loss_terms(), whole->loss_terms());
  EXPECT_EQ(packed->shape().max_text_rows % 16, 0);
  EXPECT_LT(packed->shape().max_text_rows - packed->text_rows(), 16);

  // These are the remaining rows of the whole batch, row by row.
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

// The golden batch with one tensor added or changed.
class ChangedBatch : public testing::Test {
 protected:
  ChangedBatch() {
    const SafetensorsReader file(folder_ / "batch0.safetensors");
    for (const TensorEntry& entry : file.entries()) {
      std::vector<std::byte>& bytes = tensors_[entry.name].second;
      tensors_[entry.name].first = entry.type;
      bytes.resize(entry.type.bytes());
      file.read(entry.name, bytes);
    }
  }
  fs::path write() {
    const fs::path path = scratch_.path() / "batch.safetensors";
    fs::remove(path);
    std::vector<TensorDeclaration> declarations;
    for (const auto& [name, tensor] : tensors_) declarations.push_back({name, tensor.first});
    SafetensorsWriter writer(path, declarations);
    for (const auto& [name, tensor] : tensors_) writer.write(tensor.second);
    writer.finish();
    return path;
  }
  std::unique_ptr<Batch> read() {
    ModelBundle bundle;
    bundle.config = read_config(folder_);
    return read_batch_file(write(), bundle);
  }
  void put(const std::string& name, TensorType type) { tensors_[name] = {type, std::vector<std::byte>(type.bytes())}; }

  const fs::path folder_ = test_data_dir() / "model" / "linear";
  test::ScratchFolder scratch_;
  std::map<std::string, std::pair<TensorType, std::vector<std::byte>>> tensors_;
};

TEST_F(ChangedBatch, TakesTokenTypes) {
  const Shape text = tensors_.at("input_ids").first.shape;
  put("token_type_ids", {DType::kI64, text});
  auto* const types = reinterpret_cast<std::int64_t*>(tensors_.at("token_type_ids").second.data());
  EXPECT_EQ(integers(*read(), "token_type_ids")[3], 0);
  types[3] = 1;  // the golden model has a single type
  test::expect_error<DataError>([&] { read(); }, {"token 3, tensor 'token_type_ids'", "found", "1", "0 to 0"});
}

TEST_F(ChangedBatch, RefusesWhatItDoesNotUseByItsName) {
  for (const char* name : {"inputs_embeds", "head_mask", "offset_mapping"}) {
    put(name, {DType::kF32, {2, 3}});
    test::expect_error<DataError>([&] { read(); }, {"unused tensor", std::string("tensor '") + name + "'", "F32[2, 3]",
                                                    "token_type_ids", "batch.safetensors"});
    tensors_.erase(name);
  }
  EXPECT_NO_THROW(read());
}

TEST_F(ChangedBatch, RefusesImagesOfAnotherSize) {
  put("pixel_values", {DType::kF32, {2, 3, 64, 64}});
  test::expect_error<DataError>(
      [&] { read(); }, {"tensor 'pixel_values'", "F32[2, 3, 64, 64]", "F32[2, 3, 32, 32]", "input_size is 32"});
}

}  // namespace
}  // namespace plimsoll
