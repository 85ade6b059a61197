// The runtime's functions: the machine, its memory, streams, graphs and events.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_emulator.h"

namespace cuda_emulator {

// --- the machine -----------------------------------------------------------------------------------------------------

static int number_of(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

Machine& machine() {
  static Machine the_machine = {.devices = number_of("PLIMSOLL_EMULATED_GPUS", 1)};
  return the_machine;
}

static double now = 0;
void pass_time(float milliseconds) { now += double{milliseconds}; }

// --- launches --------------------------------------------------------------------------------------------------------

constexpr std::size_t kUsualSharedBytes = 48 << 10;  // the limit for a kernel that asked for no more

// The limit for a block: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
static std::size_t most_shared_bytes() {
  constexpr std::size_t kKiB = 1024;
  switch (machine().capability) {
    case 70:
      return 96 * kKiB;
    case 75:
      return 64 * kKiB;
    case 80:
    case 87:
      return 163 * kKiB;
    case 90:
    case 100:
      return 227 * kKiB;
    default:
      return 99 * kKiB;
  }
}

// The dynamic shared memory that kernels were allowed.
static std::map<const void*, std::size_t>& allowed_shared_bytes() {
  static std::map<const void*, std::size_t> all;
  return all;
}
static std::size_t allowed_shared_bytes(const void* kernel) {
  const auto found = allowed_shared_bytes().find(kernel);
  return found == allowed_shared_bytes().end() ? kUsualSharedBytes : found->second;
}

void check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  constexpr unsigned kMostX = 0x7FFFFFFF, kMostYz = 65535, kMostThreads = 1024;
  if (grid.x > kMostX || grid.y > kMostYz || grid.z > kMostYz) throw std::logic_error("a grid that is too large");
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > kMostThreads) throw std::logic_error("a block with no threads, or too many");
  if (shared_bytes > allowed_shared_bytes(kernel)) throw std::logic_error("more shared memory than was allowed");
}

// --- memory
// -------------------------------------------------------------------------------------------------------------

static std::map<void*, std::size_t>& allocations() {
  static std::map<void*, std::size_t> all;
  return all;
}
static std::map<void*, std::size_t>& pinned() {
  static std::map<void*, std::size_t> all;
  return all;
}
bool holds(const void* begin, std::size_t bytes) {
  const auto behind = allocations().upper_bound(const_cast<void*>(begin));
  if (behind == allocations().begin()) return false;
  const auto& [address, size] = *std::prev(behind);
  return static_cast<const char*>(begin) + bytes <= static_cast<const char*>(address) + size;
}
// True if the device can access these bytes itself.
static bool is_reached(const void* bytes) {
  for (const auto* all : {&allocations(), &pinned()}) {
    const auto behind = all->upper_bound(const_cast<void*>(bytes));
    if (behind == all->begin()) continue;
    const auto& [address, size] = *std::prev(behind);
    if (static_cast<const char*>(bytes) < static_cast<const char*>(address) + size) return true;
  }
  return false;
}
static bool is_capturing();
std::size_t allocated_bytes() {
  std::size_t bytes = 0;
  for (const auto& [address, size] : allocations()) bytes += size;
  return bytes;
}

}  // namespace cuda_emulator

using cuda_emulator::machine;

// A kernel's error is reported late, by a later call, and stays.
static cudaError_t standing_error() { return machine().failed ? cudaErrorIllegalAddress : cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(cuda_emulator::allowed_shared_bytes(kernel));
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
    return value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue;
  }
  const auto bytes = static_cast<std::size_t>(value);
  if (bytes > cuda_emulator::most_shared_bytes()) return cudaErrorInvalidValue;
  cuda_emulator::allowed_shared_bytes()[kernel] = bytes;
  return cudaSuccess;
}

// Allocates memory and registers it with `owner`.
static cudaError_t take(std::map<void*, std::size_t>& owner, void** address, std::size_t bytes) {
  if (cuda_emulator::is_capturing()) return cudaErrorStreamCaptureUnsupported;
  *address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  owner[*address] = bytes;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** address, std::size_t bytes) { return take(cuda_emulator::allocations(), address, bytes); }
