#include "cuda_emulator.h"

#include <sanitizer/asan_interface.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

// swapcontext asks the system for the signal mask each time, which takes longer than most threads run between two
// barriers. Sanitizers know of no other switch, and other processors are seldom here.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PLIMSOLL_SWITCHES_STACKS
// Keeps on this stack what a called function has to keep, puts where it ends into *from, and goes on where `to` ends.
// It jumps there: a processor expects `ret` to return to the last call, which was on another stack.
extern "C" void plimsoll_switch_stacks(void** from, void* to);
asm(R"(
  .text
  .type plimsoll_switch_stacks, @function
plimsoll_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
  .size plimsoll_switch_stacks, .-plimsoll_switch_stacks
)");
#endif

namespace cuda_emulator {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;
constexpr unsigned kWarp = 32;

// Every participant has to arrive before any of them continues.
struct Barrier {
  unsigned members = 0, arrived = 0;
  std::uint64_t generation = 0;

  void leave() {  // a thread that has ended waits for no other
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

// A row of eight numbers that compilers add and multiply at once.
using Columns = double __attribute__((vector_size(64)));

// What the lanes of a warp show to each other.
struct Shown {
  std::array<std::uint64_t, kWarp> slots;
  std::uint16_t rows[kWarp][8];  // of load_matrices
  double a[16][16];              // of mma
  Columns b[16], sums[16];
  bool multiplied;
};

struct Fiber {
  bool runs = false;
  const Barrier* waits_for = nullptr;
  std::uint64_t generation = 0;
  uint3 thread{};
  unsigned index = 0;
  std::size_t place = 0;  // among the block's fibers
#ifdef PLIMSOLL_SWITCHES_STACKS
  void* context = nullptr;  // where its stack ends
#else
  ucontext_t context{};
#endif
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  std::vector<Copy> copies;  // not yet waited for
  std::size_t groups = 0;    // number of committed groups
  std::deque<std::vector<std::function<void()>>> products{
      std::size_t{1}};     // not yet waited for, by group; the last is open
  unsigned exchanges = 0;  // that its warp has made
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
    shown_.resize(warps_.size());
    unsigned done = 0;
    // Threads that wait keep their fibers; one that ends leaves its fiber to the next thread, without a switch, and the
    // fibers of a block are those of the next.
    while (done < threads_) {
      bool moved = false;
      // A warp's fibers take turns until all wait for other warps: so few stacks stay in the processor's caches.
      for (std::size_t first = 0; first < fibers_.size() || next_ < threads_; first += kWarp) {
        while (run_once(first)) moved = true;
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

  // Continues each fiber of a warp's number of them that need not wait, and starts threads with those that have none.
  // False if none could go on.
  bool run_once(std::size_t first) {
    bool moved = false;
    while (Fiber* const fiber = next_of_warp(first)) {
      moved = true;
      make_current(*fiber);
      go_on(*fiber);
      first = current_->place + 1;  // others of the warp may have gone on since
      if (first % kWarp == 0) break;
    }
    return moved;
  }

  void make_current(Fiber& fiber) {
    current_ = &fiber;
    threadIdx = fiber.thread;
  }

  // The first fiber of a warp's number of them, from this place on, that need not wait, or one for a thread that has
  // not begun; nullptr if there is none.
  Fiber* next_of_warp(std::size_t place) {
    do {
      if (place == fibers_.size()) {
        if (next_ == threads_) return nullptr;
        fibers_.push_back(std::make_unique<Fiber>());
        make_ready(*fibers_[place]);
        fibers_[place]->place = place;
      }
      Fiber& fiber = *fibers_[place];
      if (!fiber.runs) {
        if (next_ == threads_) continue;
        fiber.runs = true;
        fiber.waits_for = nullptr;
        return &fiber;
      }
      if (fiber.waits_for == nullptr || fiber.waits_for->generation != fiber.generation) return &fiber;
    } while (++place % kWarp != 0);
    return nullptr;
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
    // The warp's next thread goes on at once: the way by the scheduler would be two switches.
    Fiber* const next = (fiber.place + 1) % kWarp == 0 ? nullptr : next_of_warp(fiber.place + 1);
    next == nullptr ? leave(fiber) : hand_over(fiber, *next);
    fiber.waits_for = nullptr;
  }

  Barrier& whole() { return whole_; }
  Barrier& warp() { return warps_[current_->index / kWarp]; }
  // Where the warp's lanes show what they have next. Two places take turns: whoever shows something in the third
  // exchange has met the others in the second, so all have read what the first one showed.
  Shown& show() { return shown_[current_->index / kWarp][current_->exchanges++ % 2]; }
  unsigned lane() const { return current_->index % kWarp; }
  Fiber& fiber() { return *current_; }
  bool reverse = false;

 private:
  static Block& instance();
  static void enter() {
    for (;;) {
      instance().run_threads();
      instance().leave(*instance().current_);
    }
  }

#ifdef PLIMSOLL_SWITCHES_STACKS
  void leave(Fiber& fiber) { plimsoll_switch_stacks(&fiber.context, scheduler_); }
  void go_on(Fiber& fiber) { plimsoll_switch_stacks(&scheduler_, fiber.context); }
  void hand_over(Fiber& fiber, Fiber& next) {
    make_current(next);
    if (next.place + 1 < fibers_.size()) __builtin_prefetch(fibers_[next.place + 1]->context);  // it is probably next
    plimsoll_switch_stacks(&fiber.context, next.context);
  }
  void make_ready(Fiber& fiber) {
    // Stacks lie whole pages apart. If they were used from the same place in a page, those of a warp would share a few
    // sets of the processor's first cache.
    const std::size_t apart = fibers_.size() * 320 % 4096;
    const auto end = reinterpret_cast<std::uintptr_t>(fiber.stack.get()) + kStackBytes - apart;
    auto* const top = reinterpret_cast<std::uintptr_t*>(end / 16 * 16) - 2;
    top[0] = reinterpret_cast<std::uintptr_t>(&Block::enter);
    top[1] = 0;  // enter never returns
    std::fill(top - 6, top, 0);  // the registers
    fiber.context = top - 6;
  }
  void* scheduler_ = nullptr;
#else
  void leave(Fiber& fiber) { swapcontext(&fiber.context, &scheduler_); }
  void go_on(Fiber& fiber) { swapcontext(&scheduler_, &fiber.context); }
  void hand_over(Fiber& fiber, Fiber& next) {
    make_current(next);
    swapcontext(&fiber.context, &next.context);
  }
  void make_ready(Fiber& fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;  // it never returns
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Block::enter), 0);
  }
  ucontext_t scheduler_{};
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
      fiber.exchanges = 0;
      (*thread_)();
      ++ended_;
      whole_.leave();
      warps_[fiber.index / kWarp].leave();
    }
    current_->runs = false;
  }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  const std::function<void()>* thread_ = nullptr;
  dim3 block_;
  unsigned threads_ = 0, next_ = 0, ended_ = 0;
  Barrier whole_;
  std::vector<Barrier> warps_;
  std::vector<std::array<Shown, 2>> shown_;

