#include "cuda_emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

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

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  uint3 thread{};
  unsigned index = 0;
  bool runs = false;
  const Barrier* waits_for = nullptr;
  std::uint64_t generation = 0;
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
    swapcontext(&fiber.context, &scheduler_);
    fiber.waits_for = nullptr;
  }

  Barrier& whole() { return whole_; }
  Barrier& warp() { return warps_[current_->index / kWarp]; }
  std::uint64_t* slots() { return slots_[current_->index / kWarp].data(); }
  unsigned lane() const { return current_->index % kWarp; }
  bool reverse = false;

 private:
  static Block& instance();
  static void enter() { instance().run_threads(); }

  void run_threads() {
    while (next_ < threads_) {
      Fiber& fiber = *current_;
      const unsigned number = next_++;
      fiber.index = reverse ? threads_ - 1 - number : number;
      fiber.thread = {fiber.index % block_.x, fiber.index / block_.x % block_.y, fiber.index / (block_.x * block_.y)};
      threadIdx = fiber.thread;
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
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Block::enter), 0);
  }

  void switch_to(Fiber& fiber) {
    current_ = &fiber;
    threadIdx = fiber.thread;
    swapcontext(&scheduler_, &fiber.context);
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

  friend Block& block();
};

Block& block() {
  static Block the_block;
  return the_block;
}

Block& Block::instance() { return block(); }

std::vector<unsigned char> shared;

}  // namespace

void run(dim3 grid, dim3 threads, std::size_t shared_bytes, const std::function<void()>& thread) {
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

}  // namespace cuda_emulator

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  *address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(at, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an emulated error"; }

struct CUevent_st {
  double time = 0;
};
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->time = cuda_emulator::now;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = static_cast<float>(end->time - begin->time);
  return cudaSuccess;
}
