// The whole program on two emulated GPUs, as torchrun and mpirun start it. Skipped where plimsoll_emulated is not
// built.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "cli/program_fixture.h"
#include "support/forked_ranks.h"

namespace plimsoll::test {
namespace {

using Variables = std::map<std::string, std::string>;

// The variables of the test's own process, until its end.
class Environment {
 public:
  explicit Environment(const Variables& variables) : variables_(variables) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const Variables& variables_;
};

class GpuProgram : public ProgramTest {
 protected:
  void SetUp() override {
    program_ = (program_path().parent_path() / "test" / "cuda_emulator" / "plimsoll_emulated").string();
    if (!fs::exists(program_)) {
      GTEST_SKIP() << "plimsoll_emulated is not built: scripts/build.sh release --target plimsoll_emulated";
    }
    const Outcome outcome = start({}, {"synth", "--output", path("pages"), "--count", "4"}, "log").wait();
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  // The process has these variables beside the test's own.
  Process start(const Variables& variables, const Arguments& arguments, const std::string& log,
                const std::string& program = {}) const {
    const Environment environment(variables);
    return Process(arguments, at(log), {}, program.empty() ? program_ : program);
  }

  static Variables gpus(int count = 2) {
    return {{"PLIMSOLL_EMULATED_GPUS", std::to_string(count)}, {"PLIMSOLL_NCCL", PLIMSOLL_NCCL_STAND_IN}};
  }
  static Variables as_torchrun(int rank, int port, Variables all) {
    all.insert({{"TORCHELASTIC_RUN_ID", "a run"},
                {"RANK", std::to_string(rank)},
                {"WORLD_SIZE", "2"},
                {"LOCAL_RANK", std::to_string(rank)},
                {"LOCAL_WORLD_SIZE", "2"},
                {"MASTER_ADDR", "127.0.0.1"},
                {"MASTER_PORT", std::to_string(port - 1)}});
    return all;
  }
  // Outcomes of both ranks.
  std::vector<Outcome> run_as_torchrun(const Arguments& arguments, const Variables& variables) const {
    const int port = free_port();
    Process first = start(as_torchrun(0, port, variables), arguments, "rank0");
    Process second = start(as_torchrun(1, port, variables), arguments, "rank1");
    std::vector<Outcome> outcomes;
    outcomes.push_back(first.wait());
    outcomes.push_back(second.wait());
    return outcomes;
  }

  // As little as there may be, because the emulator is slow.
  Arguments training(const std::string& output, const Arguments& more, const std::string& updates = "2") const {
    Arguments all = train_arguments(output, {"--max-steps", updates, "--save-steps", "0", "--max-length", "64",
                                             "--no-decode-images", "--timeout", "300"});
    *std::ranges::find(all, "1GiB") = "4GiB";
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void expect_near(const std::string& run, const std::string& expected) const {
    const std::vector<double> a = losses(run), b = losses(expected);
    ASSERT_EQ(a.size(), b.size());
    EXPECT_FALSE(b.empty());
    for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * b[i]) << run << ", update " << i + 1;
  }

  std::string program_;
};

TEST_F(GpuProgram, TrainsAsOneProcessOnTheCpuDoes) {
  const Outcome alone = start({}, training("alone", {}), "log").wait();
  ASSERT_EQ(alone.code, 0) << alone.err;
  std::string model;
  for (const char* stage : {"0", "3"}) {
    const std::string name = std::string("stage") + stage;
    const auto outcomes = run_as_torchrun(training(name, {"--device", "cuda", "--zero-stage", stage}), gpus());
    for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcomes[0].out, testing::HasSubstr("2 processes, started by torchrun"));
    expect_near(name, "alone");
    const std::string its_model = file_bytes(at(name) / "model.safetensors");
    if (model.empty()) model = its_model;
    EXPECT_TRUE(its_model == model) << "stage " << stage;
    // What NCCL holds is part of the plan, and what was held is not above it.
    const nlohmann::json plan = nlohmann::json::parse(file_bytes(at(name) / "plan.json"));
    std::int64_t connections = 0;
    for (const nlohmann::json& item : plan["items"]) {
      if (item["name"] == "connections between GPUs (NCCL)") connections = item["bytes"];
    }
    EXPECT_EQ(connections, (8 + 4) << 20);
    for (const nlohmann::json& rank : nlohmann::json::parse(file_bytes(at(name) / "summary.json"))["ranks"]) {
      EXPECT_LE(rank["measured_peak_bytes"], rank["predicted_peak_bytes"]);
      EXPECT_GT(rank["sent_bytes"], 0);
    }
  }
  // On the CPU, torchrun's processes are connected by the same sockets.
  const auto outcomes = run_as_torchrun(training("cpu", {"--device", "cpu"}), {});
  for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  expect_near("cpu", "alone");
}

TEST_F(GpuProgram, MpiBringsTheIdToo) {
  std::string mpirun;
  std::stringstream folders(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (mpirun.empty() && ::access((fs::path(folder) / "mpirun").c_str(), X_OK) == 0) {
      mpirun = (fs::path(folder) / "mpirun").string();
    }
  }
  if (mpirun.empty() || !fs::exists(program_path().parent_path() / "libplimsoll_mpi.so")) {
    GTEST_SKIP() << "there is no MPI: apt-get install libopenmpi-dev openmpi-bin";
  }
  ASSERT_EQ(start({}, training("alone", {}), "log").wait().code, 0);
  Arguments all = {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2", program_};
  const Arguments arguments = training("mpi", {"--device", "cuda", "--zero-stage", "1"});
  all.insert(all.end(), arguments.begin(), arguments.end());
  const Outcome outcome = start(gpus(), all, "mpi_log", mpirun).wait();
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  expect_near("mpi", "alone");
}

TEST_F(GpuProgram, RefusesWhatCannotBe) {
  // One GPU for two ranks.
  for (const Outcome& outcome : run_as_torchrun(training("one", {"--device", "cuda"}), gpus(1))) {
    EXPECT_EQ(outcome.code, 5) << outcome.err;
  }
  // A number for all of them.
  for (const Outcome& outcome : run_as_torchrun(training("same", {"--device", "cuda:1"}), gpus())) {
    EXPECT_EQ(outcome.code, 2) << outcome.err;
  }
  // No NCCL.
  auto without = gpus();
  without["PLIMSOLL_NCCL"] = "/nowhere/libnccl.so.2";
  const auto outcomes = run_as_torchrun(training("without", {"--device", "cuda"}), without);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_THAT(outcomes[0].err, testing::HasSubstr("/nowhere/libnccl.so.2"));
  EXPECT_THAT(outcomes[0].err, testing::HasSubstr("PLIMSOLL_NCCL"));
}

// The other one ends, and names it.
TEST_F(GpuProgram, ARankThatIsKilledEndsTheOther) {
  const int port = free_port();
  // Soon the host goes on beside its GPU, as it does beside a real one.
  auto impatient = gpus();
  impatient["PLIMSOLL_EMULATED_PATIENCE_MS"] = "500";
  const Arguments endless = training("killed", {"--device", "cuda"}, "100000");
  Process first = start(as_torchrun(0, port, impatient), endless, "rank0");
  Process second = start(as_torchrun(1, port, impatient), endless, "rank1");
  for (int i = 0; i < 30000 && !fs::exists(at("killed") / "plan.json"); ++i) ::usleep(10000);
  ASSERT_TRUE(fs::exists(at("killed") / "plan.json"));
  ::sleep(1);
  second.signal(SIGKILL);
  second.wait();
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = first.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(outcome.code, 5) << outcome.out;
  EXPECT_THAT(outcome.err, testing::HasSubstr("rank 1 on "));
}

}  // namespace
}  // namespace plimsoll::test
