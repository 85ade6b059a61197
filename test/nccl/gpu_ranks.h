// Ranks with a GPU each: processes with the emulator, connected by the stand-in for NCCL.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "cuda_emulator.h"
#include "support/forked_ranks.h"

namespace plimsoll::test {

// Makes the backend of a rank, and connects it with the others'. Call it in the rank's process.
inline std::unique_ptr<CudaBackend> gpu_of_rank(Communicator& ranks,
                                                std::chrono::milliseconds timeout = std::chrono::seconds(120)) {
  ::setenv("PLIMSOLL_NCCL", PLIMSOLL_NCCL_STAND_IN, 1);
  cuda_emulator::machine().devices = ranks.size();
  auto backend = std::make_unique<CudaBackend>(ranks.rank());
  backend->connect(ranks, timeout);
  return backend;
}

}  // namespace plimsoll::test
