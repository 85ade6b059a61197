// cuBLASLt, loaded at run time: the library takes several hundred megabytes, so it is neither linked nor shipped, and a
// build needs none of its headers. The functions that the backend calls are declared here, as NVIDIA documents them;
// the values are the same in versions 12 and 13.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

struct CUstream_st;  // what a cudaStream_t points to

namespace plimsoll::cuda {

using LtHandle = struct LtHandleOpaque*;
using LtOperation = struct LtOperationOpaque*;
using LtLayout = struct LtLayoutOpaque*;
using LtPreference = struct LtPreferenceOpaque*;

// May be stored and used again with the same version of the library.
using LtAlgorithm = std::array<std::uint64_t, 8>;

struct LtCandidate {
  LtAlgorithm algorithm{};
  std::size_t workspace_bytes = 0;
  int status = 0;
  float waves = 0;
  std::array<int, 4> reserved{};
};
static_assert(sizeof(LtCandidate) == 96, "the library fills an array of these");

inline constexpr int kLtSuccess = 0, kLtInvalidValue = 7, kLtNotSupported = 15;                  // statuses
inline constexpr int kLtF32 = 0, kLtF16 = 2, kLtBF16 = 14;                                       // types of data
inline constexpr int kLtComputeF32 = 68;                                                         // with no TF32
inline constexpr int kLtPlain = 0, kLtTransposed = 1;                                            // of an operand
inline constexpr int kLtOperationA = 3, kLtOperationB = 4, kLtEpilogue = 7, kLtBiasPointer = 8;  // of an operation
inline constexpr int kLtBiasStride = 10;                                                         // in elements
inline constexpr int kLtBatchCount = 5, kLtBatchStride = 6;                                      // of a layout
inline constexpr int kLtNoEpilogue = 1, kLtBiasEpilogue = 4;
inline constexpr int kLtWorkspaceBytes = 1, kLtReductionMask = 3;  // of a preference
inline constexpr int kLtAlignmentA = 5, kLtAlignmentB = 6, kLtAlignmentC = 7, kLtAlignmentD = 8;
inline constexpr std::uint32_t kLtReduceInComputeType = 2;

// D = alpha op(A) op(B) + beta C (+ bias[row of D]), column-major; or as many such products as the layouts' batch count
// says, each matrix a stride of elements behind the one before.
struct CublasLt {
  std::size_t (*version)() = nullptr;  // 130100 is 13.1
  const char* (*status_name)(int status) = nullptr;
  int (*create)(LtHandle*) = nullptr;
  int (*destroy)(LtHandle) = nullptr;
  int (*create_operation)(LtOperation*, int compute_type, int scale_type) = nullptr;
  int (*destroy_operation)(LtOperation) = nullptr;
  int (*set_operation)(LtOperation, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*create_layout)(LtLayout*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t pitch) = nullptr;
  int (*destroy_layout)(LtLayout) = nullptr;
  int (*set_layout)(LtLayout, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*create_preference)(LtPreference*) = nullptr;
  int (*destroy_preference)(LtPreference) = nullptr;
  int (*set_preference)(LtPreference, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*heuristic)(LtHandle, LtOperation, LtLayout a, LtLayout b, LtLayout c, LtLayout d, LtPreference, int asked,
                   LtCandidate* candidates, int* returned) = nullptr;
  int (*check)(LtHandle, LtOperation, LtLayout a, LtLayout b, LtLayout c, LtLayout d, const LtAlgorithm*,
               LtCandidate* result) = nullptr;
  int (*matmul)(LtHandle, LtOperation, const void* alpha, const void* a, LtLayout, const void* b, LtLayout,
                const void* beta, const void* c, LtLayout, void* d, LtLayout, const LtAlgorithm*, void* workspace,
                std::size_t workspace_bytes, CUstream_st*) = nullptr;
};

// Loads the first library of `names` (sonames or paths) that can be loaded and that `unfit`, if given, has no objection
// to (it returns the reason, or an empty text); it stays loaded. Throws EnvironmentError, which says what was tried.
CublasLt load_cublaslt(std::span<const std::string> names,
                       const std::function<std::string(const CublasLt&)>& unfit = {});

// Returns why the library does not start on this machine, as version 13 does not with a driver for CUDA 12; empty if it
// starts.
std::string cannot_start(const CublasLt& lt);

// Loads the file that PLIMSOLL_CUBLASLT names, or else the first of versions 13 and 12 that starts, from where the
// loader looks (LD_LIBRARY_PATH) or from Python's packages (nvidia-cublas).
CublasLt load_cublaslt();

}  // namespace plimsoll::cuda