// --- graphs ----------------------------------------------------------------------------------------------------------

struct CUgraph_st {
  std::vector<cuda_emulator::Work> nodes;
};
struct CUgraphExec_st {
  std::vector<cuda_emulator::Work> nodes;
};

namespace cuda_emulator {

// The work that a stream added to the capture, and how much of it the capture's own stream has waited for.
struct Member {
  std::size_t given = 0, joined = 0;
};
struct Capture {
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  CUstream_st* origin = nullptr;
  std::map<CUstream_st*, Member> members{};
  std::uint64_t number = 0;

  Member* member(CUstream_st* stream) {
    const auto found = members.find(stream);
    return found == members.end() ? nullptr : &found->second;
  }
};
static std::unique_ptr<Capture> capture;
static std::uint64_t captures = 0;  // so far
static GraphCalls the_graph_calls;
GraphCalls& graph_calls() { return the_graph_calls; }

static bool is_capturing() { return capture != nullptr; }

namespace {

bool lazy = false;
std::set<CUstream_st*> streams;

}  // namespace

}  // namespace cuda_emulator

struct CUstream_st {
  std::deque<cuda_emulator::Work> waiting;
  std::uint64_t begun = 0, finished = 0;  // work items

  // Returns false if the next item waits for another rank.
  bool try_finish(std::uint64_t upto) {
    while (finished < upto) {
      bool is_done = true;
      try {
        is_done = waiting.front()();
      } catch (...) {
        waiting.pop_front();
        ++finished;
        throw;
      }
      if (!is_done) return false;
      waiting.pop_front();
      ++finished;
    }
    return true;
  }
  // Gives up after some time; by default never.
  void finish(std::uint64_t upto, std::chrono::milliseconds patience = std::chrono::hours(24)) {
    if (try_finish(upto)) return;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!try_finish(upto) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
};

namespace cuda_emulator {

static void finish_all() {
  for (CUstream_st* const stream : streams) stream->finish(stream->begun);
}
bool is_stream(CUstream_st* stream) { return streams.contains(stream); }
bool is_captured(CUstream_st* stream) { return capture != nullptr && capture->member(stream) != nullptr; }

void set_lazy(bool is_lazy) {
  finish_all();
  lazy = is_lazy;
}

void enqueue(CUstream_st* stream, std::function<void()> work) {
  enqueue_work(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

void enqueue_work(CUstream_st* stream, Work work) {
  // Work that waits for another rank is given so much time at once. Then the host goes on, as it does beside a GPU.
  static const std::chrono::milliseconds kPatience(number_of("PLIMSOLL_EMULATED_PATIENCE_MS", 60000));
  if (Member* const member = capture == nullptr ? nullptr : capture->member(stream)) {
    ++member->given;
    return capture->graph->nodes.push_back(std::move(work));
  }
  stream->waiting.push_back(std::move(work));
  ++stream->begun;
  if (!lazy) stream->finish(stream->begun, stream->finished + 1 == stream->begun ? kPatience : kPatience.zero());
}

}  // namespace cuda_emulator

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (cuda_emulator::capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  cuda_emulator::capture = std::make_unique<cuda_emulator::Capture>();
  cuda_emulator::capture->origin = stream;
  cuda_emulator::capture->members[stream] = {};
  cuda_emulator::capture->number = ++cuda_emulator::captures;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::unique_ptr<cuda_emulator::Capture> capture = std::move(cuda_emulator::capture);
  *graph = nullptr;
  if (capture == nullptr || capture->origin != stream) return cudaErrorStreamCaptureUnsupported;
  for (const auto& [member, work] : capture->members) {
    if (member != stream && work.joined < work.given) return cudaErrorStreamCaptureUnjoined;
  }
  ++cuda_emulator::graph_calls().captures;
  *graph = capture->graph.release();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return machine().has_room_for_graphs ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  ++cuda_emulator::graph_calls().launches;
  for (const auto& node : exec->nodes) cuda_emulator::enqueue_work(stream, node);
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  cuda_emulator::finish_all();  // the runtime waits here, too
  cuda_emulator::allocations().erase(address);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) { return take(cuda_emulator::pinned(), address, bytes); }
cudaError_t cudaFreeHost(void* address) {
  cuda_emulator::pinned().erase(address);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const bool reaches = cuda_emulator::is_reached(from) && cuda_emulator::is_reached(to);
  if (cuda_emulator::is_capturing() && !reaches) return cudaErrorStreamCaptureUnsupported;
  if (bytes > 0) cuda_emulator::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return standing_error();
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  ++cuda_emulator::starts();
  cuda_emulator::pass_time(10);  // so that what keeps a device busy for a while is soon done
  cuda_emulator::enqueue(stream, [=] { std::memset(at, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  cuda_emulator::streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->finish(stream->begun);
  cuda_emulator::streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (cuda_emulator::is_capturing()) return cudaErrorStreamCaptureUnsupported;
  stream->finish(stream->begun);
  return standing_error();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (cuda_emulator::is_capturing()) return cudaErrorStreamCaptureUnsupported;
  if (!stream->try_finish(stream->begun)) return cudaErrorNotReady;
  return standing_error();
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = machine().runtime_version;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().devices;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  machine().current = device;
  return device < machine().devices ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "an emulated GPU");
  properties->major = machine().capability / 10;
  properties->minor = machine().capability % 10;
  properties->sharedMemPerBlockOptin = cuda_emulator::most_shared_bytes();
  properties->l2CacheSize = 64 << 10;
  properties->multiProcessorCount = 1;  // blocks run one after the other
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int, int device) {
  std::strcpy(text, "0000:0A:00.0");
  text[9] = static_cast<char>('0' + device);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::size_t used = machine().used_bytes + cuda_emulator::allocated_bytes();
  *total = machine().total_bytes;
  *free = *total - std::min(used, *total);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return standing_error(); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "an emulated error";
}

struct CUevent_st {
  double time = 0;
  cudaStream_t stream = nullptr;
  std::uint64_t after = 0;    // work items of its stream
  std::uint64_t capture = 0;  // the capture in which it was last recorded; 0: none
};
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto* const capture = cuda_emulator::capture.get();
  const auto* const member = capture == nullptr ? nullptr : capture->member(stream);
  event->time = cuda_emulator::now;
  event->stream = stream;
  event->after = member == nullptr ? stream->begun : member->given;
  event->capture = member == nullptr ? 0 : capture->number;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->capture != 0) return cudaErrorCapturedEvent;
  if (event->stream != nullptr) event->stream->finish(event->after);
  return standing_error();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->capture != 0) return cudaErrorCapturedEvent;
  if (event->stream != nullptr && !event->stream->try_finish(event->after)) return cudaErrorNotReady;
  return standing_error();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->stream == nullptr) return cudaSuccess;  // never recorded
  auto* const capture = cuda_emulator::capture.get();
  if (capture != nullptr && event->capture == capture->number) {  // a graph's nodes are already in a valid order
    capture->members.try_emplace(stream);
    auto& from = capture->members[event->stream];
    if (stream == capture->origin) from.joined = std::max<std::size_t>(from.joined, event->after);
    return cudaSuccess;
  }
  if (event->capture != 0) return cudaErrorCapturedEvent;
  if (capture != nullptr && capture->member(stream) != nullptr) return cudaErrorStreamCaptureIsolation;
  // Uses the event's latest record at this time.
  cuda_emulator::enqueue_work(stream, [from = event->stream, after = event->after] { return from->try_finish(after); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->capture != 0 || end->capture != 0) return cudaErrorCapturedEvent;
  *milliseconds = static_cast<float>(end->time - begin->time);
  return cudaSuccess;
}