  friend Block& block();
};

Block& block() {
  static Block the_block;
  return the_block;
}

Block& Block::instance() { return block(); }

std::vector<unsigned char> shared;
// What lies behind a block's shared memory, which no kernel may write: on a GPU it is another block's, or nobody's.
constexpr std::size_t kGuardBytes = 4096;

// A sanitizer tells of reads there, too, until the block has ended or failed.
class Poisoned {
 public:
  explicit Poisoned(unsigned char* guard) : guard_(guard) { ASAN_POISON_MEMORY_REGION(guard_, kGuardBytes); }
  ~Poisoned() { ASAN_UNPOISON_MEMORY_REGION(guard_, kGuardBytes); }
  Poisoned(const Poisoned&) = delete;
  Poisoned& operator=(const Poisoned&) = delete;

 private:
  [[maybe_unused]] unsigned char* guard_;
};

unsigned char* shared_begin() {
  const auto address = reinterpret_cast<std::uintptr_t>(shared.data());
  return shared.data() + ((address + 15) / 16 * 16 - address);
}

}  // namespace

int& kernel_runs() {
  static int runs = 0;
  return runs;
}

int& starts() {
  static int count = 0;
  return count;
}

void run(dim3 grid, dim3 threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  if (machine().kernels_until_failure > 0 && --machine().kernels_until_failure == 0) machine().failed = true;
  if (machine().failed) return;
  ++kernel_runs();
  ++starts();
  pass_time(1e-3F);  // pretends that each kernel took this long
  gridDim = grid;
  blockDim = threads;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        // NaN: shared memory may begin with anything.
        shared.assign(shared_bytes + 16 + kGuardBytes, 0xFF);
        unsigned char* const guard = shared_begin() + shared_bytes;
        {
          const Poisoned behind(guard);
          block().run(threads, thread);
        }
        static const std::vector<unsigned char> untouched(kGuardBytes, 0xFF);
        if (std::memcmp(guard, untouched.data(), kGuardBytes) != 0) {
          throw std::logic_error("a block wrote beyond its shared memory");
        }
      }
    }
  }
}

