// Tests checkpoints on disk: which are kept, which are removed, and what a failed write leaves behind.
#include "train/checkpoint.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "base/error.h"
#include "base/work_folder.h"
#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

// Makes a directory that list_checkpoints accepts.
void make_checkpoint(const fs::path& folder, std::int64_t step) {
  fs::create_directories(checkpoint_path(folder, step));
  std::ofstream(checkpoint_path(folder, step) / "trainer_state.json") << "{}";
}

TEST(Checkpoint, RotationKeepsTheNewestAndTheBest) {
  const ScratchFolder folder;
  for (const std::int64_t step : {5, 10, 20, 100}) make_checkpoint(folder.path(), step);
  rotate_checkpoints(folder.path(), 0, -1);
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{5, 10, 20, 100}));
  rotate_checkpoints(folder.path(), 3, 5);
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{5, 20, 100}));
  // The best one takes the only place, but the newest must stay too.
  rotate_checkpoints(folder.path(), 1, 5);
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{5, 100}));
  rotate_checkpoints(folder.path(), 1, -1);
  EXPECT_EQ(list_checkpoints(folder.path()), std::vector<std::int64_t>{100});
}

TEST(Checkpoint, TornOnesAreNeitherListedNorKept) {
  const ScratchFolder folder;
  make_checkpoint(folder.path(), 3);
  make_checkpoint(folder.path(), 4);
  fs::create_directories(work_folder(folder.path()));
  fs::rename(checkpoint_path(folder.path(), 4), work_folder(folder.path()) / "checkpoint-4");
  fs::create_directories(folder.path() / "checkpoint-5");  // without a state
  fs::create_directories(folder.path() / "checkpoint-6.tmp");  // a user's own directory
  EXPECT_EQ(list_checkpoints(folder.path()), std::vector<std::int64_t>{3});
  remove_torn_checkpoints(folder.path());
  EXPECT_FALSE(fs::exists(work_folder(folder.path())));
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoint-3"));
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoint-6.tmp"));
}

TEST(Checkpoint, StateThatIsCutOffIsRefused) {
  const ScratchFolder folder;
  make_checkpoint(folder.path(), 1);
  EXPECT_THROW(read_trainer_state(checkpoint_path(folder.path(), 1)), DataError);
  std::ofstream(checkpoint_path(folder.path(), 1) / "trainer_state.json") << R"({"global_step": 1, "max_st)";
  EXPECT_THROW(read_trainer_state(checkpoint_path(folder.path(), 1)), DataError);
  EXPECT_THROW(read_trainer_state(checkpoint_path(folder.path(), 2)), Error);
}

// Converting 1e300 to an integer is undefined behaviour.
TEST(Checkpoint, StateWithFractionsForCountsIsRefused) {
  const ScratchFolder folder;
  const fs::path checkpoint = checkpoint_path(folder.path(), 1);
  nlohmann::json state = {{"global_step", 1},      {"max_steps", 2},      {"seed", 3},         {"train_batch_size", 4},
                          {"micro_batch_size", 2}, {"examples", 5},       {"max_length", 6},   {"threads", 1},
                          {"interval_loss", 0.5},  {"interval_steps", 1}, {"best_metric", {}}, {"best_global_step", 1}};
  const auto write = [&] { folder.write("checkpoint-1/trainer_state.json", state.dump()); };
  write();
  EXPECT_EQ(read_trainer_state(checkpoint).train_batch_size, 4);
  for (const char* key : {"global_step", "threads", "best_global_step"}) {
    const nlohmann::json before = std::exchange(state[key], 1e300);
    write();
    EXPECT_THROW(read_trainer_state(checkpoint), DataError) << key;
    state[key] = before;
  }
}

// Forks a process whose files may not exceed `limit` bytes, as on a full disk. Returns 0 if saving failed with
// EnvironmentError, 1 if it did not fail, 2 for any other failure.
int save_on_a_full_disk(const fs::path& output_dir, rlim_t limit) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit files{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &files);
    int code = 1;
    try {
      const ModelBundle bundle = small_model();
      std::vector<float> values(1 << 20, 0.5F);
      const ParameterMemory memory = [&](const std::string& name) {
        for (const ParameterSpec& spec : bundle.specs()) {
          if (spec.name == name) return std::span<float>(values).first(static_cast<std::size_t>(spec.shape.elements()));
        }
        throw InternalError({.what = "no such parameter"});
      };
      const StateAccess states = {
          .type =
              [](const std::string&) {
                return TensorType{DType::kF32, {1000}};
              },
          .read = [&](const std::string&, const auto& visit) { visit(std::as_bytes(std::span(values).first(1000))); },
          .fill = {}};
      TrainerState state;
      state.step = 8;
      save_checkpoint(output_dir, state, bundle, {}, memory, {"a.exp_avg"}, states);
    } catch (const EnvironmentError&) {
      code = 0;
    } catch (...) {
      code = 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

TEST(Checkpoint, FullDiskLeavesEarlierOnesAndNoDebris) {
  const ScratchFolder folder;
  make_checkpoint(folder.path(), 4);
  EXPECT_EQ(save_on_a_full_disk(folder.path(), 100 << 10), 0);
  EXPECT_EQ(list_checkpoints(folder.path()), std::vector<std::int64_t>{4});
  EXPECT_FALSE(fs::exists(folder.path() / "checkpoint-8"));
  EXPECT_FALSE(fs::exists(work_folder(folder.path()) / "checkpoint-8"));
  // With room, the same call succeeds.
  EXPECT_EQ(save_on_a_full_disk(folder.path(), 1 << 30), 1);
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{4, 8}));
}

}  // namespace
}  // namespace plimsoll
