// NCCL is opened at run time, and its stand-in refuses what NCCL would not do.
#include "backend/cuda/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "gpu_ranks.h"

namespace plimsoll::test {
namespace {

using testing::HasSubstr;

TEST(Nccl, SaysWhatWasTried) {
  const std::vector<std::string> names = {"libnccl-of-nobody.so.2", "/nowhere/libnccl.so"};
  try {
    cuda::load_nccl(names);
    FAIL();
  } catch (const EnvironmentError& error) {
    const Problem& problem = error.problem();
    EXPECT_THAT(problem.what, HasSubstr("NCCL"));
    EXPECT_THAT(problem.where, HasSubstr("--device cuda"));
    for (const std::string& name : names) EXPECT_THAT(problem.found, HasSubstr(name));
    EXPECT_THAT(problem.allowed, HasSubstr(names[0]));
    EXPECT_THAT(problem.remedy, HasSubstr("PLIMSOLL_NCCL"));
  }
}

TEST(Nccl, RefusesALibraryThatIsAnother) {
  const std::vector<std::string> names = {"libm.so.6"};
  try {
    cuda::load_nccl(names);
    FAIL();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.problem().found, HasSubstr("ncclGetVersion"));
  }
}

TEST(Nccl, WritesVersions) {
  EXPECT_EQ(cuda::nccl_version_text(22203), "2.22.3");
  EXPECT_EQ(cuda::nccl_version_text(21200), "2.12.0");
}

// Connects by hand, and lets `body` make calls. Returns what it returns, of each rank.
using Calls = std::function<std::string(const cuda::Nccl&, cuda::NcclComm, int rank, cudaStream_t, std::byte* memory)>;
constexpr std::size_t kMemory = 1024;

std::vector<std::string> with_connection(const Calls& body) {
  return fork_ranks(2, [&](Communicator& ranks) {
    const std::vector<std::string> names = {PLIMSOLL_NCCL_STAND_IN};
    const cuda::Nccl nccl = cuda::load_nccl(names);
    cuda::NcclId id;
    if (ranks.rank() == 0) nccl.make_id(&id);
    id = all_gather(ranks, id).front();
    cuda::NcclComm comm = nullptr;
    if (nccl.connect(&comm, 2, id, ranks.rank()) != cuda::kNcclSuccess) return std::string("not connected");
    cudaStream_t stream = nullptr;
    cudaStreamCreate(&stream);
    void* memory = nullptr;
    cudaMalloc(&memory, kMemory);
    std::string said = body(nccl, comm, ranks.rank(), stream, static_cast<std::byte*>(memory));
    barrier(ranks);
    nccl.abort(comm);
    cudaStreamDestroy(stream);
    cudaFree(memory);
    return said;
  });
}

TEST(Nccl, TheStandInRefusesWrongCalls) {
  const auto said = with_connection(
      [](const cuda::Nccl& nccl, cuda::NcclComm comm, int rank, cudaStream_t stream, std::byte* memory) {
        const auto grouped = [&](const auto& call) {
          nccl.begin_group();
          call();
          return nccl.end_group();
        };
        const int other = 1 - rank;
        std::array<std::byte, 8> host{};
        const std::array<int, 9> results = {
            grouped([&] { nccl.send(memory, 8, cuda::kNcclBytes, 2, comm, stream); }),                // no such rank
            grouped([&] { nccl.send(memory, 8, cuda::kNcclBytes, rank, comm, stream); }),             // itself
            grouped([&] { nccl.send(memory, 8, 7, other, comm, stream); }),                           // floats
            grouped([&] { nccl.send(memory, kMemory + 1, cuda::kNcclBytes, other, comm, stream); }),  // too long
            grouped([&] { nccl.send(host.data(), 8, cuda::kNcclBytes, other, comm, stream); }),       // the host's
            grouped([&] { nccl.send(memory, 0, cuda::kNcclBytes, other, comm, stream); }),            // nothing
            grouped([&] { nccl.send(memory, 8, cuda::kNcclBytes, other, comm, nullptr); }),           // no stream
            nccl.send(memory, 8, cuda::kNcclBytes, other, comm, stream),                              // no group
            grouped([&] {                                                                             // overlap
              nccl.send(memory, 8, cuda::kNcclBytes, other, comm, stream);
              nccl.receive(memory + 4, 8, cuda::kNcclBytes, other, comm, stream);
            })};
        std::string refused;
        for (const int result : results) refused += result == cuda::kNcclSuccess ? '.' : 'x';
        nccl.begin_group();
        nccl.end_group();
        return refused;
      });
  for (const std::string& each : said) EXPECT_EQ(each, "xxxxxxxxx");
}

TEST(Nccl, TheStandInFindsMessagesOfUnequalLengths) {
  const auto said = with_connection(
      [](const cuda::Nccl& nccl, cuda::NcclComm comm, int rank, cudaStream_t stream, std::byte* memory) {
        cuda_emulator::set_lazy(true);
        nccl.begin_group();
        if (rank == 0) {
          nccl.send(memory, 16, cuda::kNcclBytes, 1, comm, stream);
        } else {
          nccl.receive(memory, 8, cuda::kNcclBytes, 0, comm, stream);
        }
        nccl.end_group();
        int error = cuda::kNcclSuccess;
        for (int i = 0; i < 2000 && error == cuda::kNcclSuccess && rank == 1; ++i) {
          cudaStreamQuery(stream);
          nccl.async_error(comm, &error);
          ::usleep(1000);
        }
        if (rank == 0) cudaStreamQuery(stream);
        return std::to_string(error);
      });
  EXPECT_EQ(said[0], "0");
  EXPECT_EQ(said[1], std::to_string(cuda::kNcclInvalidUsage));
}

TEST(Nccl, TheStandInAllowsNoFirstMessageDuringACapture) {
  const auto said = with_connection(
      [](const cuda::Nccl& nccl, cuda::NcclComm comm, int rank, cudaStream_t stream, std::byte* memory) {
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        nccl.begin_group();
        nccl.send(memory, 8, cuda::kNcclBytes, 1 - rank, comm, stream);
        const int result = nccl.end_group();
        cudaGraph_t graph = nullptr;
        cudaStreamEndCapture(stream, &graph);
        if (graph != nullptr) cudaGraphDestroy(graph);
        return std::to_string(result);
      });
  for (const std::string& each : said) EXPECT_EQ(each, std::to_string(cuda::kNcclInvalidUsage));
}

}  // namespace
}  // namespace plimsoll::test
