// Logits that become NaN while a run trains, as a user meets them.
#include <algorithm>

#include "cli/program_fixture.h"
#include "formats/safetensors.h"

namespace plimsoll::test {
namespace {

class NaNLogitsTest : public ProgramTest {
 protected:
  // A model of finite weights whose logits are NaN: products of the head's overflow with both signs.
  void SetUp() override {
    draw_pages();
    make_model();
    const fs::path file = at("model/model.safetensors");
    std::uint64_t begin = 0, bytes = 0;
    {
      const SafetensorsReader reader(file);
      const auto& weight = reader.at("classifier.weight");
      begin = weight.offset_bytes;
      bytes = weight.type.bytes();
    }
    std::string content = file_bytes(file);
    const float huge = 3e38F;
    for (std::uint64_t i = 0; i < bytes; i += sizeof huge) {
      content.replace(begin + i, sizeof huge, reinterpret_cast<const char*>(&huge), sizeof huge);
    }
    write_bytes(file, content);
    fs::remove(at("model/checksums.json"));  // changed on purpose
  }

  Arguments train_model(const std::string& output, const Arguments& more) const {
    Arguments arguments = train_arguments(output, more);
    *(std::find(arguments.begin(), arguments.end(), "--model") + 1) = path("model");
    return arguments;
  }
};

TEST_F(NaNLogitsTest, TrainingNamesTheFirstTensorAndChangesNothing) {
  const std::vector<Arguments> runs = {{}, {"--bf16"}, {"--micro-batch-size", "1"}, {"--detect-anomaly"}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string output = "run" + std::to_string(i);
    const Outcome outcome = run(train_model(output, runs[i]));
    expect_message(outcome, 6, {"update 1", "pages/train.jsonl:", "nan", "'classifier'", "nonfinite-step-1"});
    EXPECT_FALSE(fs::exists(at(output + "/model.safetensors")));
    EXPECT_FALSE(fs::exists(at(output + "/checkpoint-1")));
    // It shows again, in the same tensor.
    const Outcome again = run({"replay", path(output + "/nonfinite-step-1"), "--threads", "1"});
    EXPECT_THAT(again.out + again.err, testing::HasSubstr("'classifier'"));
  }
}

TEST_F(NaNLogitsTest, JsonSaysTheSame) {
  const Outcome outcome = run(train_model("run", {"--json"}));
  EXPECT_EQ(outcome.code, 6) << outcome.err;
  const nlohmann::json error = last_event(outcome).at("error");
  EXPECT_EQ(error.at("exit_code"), 6);
  EXPECT_THAT(error.dump(), testing::HasSubstr("'classifier'"));
}

}  // namespace
}  // namespace plimsoll::test
