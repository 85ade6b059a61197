// Tests which size of image a model directory asks for.
#include <gtest/gtest.h>

#include "base/error.h"
#include "bundle/model_bundle.h"
#include "data/pages_fixture.h"
#include "formats/safetensors.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

void write_directory(const fs::path& directory, const ModelBundle& bundle) {
  save_model_parts(directory, bundle);
  SafetensorsWriter(directory / "model.safetensors", {}).finish();
}

TEST(ImageSize, IsTheConfigsWhereNoProcessorFileSaysIt) {
  const ScratchFolder folder;
  const ModelBundle bundle = small_model();
  const auto size = static_cast<int>(bundle.facts().image.size);
  ASSERT_NE(size, ImageProcessorConfig{}.height);
  write_directory(folder.path(), bundle);
  fs::remove(folder / "preprocessor_config.json");
  EXPECT_EQ(open_model(folder.path()).image, (ImageProcessorConfig{.height = size, .width = size}));
}

TEST(ImageSize, OfAProcessorFileHasToBeTheConfigs) {
  const ScratchFolder folder;
  ModelBundle bundle = small_model();
  bundle.image.height = bundle.image.width = 48;
  write_directory(folder.path(), bundle);
  const auto error = caught<DataError>([&] { open_model(folder.path()); });
  EXPECT_EQ(error.problem().found, "images of 48 x 48 pixels");
  EXPECT_EQ(error.problem().allowed, "input_size = 32 as in config.json");
}

}  // namespace
}  // namespace plimsoll::test
