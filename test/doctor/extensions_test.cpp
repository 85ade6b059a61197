// What several small readers find in a line: extensions in native code, loss scales, arguments, images in a batch.
#include "doctor/extensions.h"

#include <gtest/gtest.h>

#include "doctor/argument_news.h"
#include "doctor/hints.h"
#include "doctor/loss_scale.h"

namespace plimsoll::doctor {
namespace {

TEST(Extensions, AreNamedByTheFileThatFails) {
  const std::string folder = "/opt/env/lib/python3.10/site-packages/", lacks = ": undefined symbol: _zn3c10e";
  EXPECT_EQ(extension_without_symbol("importerror: " + folder + "flash_attn_2_cuda.cpython-310.so" + lacks),
            "flash-attn");
  EXPECT_EQ(extension_without_symbol(folder + "xformers/_c.so" + lacks), "xformers");
  EXPECT_EQ(extension_without_symbol(folder + "torchvision/_c.so" + lacks), "torchvision");
  // CUDA's own libraries, PyTorch's, and one whose name says nothing.
  EXPECT_EQ(extension_without_symbol(folder + "torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12" + lacks), "");
  EXPECT_EQ(extension_without_symbol(folder + "torch/lib/libtorch_cuda.so" + lacks), "");
  EXPECT_EQ(extension_without_symbol(folder + "bitsandbytes/libbitsandbytes_cuda118.so" + lacks), "");
  EXPECT_EQ(extension_without_symbol("the word flash_attn alone"), "");
}

TEST(Extensions, AreNamedByTheFrameWithoutAKernel) {
  const std::string words = "runtimeerror: cuda error: no kernel image is available for execution on the device";
  const std::vector<Frame> own = {*read_frame("File \"/w/train.py\", line 3, in main")};
  const std::vector<Frame> native = {
      own[0], *read_frame("File \"/opt/env/lib/python3.10/site-packages/xformers/ops/fmha.py\", line 7, in apply")};
  EXPECT_EQ(extension_without_kernel(words, native), "xformers");
  EXPECT_EQ(extension_without_kernel(words, own), "");
  EXPECT_EQ(extension_without_kernel("cuda error: device-side assert triggered", native), "");
  EXPECT_EQ(extension_without_kernel("no kernel image is available in /build/bitsandbytes/csrc/ops.cu", {}),
            "bitsandbytes");
}

TEST(LossScale, FallsUntilItHelpsNoMore) {
  const auto fell = [](std::initializer_list<const char*> scales, const std::string& name) {
    LossScaleReader reader;
    bool fallen = false;
    for (const char* scale : scales) fallen = reader.has_fallen("step 3 " + name + scale);
    return fallen;
  };
  EXPECT_TRUE(fell({"8", "4", "2", "1", "0.5"}, "loss_scale: "));
  EXPECT_TRUE(fell({"1e-3", "1e-4", "1e-5", "1e-6", "1e-7"}, "'loss_scale': "));
  EXPECT_TRUE(fell({"4", "2", "1", "0.5", "0.25"}, "loss scaler 0 reducing loss scale to "));
  // The search at the start goes down a long way, and ends at a number that works.
  EXPECT_FALSE(fell({"4294967296", "65536", "4096", "1024", "512", "256"}, "loss scale: "));
  EXPECT_FALSE(fell({"8", "4", "0.5", "1", "0.5"}, "loss_scale: "));
  EXPECT_FALSE(fell({"0.5", "0.5", "0.5", "0.5", "0.5", "0.5"}, "loss_scale: "));
  EXPECT_FALSE(fell({"0.5", "0.4", "0.3", "0.2", "0.1"}, "loss: "));
}

TEST(Unequal, ImagesAreToldFromTexts) {
  const auto read = [](const std::string& shapes, const std::string& source = "") {
    return read_unequal("RuntimeError: stack expects each tensor to be equal size, but got " + shapes, source);
  };
  EXPECT_EQ(read("[3, 224, 224] at entry 0 and [3, 256, 192] at entry 1"), Unequal::kImageSizes);
  EXPECT_EQ(read("[4, 128, 170] at entry 0 and [4, 96, 128] at entry 2"), Unequal::kImageSizes);
  EXPECT_EQ(read("[480, 640, 3] at entry 0 and [600, 800, 3] at entry 2"), Unequal::kImageSizes);
  EXPECT_EQ(read("[3, 224, 224] at entry 0 and [1, 224, 224] at entry 1"), Unequal::kImageChannels);
  EXPECT_EQ(read("[480, 640, 4] at entry 0 and [480, 640, 3] at entry 2"), Unequal::kImageChannels);
  EXPECT_EQ(read("[77] at entry 0 and [64] at entry 1"), Unequal::kUnknown);
  EXPECT_EQ(read("[77, 4] at entry 0 and [64, 4] at entry 1"), Unequal::kUnknown);
  EXPECT_EQ(read("[77, 768] at entry 0 and [64, 768] at entry 1", "torch.stack(pixel_values)"), Unequal::kImageSizes);
  EXPECT_EQ(read_unequal("ValueError: another message of [3, 2, 2] and [3, 4, 4]", "images"), Unequal::kUnknown);
}

TEST(ArgumentNews, IsOfTheArgumentInTheMessage) {
  const auto fix = [](const char* message) {
    const ArgumentNews* news = argument_news(message);
    return news == nullptr ? std::string() : std::string(news->fix);
  };
  EXPECT_NE(fix("TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'packing'").find("SFTConfig"),
            std::string::npos);
  EXPECT_NE(fix("TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'no_cuda'").find("use_cpu"),
            std::string::npos);
  // Another function's argument of the same name, and an argument that nothing is known of.
  EXPECT_EQ(fix("TypeError: forward() got an unexpected keyword argument 'packing'"), "");
  EXPECT_EQ(fix("TypeError: Trainer.__init__() got an unexpected keyword argument 'colour'"), "");
  EXPECT_EQ(fix("ValueError: packing"), "");
}

}  // namespace
}  // namespace plimsoll::doctor
