#include "cuda_emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLIMSOLL_SANITIZED
#endif

namespace cuda_emulator {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;
constexpr unsigned kWarp = 32;

// All who take part have to arrive before one goes on.
struct Barrier {
  unsigned members = 0, arrived = 0;
  std::uint64_t generation = 0;

  void leave() {  // a thread that has ended waits for nobody
    --members;
    if (members > 0 && arrived == members) open();
  }
  void open() {
    arrived = 0;
    ++generation;
  }
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  bool real;
  std::size_t group;
};

// What a lane gives the others of its warp to see.
struct Gift {
  std::uint32_t words[6];
  const std::uint16_t* row;
};

struct Fiber {
  ucontext_t context{};
  std::jmp_buf jump{};
  bool entered = false;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  uint3 thread{};
  unsigned index = 0;
  bool runs = false;
  const Barrier* waits_for = nullptr;
  std::uint64_t generation = 0;
  std::vector<Copy> copies;  // not yet waited for
  std::size_t groups = 0;    // that were committed
};

class Block {
 public:
  void run(dim3 block, const std::function<void()>& thread) {
    threads_ = block.x * block.y * block.z;
    block_ = block;
    thread_ = &thread;
    next_ = 0;
    whole_ = {.members = threads_};
    warps_.assign((threads_ + kWarp - 1) / kWarp, {});
    for (unsigned warp = 0; warp < warps_.size(); ++warp) {
      warps_[warp].members = std::min(kWarp, threads_ - warp * kWarp);
    }
    slots_.resize(warps_.size());
    gifts_.resize(warps_.size());
    unsigned done = 0;
    // Threads that wait keep their fibers; one that ends leaves its fiber to the next thread, without a switch.
    while (done < threads_) {
      bool moved = false;
      for (std::size_t i = 0; i < fibers_.size() || next_ < threads_; ++i) {
        if (i == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>());
        Fiber& fiber = *fibers_[i];
        if (!fiber.runs) {
          if (next_ == threads_) continue;
          fiber.runs = true;
          fiber.waits_for = nullptr;
          make_ready(fiber);
        } else if (fiber.waits_for != nullptr && fiber.waits_for->generation == fiber.generation) {
          continue;
        }
        moved = true;
        switch_to(fiber);
      }
      done = ended_;
      if (!moved && done < threads_) {
        fibers_.clear();
        ended_ = 0;
        throw std::logic_error("a barrier that not all threads of a block reach");
      }
    }
    ended_ = 0;
  }

  void wait(Barrier& barrier) {
    Fiber& fiber = *current_;
    fiber.waits_for = &barrier;
    fiber.generation = barrier.generation;
    if (++barrier.arrived == barrier.members) {
      barrier.open();
      fiber.waits_for = nullptr;
      return;
    }
    leave(fiber);
    fiber.waits_for = nullptr;
  }

  Barrier& whole() { return whole_; }
  Barrier& warp() { return warps_[current_->index / kWarp]; }
  std::uint64_t* slots() { return slots_[current_->index / kWarp].data(); }
  Gift* gifts() { return gifts_[current_->index / kWarp].data(); }
  unsigned lane() const { return current_->index % kWarp; }
  Fiber& fiber() { return *current_; }
  bool reverse = false;

 private:
  static Block& instance();
  static void enter() {
    instance().run_threads();
    instance().leave(*instance().current_);
  }

#ifdef PLIMSOLL_SANITIZED
  void leave(Fiber& fiber) { swapcontext(&fiber.context, &scheduler_); }
  void go_on(Fiber& fiber) { swapcontext(&scheduler_, &fiber.context); }
#else
  // swapcontext asks the system for the signal mask each time; a jump does not. A fiber is entered by the first and
  // gone on with by the second, which sanitizers would take for an error.
  void leave(Fiber& fiber) {
    if (_setjmp(fiber.jump) == 0) _longjmp(scheduler_jump_, 1);
  }
  void go_on(Fiber& fiber) {
    if (_setjmp(scheduler_jump_) != 0) return;
    if (fiber.entered) _longjmp(fiber.jump, 1);
    fiber.entered = true;
    swapcontext(&scheduler_, &fiber.context);
  }
  std::jmp_buf scheduler_jump_;
#endif

