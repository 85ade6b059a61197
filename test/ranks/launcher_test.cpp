#include "ranks/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

using Variables = std::map<std::string, std::string>;

Launch find(const Variables& variables) {
  return find_launch([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Variables mpirun(int rank, int size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank % 2)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
}

const Variables kStep = {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "6"},          {"SLURM_PROCID", "4"},
                         {"SLURM_LOCALID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "3(x2)"}, {"SLURM_NTASKS", "6"}};

TEST(Launcher, APlainCommandIsOneProcess) {
  const Launch launch = find({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(launch.launcher, Launcher::kNone);
  EXPECT_EQ(launch.size, 1);
}

TEST(Launcher, ReadsEachLaunchersVariables) {
  const Launch open_mpi = find(mpirun(3, 4));
  EXPECT_EQ(open_mpi.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(open_mpi.rank, 3);
  EXPECT_EQ(open_mpi.size, 4);
  EXPECT_EQ(open_mpi.local_rank, 1);
  EXPECT_EQ(open_mpi.local_size, 2);
  EXPECT_TRUE(open_mpi.speaks_mpi());

  const Launch torchrun = find({{"TORCHELASTIC_RUN_ID", "none"},
                                {"RANK", "5"},
                                {"WORLD_SIZE", "8"},
                                {"LOCAL_RANK", "1"},
                                {"LOCAL_WORLD_SIZE", "4"}});
  EXPECT_EQ(torchrun.launcher, Launcher::kTorchrun);
  EXPECT_EQ(torchrun.rank, 5);
  EXPECT_EQ(torchrun.local_size, 4);
  EXPECT_FALSE(torchrun.speaks_mpi());

  const Launch slurm = find(kStep);
  EXPECT_EQ(slurm.launcher, Launcher::kSlurm);
  EXPECT_EQ(slurm.rank, 4);
  EXPECT_EQ(slurm.local_rank, 1);
  EXPECT_EQ(slurm.local_size, 3);

  const Launch pmi = find({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}});
  EXPECT_EQ(pmi.launcher, Launcher::kPmix);
  EXPECT_EQ(pmi.rank, 2);
}

// A job's environment is that of its batch script too, and mpirun within a step has its own.
TEST(Launcher, TheInnermostCounts) {
  Variables batch = kStep;
  for (const char* id : {"batch", "4294967291"}) {
    batch["SLURM_STEP_ID"] = id;
    EXPECT_EQ(find(batch).launcher, Launcher::kNone) << id;
  }
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(find(batch).launcher, Launcher::kNone);

  Variables both = kStep;
  both.merge(mpirun(1, 2));
  EXPECT_EQ(find(both).launcher, Launcher::kOpenMpi);
  both.merge(Variables{{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(find(both).launcher, Launcher::kTorchrun);
}

TEST(Launcher, RefusesWhatContradictsItself) {
  Variables beyond = mpirun(4, 4);
  expect_error<UsageError>([&] { find(beyond); }, {"mpirun", "OMPI_COMM_WORLD_RANK=4, OMPI_COMM_WORLD_SIZE=4"});
  expect_error<UsageError>([] { find({{"OMPI_COMM_WORLD_SIZE", "4"}}); }, {"without OMPI_COMM_WORLD_RANK"});
  Variables text = mpirun(0, 2);
  text["OMPI_COMM_WORLD_SIZE"] = "two";
  expect_error<UsageError>([&] { find(text); }, {"OMPI_COMM_WORLD_SIZE=two"});
  Variables local = mpirun(0, 2);
  local["OMPI_COMM_WORLD_LOCAL_SIZE"] = "3";
  expect_error<UsageError>([&] { find(local); }, {"no more ranks on a machine than in all"});
}

}  // namespace
}  // namespace plimsoll::test
