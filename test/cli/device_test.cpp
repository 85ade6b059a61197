// Tests --device, on machines with and without a GPU.
#include <cstdlib>

#include "program_fixture.h"

namespace plimsoll::test {
namespace {

class DeviceTest : public ProgramTest {
 protected:
  // Hides the machine's GPUs from the program.
  void SetUp() override { ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1); }
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }

  static std::vector<Arguments> commands() {
    const Arguments data = {"--model", "none", "--data", "none.jsonl"};
    std::vector<Arguments> all = {{"calibrate"},
                                  {"grad", "--model", "none", "--batch", "none", "--output", "none"},
                                  {"replay", "none"},
                                  {"bench-step", "--model", "none", "--batch", "none"}};
    for (const char* name : {"plan", "eval", "predict"}) {
      all.push_back({name});
      all.back().insert(all.back().end(), data.begin(), data.end());
    }
    return all;
  }
  Outcome run_on(Arguments arguments, const std::string& device, const Arguments& more = {}) const {
    arguments.insert(arguments.end(), {"--device", device});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

TEST_F(DeviceTest, NamesThatAreNoneAreUsageErrors) {
  for (const Arguments& command : commands()) {
    expect_message(run_on(command, "gpu"), 2, {"--device", "'gpu'", "cpu, cuda, or cuda:N"});
  }
  for (const char* device : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CUDA", "cuda0", "1", "cuda:99999999999"}) {
    expect_message(run_on({"calibrate"}, device), 2, {"--device", "cuda:N"});
  }
}

TEST_F(DeviceTest, WithoutAGpuItSaysWhatIsMissingAtOnce) {
  Arguments train = train_arguments("run");
  std::vector<Arguments> all = commands();
  all.push_back(train);
  std::erase_if(all, [](const Arguments& command) { return command.front() == "plan"; });  // absent_gpu_test.cpp
  for (const Arguments& command : all) {
    for (const char* device : {"cuda", "cuda:0"}) {
      const Outcome outcome = run_on(command, device);
      expect_message(outcome, 5, {"--device cuda", "to do:"});
      EXPECT_THAT(outcome.err, testing::AnyOf(testing::HasSubstr("install the CUDA toolkit"),
                                              testing::HasSubstr("plimsoll doctor shows")));
    }
  }
}

TEST_F(DeviceTest, TheReferenceIsOnTheCpu) {
  expect_message(run_on({"replay", "none"}, "cuda:1", {"--backend", "reference"}), 2,
                 {"--backend reference", "--device cuda:1"});
}

TEST_F(DeviceTest, TheCpuHasOneBudget) {
  draw_pages();
  const Arguments plan = {"plan",     "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"),
                          "--budget", "1GiB",    "--threads",       "1",      "--json"};
  expect_message(run_on(plan, "cpu", {"--host-budget", "1GiB"}), 2, {"--host-budget", "1.00 GiB", "--device cuda"});
  const Outcome outcome = run_on(plan, "cpu");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out).at("host_budget_bytes"), 0);
}

}  // namespace
}  // namespace plimsoll::test
