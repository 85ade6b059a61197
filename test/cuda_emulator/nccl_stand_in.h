// A stand-in for NCCL, for tests: a library of its own (PLIMSOLL_NCCL names it) with NCCL's functions, which moves
// bytes between processes through sockets, as work on the emulator's streams. It checks what it is asked for: ranks,
// types, addresses within allocations of the device, streams that exist, calls within groups, one stream a
// communicator, no new connection during a capture, and that each receive has the length of the send that it meets.
// What is wrong is written to standard error and returned as the error that NCCL has for it. Like NCCL, it holds memory
// of the device for each connection, work whose other rank has ended stays unfinished until ncclCommAbort, and its
// error is found by ncclCommGetAsyncError.
#pragma once

#include <cstddef>

#include "cuda_emulator.h"

namespace cuda_emulator {

struct NcclHooks {
  void (*enqueue)(CUstream_st*, Work) = nullptr;
  bool (*is_stream)(CUstream_st*) = nullptr;
  bool (*is_captured)(CUstream_st*) = nullptr;
  bool (*holds)(const void* begin, std::size_t bytes) = nullptr;
  void (*take_memory)(std::size_t bytes) = nullptr;
  void (*give_memory)(std::size_t bytes) = nullptr;
};
inline NcclHooks nccl_hooks() {
  return {.enqueue = enqueue_work,
          .is_stream = is_stream,
          .is_captured = is_captured,
          .holds = holds,
          .take_memory = [](std::size_t bytes) { machine().used_bytes += bytes; },
          .give_memory = [](std::size_t bytes) { machine().used_bytes -= bytes; }};
}
// plimsoll_nccl_stand_in, which the library has beside NCCL's functions: tells it of the process's emulator.
using NcclStandIn = void (*)(const NcclHooks&);

// The memory that it holds.
inline constexpr std::size_t kNcclBytesOfItself = std::size_t{8} << 20, kNcclBytesOfAPeer = std::size_t{4} << 20;

}  // namespace cuda_emulator