void* dynamic_shared() { return shared_begin(); }
void reverse_threads(bool reverse) { block().reverse = reverse; }
void block_barrier() { block().wait(block().whole()); }
void warp_barrier() { block().wait(block().warp()); }
const std::uint64_t* exchange_words(std::uint64_t word) {
  Shown& shown = block().show();
  shown.slots[lane()] = word;
  warp_barrier();
  return shown.slots.data();
}
unsigned lane() { return block().lane(); }

void expect_turn(bool has_come) {
  if (!has_come) throw std::logic_error("a block that waits for one that has not begun");
}

// --- what a warp's lanes do together ---------------------------------------------------------------------------------

unsigned ballot(bool predicate) {
  const std::uint64_t* const words = exchange_words(predicate ? 1 : 0);
  unsigned all = 0;
  for (unsigned other = 0; other < kWarp; ++other) all |= static_cast<unsigned>(words[other]) << other;
  return all;
}

float truncated(double sum) {
  const auto nearest = static_cast<float>(sum);
  const bool away = std::fabs(double{nearest}) > std::fabs(sum) && std::fabs(nearest) < INFINITY;
  return away ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) - 1) : nearest;  // the next towards zero
}

// The first lane that goes on after the barrier computes the results of all.
void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (*to_float)(std::uint16_t)) {
  Shown& shown = block().show();
  shown.multiplied = false;
  const unsigned across = lane() / 4, along = lane() % 4 * 2;
  for (unsigned place = 0; place < 2; ++place) {
    const auto half = [&](std::uint32_t word) {
      return double{to_float(static_cast<std::uint16_t>(word >> (16 * place)))};
    };
    for (unsigned word = 0; word < 4; ++word) {
      shown.a[across + word % 2 * 8][along + word / 2 * 8 + place] = half(a[word]);
    }
    for (unsigned word = 0; word < 2; ++word) shown.b[along + word * 8 + place][across] = half(b[word]);
  }
  for (unsigned i = 0; i < 4; ++i) shown.sums[across + i / 2 * 8][along + i % 2] = double{c[i]};
  warp_barrier();
  if (!shown.multiplied) {
    for (unsigned row = 0; row < 16; ++row) {
      Columns sums = shown.sums[row];
      for (unsigned k = 0; k < 16; ++k) sums += shown.a[row][k] * shown.b[k];
      shown.sums[row] = sums;
    }
    shown.multiplied = true;
  }
  for (unsigned i = 0; i < 4; ++i) c[i] = truncated(shown.sums[across + i / 2 * 8][along + i % 2]);
}

void load_matrices(const void* row, bool transposed, std::uint32_t (&to)[4]) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) throw std::logic_error("a matrix row that is not aligned to 16");
  Shown& shown = block().show();
  std::memcpy(shown.rows[lane()], row, sizeof shown.rows[0]);  // read before any lane goes on
  warp_barrier();
  const unsigned across = lane() / 4, along = lane() % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](unsigned r, unsigned c) { return std::uint32_t{shown.rows[8 * matrix + r][c]}; };
    to[matrix] =
        transposed ? at(along, across) | at(along + 1, across) << 16 : at(across, along) | at(across, along + 1) << 16;
  }
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

void start_product(std::function<void()> compute) { block().fiber().products.back().push_back(std::move(compute)); }
void commit_products() { block().fiber().products.emplace_back(); }
void wait_for_products(std::size_t pending) {
  Fiber& fiber = block().fiber();
  while (fiber.products.size() > pending + 1) {
    const std::vector<std::function<void()>> group = std::move(fiber.products.front());
    fiber.products.pop_front();
    for (const std::function<void()>& compute : group) compute();
  }
}

}  // namespace cuda_emulator