  void run_threads() {
    while (next_ < threads_) {
      Fiber& fiber = *current_;
      const unsigned number = next_++;
      fiber.index = reverse ? threads_ - 1 - number : number;
      fiber.thread = {fiber.index % block_.x, fiber.index / block_.x % block_.y, fiber.index / (block_.x * block_.y)};
      threadIdx = fiber.thread;
      fiber.copies.clear();
      fiber.groups = 0;
      (*thread_)();
      ++ended_;
      whole_.leave();
      warps_[fiber.index / kWarp].leave();
    }
    current_->runs = false;
  }

  void make_ready(Fiber& fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;  // it never returns
    fiber.entered = false;
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Block::enter), 0);
  }

  void switch_to(Fiber& fiber) {
    current_ = &fiber;
    threadIdx = fiber.thread;
    go_on(fiber);
  }

  ucontext_t scheduler_{};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  const std::function<void()>* thread_ = nullptr;
  dim3 block_;
  unsigned threads_ = 0, next_ = 0, ended_ = 0;
  Barrier whole_;
  std::vector<Barrier> warps_;
  std::vector<std::array<std::uint64_t, kWarp>> slots_;
  std::vector<std::array<Gift, kWarp>> gifts_;

  friend Block& block();
};

Block& block() {
  static Block the_block;
  return the_block;
}

Block& Block::instance() { return block(); }

std::vector<unsigned char> shared;

}  // namespace

int& kernel_runs() {
  static int runs = 0;
  return runs;
}

void run(dim3 grid, dim3 threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  if (machine().kernels_until_failure > 0 && --machine().kernels_until_failure == 0) machine().failed = true;
  if (machine().failed) return;
  ++kernel_runs();
  pass_time(1e-3F);  // as if each kernel took as long
  gridDim = grid;
  blockDim = threads;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        shared.assign(shared_bytes + 16, 0xFF);  // NaN: shared memory begins with anything
        block().run(threads, thread);
      }
    }
  }
}

// --- launches --------------------------------------------------------------------------------------------------------

constexpr std::size_t kUsualSharedBytes = 48 << 10;  // what a kernel may have that asked for no more

// Of a block: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
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

// Dynamic shared memory that kernels were allowed.
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

void* dynamic_shared() {
  const auto address = reinterpret_cast<std::uintptr_t>(shared.data());
  return reinterpret_cast<void*>((address + 15) / 16 * 16);
}
void reverse_threads(bool reverse) { block().reverse = reverse; }
void block_barrier() { block().wait(block().whole()); }
void warp_barrier() { block().wait(block().warp()); }
std::uint64_t* warp_slots() { return block().slots(); }
unsigned lane() { return block().lane(); }

static double now = 0;
void pass_time(float milliseconds) { now += double{milliseconds}; }
// --- what a warp's lanes do together ---------------------------------------------------------------------------------

unsigned ballot(bool predicate) {
  block().gifts()[lane()].words[0] = predicate ? 1 : 0;
  warp_barrier();
  unsigned all = 0;
  for (unsigned other = 0; other < kWarp; ++other) all |= block().gifts()[other].words[0] << other;
  warp_barrier();
  return all;
}

void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (*to_float)(std::uint16_t)) {
  Gift* const gifts = block().gifts();
  std::copy(a, a + 4, gifts[lane()].words);
  std::copy(b, b + 2, gifts[lane()].words + 4);
  warp_barrier();
  const auto half = [&](unsigned holder, unsigned word, unsigned place) {
    return to_float(static_cast<std::uint16_t>(gifts[holder].words[word] >> (16 * place)));
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane() / 4, column = lane() % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned holder = k % 8 / 2;
      c[i] += half(4 * row + holder, k / 8 * 2 + i / 2, k % 2) * half(4 * column + holder, 4 + k / 8, k % 2);
    }
  }
  warp_barrier();
}

void load_matrices(const void* row, bool transposed, std::uint32_t (&to)[4]) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) throw std::logic_error("a matrix row that is not aligned to 16");
  Gift* const gifts = block().gifts();
  gifts[lane()].row = static_cast<const std::uint16_t*>(row);
  warp_barrier();
  const unsigned across = lane() / 4, along = lane() % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](unsigned r, unsigned c) { return std::uint32_t{gifts[8 * matrix + r].row[c]}; };
    to[matrix] =
        transposed ? at(along, across) | at(along + 1, across) << 16 : at(across, along) | at(across, along + 1) << 16;
  }
  warp_barrier();
}

