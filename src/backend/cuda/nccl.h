// NCCL, loaded if a run has several GPUs: the library is neither linked nor shipped, and a build needs none of its
// headers. The functions that the backend calls are declared here, as NVIDIA documents them; the values are the same in
// all versions 2.x.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

struct CUstream_st;  // what a cudaStream_t points to

namespace plimsoll::cuda {

using NcclComm = struct NcclCommOpaque*;

// Rank 0 makes one, and every rank needs it to connect.
struct NcclId {
  std::array<char, 128> bytes{};
};
static_assert(sizeof(NcclId) == 128, "the library takes it by value");

inline constexpr int kNcclSuccess = 0, kNcclInvalidArgument = 4, kNcclInvalidUsage = 5;  // results
inline constexpr int kNcclRemoteError = 6, kNcclInProgress = 7;
inline constexpr int kNcclBytes = 1;                // the type of data: unsigned numbers of 8 bits
inline constexpr int kNcclMostGroupedCalls = 2048;  // between ncclGroupStart and ncclGroupEnd
inline constexpr int kNcclOldestVersion = 21200;    // 2.12.0: sends and receives are captured as NVIDIA describes it

struct Nccl {
  int (*version)(int*) = nullptr;  // 22203 is 2.22.3
  const char* (*error_text)(int result) = nullptr;
  int (*make_id)(NcclId*) = nullptr;
  int (*connect)(NcclComm*, int ranks, NcclId, int rank) = nullptr;
  int (*begin_group)() = nullptr;
  int (*end_group)() = nullptr;
  int (*send)(const void* from, std::size_t count, int type, int to, NcclComm, CUstream_st*) = nullptr;
  int (*receive)(void* to, std::size_t count, int type, int from, NcclComm, CUstream_st*) = nullptr;
  int (*async_error)(NcclComm, int* result) = nullptr;
  int (*abort)(NcclComm) = nullptr;
  int (*destroy)(NcclComm) = nullptr;
};

// Returns "2.22.3".
std::string nccl_version_text(int version);

// Loads the first library of `names` (sonames or paths) that can be loaded; it stays loaded. Throws EnvironmentError,
// which says what was tried.
Nccl load_nccl(std::span<const std::string> names);

// Loads the file that PLIMSOLL_NCCL names, or else libnccl.so.2 from where the loader looks (LD_LIBRARY_PATH).
Nccl load_nccl();

}  // namespace plimsoll::cuda
