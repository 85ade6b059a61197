// plan --device cuda where no GPU is: as on a cluster's login node, or in a build without CUDA.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <regex>

#include "base/bytes.h"
#include "cli/program_fixture.h"

namespace plimsoll::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class AbsentGpuTest : public ProgramTest {
 protected:
  // The program sees no GPU, whatever the machine has.
  void SetUp() override {
    ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    draw_pages();
  }
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }

  Outcome plan(const Arguments& more, const std::string& model = "layoutlmv3-tiny") const {
    Arguments all = {"plan",      "--model", model,      "--data", path("pages/train.jsonl"), "--train-batch-size", "4",
                     "--threads", "1",       "--device", "cuda"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  nlohmann::json plan_json(Arguments more, const std::string& model = "layoutlmv3-tiny") const {
    more.emplace_back("--json");
    const Outcome outcome = plan(more, model);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  }
};

std::size_t item(const nlohmann::json& plan, const std::string& list, const std::string& name) {
  for (const nlohmann::json& each : plan.at(list)) {
    if (each.at("name") == name) return each.at("bytes");
  }
  ADD_FAILURE() << name << " is not in " << plan.at(list);
  return 0;
}

TEST_F(AbsentGpuTest, APlanIsMadeAndSaysWhatItAssumes) {
  const Outcome outcome = plan({"--device-memory", "8GiB"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"planned without a GPU", "1.00 GiB of the GPU's memory", "512 MiB of the host's", "12 GB/s",
                           "context and libraries", "buffers for copies from the host", "update"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_EQ(outcome.err, "");
}

TEST_F(AbsentGpuTest, ANamedGpuIsModelled) {
  Arguments all = {"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--gpu", "l4", "--bf16"};
  const auto told = [&](const Arguments& more) {
    Arguments each = all;
    each.insert(each.end(), more.begin(), more.end());
    const Outcome outcome = run(each);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(told({"--explain"}), HasSubstr("by a model of its kernels (not measured)"));
  const nlohmann::json plan = nlohmann::json::parse(told({"--explain", "--json"}));
  EXPECT_EQ(plan.at("assumed").at("device_memory_bytes"), 24'000'000'000);
  const nlohmann::json& model = plan.at("gpu_model");
  EXPECT_EQ(model.at("gpu"), "l4");
  int starts = 0;
  double seconds = 0;
  for (const nlohmann::json& program : model.at("programs")) {
    for (const nlohmann::json& kernel : program.at("kernels")) {
      starts += program.at("runs").get<int>() * kernel.at("starts").get<int>();
      seconds += program.at("runs").get<double>() * kernel.at("seconds").get<double>();
    }
  }
  EXPECT_EQ(model.at("together").at("starts"), starts);
  EXPECT_NEAR(model.at("together").at("seconds").get<double>(), seconds, 1e-9);
  // A faster card is modelled as faster, and its memory may still be limited.
  all[6] = "h200";
  const nlohmann::json faster = nlohmann::json::parse(told({"--explain", "--json", "--budget", "2GiB"}));
  EXPECT_LT(faster.at("gpu_model").at("together").at("seconds"), model.at("together").at("seconds"));
  EXPECT_EQ(faster.at("budget_bytes"), 2 * kGiB);
  expect_message(run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--gpu", "voodoo2"}),
                 2, {"--gpu", "voodoo2", "h200"});
}

TEST_F(AbsentGpuTest, JsonCarriesWhatIsAssumed) {
  const nlohmann::json plan = plan_json({"--device-memory", "8GiB"});
  const nlohmann::json& assumed = plan.at("assumed");
  EXPECT_EQ(assumed.at("device_memory_bytes"), 8 * kGiB);
  EXPECT_EQ(assumed.at("context_and_libraries_bytes"), kGiB);
  EXPECT_NE(assumed.at("reason"), "");
  // A twentieth of the memory is left.
  EXPECT_EQ(plan.at("budget_bytes"), 8 * kGiB / 20 * 19);
  EXPECT_EQ(item(plan, "items", "context and libraries"), kGiB);
  std::size_t sum = 0;
  for (const nlohmann::json& each : plan.at("items")) sum += each.at("bytes").get<std::size_t>();
  EXPECT_EQ(plan.at("predicted_peak_bytes"), sum);
  // The process here, and what the driver would add to it.
  EXPECT_GT(item(plan, "host_items", "process, libraries, data index"), 512 * kMiB);
  // A plan for the CPU assumes nothing.
  const Outcome on_cpu = run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--threads",
                              "1", "--device-memory", "8GiB", "--json"});
  ASSERT_EQ(on_cpu.code, 0) << on_cpu.err;
  EXPECT_FALSE(nlohmann::json::parse(on_cpu.out).contains("assumed"));
}

TEST_F(AbsentGpuTest, TheMemoryOfTheGpuMustBeNamed) {
  const Outcome outcome = plan({});
  expect_message(outcome, 2,
                 {"the memory of the GPU to plan for is not known", "--device cuda", "neither --device-memory nor",
                  "--device-memory SIZE", "--device-memory 24GiB"});
  for (const char* field : {"where:", "found:", "allowed:", "to do:"}) EXPECT_THAT(outcome.err, HasSubstr(field));
  // A budget says as much.
  const nlohmann::json planned = plan_json({"--budget", "3GiB"});
  EXPECT_EQ(planned.at("budget_bytes"), 3 * kGiB);
  EXPECT_TRUE(planned.at("assumed").at("device_memory_bytes").is_null());
  expect_message(plan({"--budget", "3GiB", "--device-memory", "8GiB"}), 2, {"two options set the memory budget"});
}

TEST_F(AbsentGpuTest, TrainingIsRefusedAsEver) {
  for (const char* device : {"cuda", "cuda:3"}) {
    const Outcome outcome = run(train_arguments("run", {"--device", device}));
    expect_message(outcome, 5, {"--device cuda", "to do:"});
    EXPECT_FALSE(fs::exists(at("run/plan.json")));
  }
}

TEST_F(AbsentGpuTest, EveryLeverCanBePlanned) {
  make_model();
  const std::vector<Arguments> runs = {{},
                                       {"--bf16"},
                                       {"--fp16"},
                                       {"--optim", "adamw_8bit"},
                                       {"--optim", "adafactor", "--bf16"},
                                       {"--lora-rank", "4"},
                                       {"--lora-rank", "4", "--load-in-4bit", "--bf16"},
                                       {"--lora-rank", "4", "--load-in-8bit"},
                                       {"--recompute", "layers", "--micro-batch-size", "1"},
                                       {"--update-mode", "in-backward", "--max-grad-norm", "0"},
                                       {"--update-mode", "two-passes"},
                                       {"--offload", "none", "--enforce-eager"},
                                       {"--eval-data", path("pages/validation.jsonl"), "--eval-steps", "1"},
                                       {"--explain"}};
  for (const Arguments& more : runs) {
    std::string label;
    for (const std::string& argument : more) label += argument + " ";
    Arguments all = more;
    all.insert(all.end(), {"--device-memory", "8GiB"});
    const nlohmann::json planned = plan_json(all, path("model"));
    ASSERT_TRUE(planned.contains("assumed")) << label;
    EXPECT_LE(planned.at("predicted_peak_bytes"), planned.at("budget_bytes")) << label;
    EXPECT_GT(planned.at("seconds_per_update"), 0) << label;
  }
}

TEST_F(AbsentGpuTest, ASweepSaysWhatItAssumesToo) {
  const Arguments sweep = {"--device-memory", "8GiB", "--sweep", "--points", "3"};
  const Outcome table = plan(sweep);
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("planned without a GPU"));
  const nlohmann::json json = plan_json(sweep);
  EXPECT_TRUE(json.contains("assumed"));
  EXPECT_GE(json.at("sweep").size(), 1U);
}

TEST_F(AbsentGpuTest, TheSmallestMemoryThatARefusalNamesIsEnough) {
  const std::regex named(R"(pass --device-memory (\d+)MiB)");
  for (const Arguments& more : std::vector<Arguments>{{}, {"--bf16", "--offload", "none"}}) {
    Arguments small = more;
    small.insert(small.end(), {"--device-memory", "1GiB"});
    const Outcome refused = plan(small);
    expect_message(refused, 4, {"--device-memory", "context and libraries", "reserve for the driver"});
    EXPECT_THAT(refused.out, HasSubstr("planned without a GPU"));
    std::smatch match;
    ASSERT_TRUE(std::regex_search(refused.err, match, named)) << refused.err;
    const std::size_t mebibytes = std::stoul(match[1]);
    for (const auto& [memory, code] : {std::pair{mebibytes, 0}, std::pair{mebibytes - 8, 4}}) {
      Arguments again = more;
      again.insert(again.end(), {"--device-memory", std::to_string(memory) + "MiB"});
      EXPECT_EQ(plan(again).code, code) << memory << " MiB of " << mebibytes;
    }
    // As JSON, a budget.
    small.emplace_back("--json");
    const nlohmann::json error = nlohmann::json::parse(plan(small).out).at("error");
    const std::size_t budget = error.at("smallest_budget_bytes");
    Arguments again = more;
    again.insert(again.end(), {"--budget", std::to_string(budget / kMiB) + "MiB"});
    EXPECT_EQ(plan(again).code, 0) << budget;
  }
}

TEST_F(AbsentGpuTest, MoreMemoryIsNeverSlower) {
  std::optional<double> seconds;
  for (const std::size_t mebibytes : {1100, 1200, 1250, 1300, 1400, 1600, 2048, 4096, 8192, 81'920}) {
    const Outcome outcome = plan({"--device-memory", std::to_string(mebibytes) + "MiB", "--json"});
    if (outcome.code == 4) {
      EXPECT_FALSE(seconds.has_value()) << "less was enough: " << mebibytes;
      continue;
    }
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json planned = nlohmann::json::parse(outcome.out);
    EXPECT_LE(planned.at("predicted_peak_bytes"), planned.at("budget_bytes"));
    const double now = planned.at("seconds_per_update");
    if (seconds) {
      EXPECT_LE(now, *seconds * 1.001) << mebibytes;
    }
    seconds = now;
  }
  EXPECT_TRUE(seconds.has_value());
}

}  // namespace
}  // namespace plimsoll::test