void copy_async(void* to, const void* from, std::size_t bytes, bool real) {
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % bytes != 0) {
    throw std::logic_error("an asynchronous copy that is not aligned to its size");
  }
  Fiber& fiber = block().fiber();
  fiber.copies.push_back({to, from, bytes, real, fiber.groups});
}
void commit_copies() { ++block().fiber().groups; }
void wait_for_copies(std::size_t pending) {
  Fiber& fiber = block().fiber();
  std::erase_if(fiber.copies, [&](const Copy& copy) {
    if (copy.group + pending >= fiber.groups) return false;
    copy.real ? static_cast<void>(std::memcpy(copy.to, copy.from, copy.bytes))
              : static_cast<void>(std::memset(copy.to, 0, copy.bytes));
    return true;
  });
}

// --- the machine -----------------------------------------------------------------------------------------------------

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

static std::map<void*, std::size_t>& allocations() {
  static std::map<void*, std::size_t> all;
  return all;
}
static std::map<void*, std::size_t>& pinned() {
  static std::map<void*, std::size_t> all;
  return all;
}
// Whether the device reaches these bytes by itself.
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

// Errors of kernels come late, with whatever is asked next, and stay.
static cudaError_t standing_error() { return machine().failed ? cudaErrorIllegalAddress : cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(cuda_emulator::allowed_shared_bytes(kernel));
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  const auto bytes = static_cast<std::size_t>(value);
  if (bytes > cuda_emulator::most_shared_bytes()) return cudaErrorInvalidValue;
  cuda_emulator::allowed_shared_bytes()[kernel] = bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  if (cuda_emulator::is_capturing()) return cudaErrorStreamCaptureUnsupported;
  *address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  cuda_emulator::allocations()[*address] = bytes;
  return cudaSuccess;
}
// --- graphs ----------------------------------------------------------------------------------------------------------

struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> nodes;
};

namespace cuda_emulator {

// What a stream gave to the capture, and how much of it the capture's own stream has waited for.
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
  std::deque<std::function<void()>> waiting;
  std::uint64_t begun = 0, finished = 0;  // pieces of work

  void finish(std::uint64_t upto) {
    while (finished < upto) {
      const std::function<void()> work = std::move(waiting.front());
      waiting.pop_front();
      work();
      ++finished;
    }
  }
};

namespace cuda_emulator {

static void finish_all() {
  for (CUstream_st* const stream : streams) stream->finish(stream->begun);
}

void set_lazy(bool is_lazy) {
  finish_all();
  lazy = is_lazy;
}

void enqueue(CUstream_st* stream, std::function<void()> work) {
  if (Member* const member = capture == nullptr ? nullptr : capture->member(stream)) {
    ++member->given;
    return capture->graph->nodes.push_back(std::move(work));
  }
  stream->waiting.push_back(std::move(work));
  ++stream->begun;
  if (!lazy) stream->finish(stream->begun);
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
  for (const auto& node : exec->nodes) cuda_emulator::enqueue(stream, node);
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  cuda_emulator::finish_all();  // as the runtime waits
  cuda_emulator::allocations().erase(address);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  if (cuda_emulator::is_capturing()) return cudaErrorStreamCaptureUnsupported;
  *address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  cuda_emulator::pinned()[*address] = bytes;
  return cudaSuccess;
}
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
  if (bytes > 0) cuda_emulator::enqueue(stream, [=] { std::memset(at, value, bytes); });
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
  std::uint64_t after = 0;    // pieces of its work
  std::uint64_t capture = 0;  // in which it was recorded last; 0: in none
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
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->stream == nullptr) return cudaSuccess;  // never recorded
  auto* const capture = cuda_emulator::capture.get();
  if (capture != nullptr && event->capture == capture->number) {  // a graph's nodes are in an order that fits already
    capture->members.try_emplace(stream);
    auto& from = capture->members[event->stream];
    if (stream == capture->origin) from.joined = std::max<std::size_t>(from.joined, event->after);
    return cudaSuccess;
  }
  if (event->capture != 0) return cudaErrorCapturedEvent;
  if (capture != nullptr && capture->member(stream) != nullptr) return cudaErrorStreamCaptureIsolation;
  // As it was recorded last by now.
  cuda_emulator::enqueue(stream, [from = event->stream, after = event->after] { from->finish(after); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->capture != 0 || end->capture != 0) return cudaErrorCapturedEvent;
  *milliseconds = static_cast<float>(end->time - begin->time);
  return cudaSuccess;
}
