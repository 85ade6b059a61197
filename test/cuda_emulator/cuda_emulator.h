// CUDA on the host, for tests: kernels compiled as C++ run block by block, thread by thread, on fibers that meet at
// barriers and shuffles. One block runs at a time, so that shared memory is static memory. A test may reverse the order
// in which threads run between two barriers (`reverse_threads`), which reveals a missing barrier.
//
// It refuses, like a GPU and its driver, launches beyond the limits of grids, blocks and shared memory, and operations
// that may not be captured.
//
// It does not emulate time (except `pass_time`), several streams at once, or races between two barriers other than
// those that the reversed order shows.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "base/nvidia.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define PLIMSOLL_SHARED static
#define PLIMSOLL_TABLE static const
#define PLIMSOLL_IN_PLACE
#define PLIMSOLL_HOST_DEVICE

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

// The indices of the current thread.
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

struct CUstream_st;

namespace cuda_emulator {

// Work on a stream runs at once; or, while the stream is captured, becomes a node of the graph.
void enqueue(CUstream_st* stream, std::function<void()> work);
// Work that may have to wait for another rank: it returns false until it is done, and is then called again.
using Work = std::function<bool()>;
void enqueue_work(CUstream_st* stream, Work work);
bool is_stream(CUstream_st* stream);
bool is_captured(CUstream_st* stream);
// True if these bytes lie in one allocation of the device.
bool holds(const void* begin, std::size_t bytes);
// Makes work on a stream run as late as allowed: when somebody waits for it.
void set_lazy(bool lazy);
// How many graphs were captured, and how often one was launched.
struct GraphCalls {
  int captures = 0, launches = 0;
};
GraphCalls& graph_calls();

// The number of kernels that have run.
int& kernel_runs();
// The number of kernels, products of cuBLASLt and fills that were given to streams.
int& starts();
// Throws std::logic_error for a launch that a GPU would refuse.
void check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes);
// Runs `thread` for each thread of each block.
void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread);
void* dynamic_shared();
// Makes the threads of a block run from the last one.
void reverse_threads(bool reverse);
// Waits for all threads of the block, or of the warp.
void block_barrier();
void warp_barrier();
// Shows a word to the warp's other lanes; returns the words of all 32, until the lane's next but one exchange.
const std::uint64_t* exchange_words(std::uint64_t word);
unsigned lane();
// The GPUs and the driver that the runtime reports; a test that changes them restores them.
struct Machine {
  int devices = 1, current = 0;  // PLIMSOLL_EMULATED_GPUS sets how many there are
  int driver_version = 13000, runtime_version = 13000;
  int capability = 90;
  std::size_t total_bytes = std::size_t{80} << 30;
  std::size_t used_bytes = std::size_t{1} << 30;  // beside cudaMalloc's
  plimsoll::NvmlFunctions nvml{};                 // no function present
  int kernels_until_failure = 0;                  // the last of so many accesses invalid memory; 0: none
  bool failed = false;                            // and nothing runs any more
  bool has_room_for_graphs = true;
};
Machine& machine();
inline const plimsoll::NvmlFunctions& nvml() { return machine().nvml; }
// The bytes that cudaMalloc has given and that are not yet freed.
std::size_t allocated_bytes();
// Moves events this much further apart.
void pass_time(float milliseconds);

unsigned ballot(bool predicate);
// Throws std::logic_error unless the block that this one waits for has ended its turn: blocks run one after the other.
void expect_turn(bool has_come);
// What tensor cores leave of a sum of up to 16 products of halves and the sum before: they add exactly, but for bits
// beyond a float's, which they cut off and do not round. (Fasi, Higham, Mikaitis, Pranesh 2021, "Numerical behavior of
// NVIDIA tensor cores": truncation in every addition, of which this is the last and largest.)
float truncated(double sum);
// The instructions of backend/cuda/warp_products.h. Every lane of the warp must call them. c[16,8] += a[16,16]
// b[16,8].
void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (*to_float)(std::uint16_t));
void load_matrices(const void* row, bool transposed, std::uint32_t (&to)[4]);
// A copy arrives as late as allowed: when it is waited for.
void copy_async(void* to, const void* from, std::size_t bytes, bool real);
void commit_copies();
void wait_for_copies(std::size_t pending);
// A warpgroup's product (backend/cuda/warpgroup_products.h), of which every thread computes its part: as late as
// allowed, too.
void start_product(std::function<void()> compute);
void commit_products();
void wait_for_products(std::size_t pending);

template <typename T>
T exchange(T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  T result;
  std::memcpy(&result, &exchange_words(word)[source % 32], sizeof(T));
  return result;
}

}  // namespace cuda_emulator

inline void __syncthreads() { cuda_emulator::block_barrier(); }
inline void __syncwarp(unsigned = 0xFFFFFFFFU) { cuda_emulator::warp_barrier(); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return cuda_emulator::exchange(value, cuda_emulator::lane() ^ static_cast<unsigned>(mask));
}
template <typename T>
T __shfl_sync(unsigned, T value, int source) {
  return cuda_emulator::exchange(value, static_cast<unsigned>(source));
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
  const unsigned lane = cuda_emulator::lane();
  return cuda_emulator::exchange(value, lane >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned, bool predicate) { return cuda_emulator::ballot(predicate); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}
inline unsigned atomicOr(unsigned* at, unsigned bits) {
  const unsigned before = *at;
  *at |= bits;
  return before;
}

// The part of the runtime that the backend calls.
using cudaStream_t = struct CUstream_st*;
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907
};
struct cudaDeviceProp {
  char name[256];
  int major, minor;
  std::size_t sharedMemPerBlockOptin;
  int l2CacheSize;
  int multiProcessorCount;
};
struct cudaFuncAttributes {
  int maxDynamicSharedSizeBytes;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;  // percent
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
cudaError_t cudaMalloc(void** address, std::size_t bytes);
cudaError_t cudaFree(void* address);
cudaError_t cudaMallocHost(void** address, std::size_t bytes);
cudaError_t cudaFreeHost(void* address);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, struct CUevent_st* event, unsigned flags);
cudaError_t cudaGetLastError();
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
const char* cudaGetErrorString(cudaError_t error);
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
using cudaEvent_t = struct CUevent_st*;
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
