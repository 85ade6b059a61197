// A library to load before a program (LD_PRELOAD) that makes one system call, or one allocation, fail.
//
//   PLIMSOLL_INJECT        what: "calls" or "allocations". Nothing happens without it, nor in a process that this one
//   starts. PLIMSOLL_INJECT_LOG    a file that gets a line for each event of a run in which nothing fails ("call 17
//   write 64 PATH",
//                          "stack 5f0a… frame frame …"), or for the one that failed ("failed …")
//   PLIMSOLL_INJECT_AT     the event that fails: a call's number, from 1, or a stack's name; none: nothing fails
//   PLIMSOLL_INJECT_HOW    calls: "short" (half of a write is written), "kill" (the process is killed before the call),
//   or an error's number; allocations: "once", or "on"
//                          for all that follow as well
//
// Calls are those that change files, and pthread_create. Allocations are identified by the eight innermost frames of
// their stack, as module and offset, so that a name means the same in every run. Invariant: nothing here allocates, and
// a call that does not fail is passed on unchanged.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr int kFrames = 8;
constexpr std::size_t kMostStacks = 1 << 20;

enum class Mode { kOff, kCalls, kAllocations };
enum class How { kError, kShort, kKill, kOnce, kOn };

// The environment's request, read before main.
Mode asked = Mode::kOff;
// The current mode. Nothing happens before main, where a program could not end cleanly, and where the CUDA runtime
// registers kernels without checking its allocations.
Mode mode = Mode::kOff;
int (*program_main)(int, char**, char**) = nullptr;
How how = How::kError;
int error_number = 0;
std::uint64_t at = 0;  // 0: nothing fails
int log_file = -1;

std::atomic<std::uint64_t> calls{0};
std::atomic<bool> failing{false};
std::atomic<std::uint64_t> seen[kMostStacks];
thread_local bool looking_up = false;  // dlsym is running, which may itself allocate and free
thread_local bool inside = false;      // in our own code, or in an allocation that an allocation makes

struct Inside {
  bool outer = inside;
  Inside() { inside = true; }
  ~Inside() { inside = outer; }
};

struct Module {
  std::uintptr_t begin, end;
  char name[64];
};
std::array<Module, 256> modules;
std::size_t module_count = 0;

void log_line(const char* text, std::size_t size) {
  if (log_file >= 0) ::syscall(SYS_write, log_file, text, size);
}

int add_module(dl_phdr_info* info, std::size_t, void*) {
  if (module_count == modules.size()) return 0;
  Module& module = modules[module_count];
  module = {UINTPTR_MAX, 0, {}};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (begin < module.begin) module.begin = begin;
    if (begin + header.p_memsz > module.end) module.end = begin + header.p_memsz;
  }
  const char* slash = std::strrchr(info->dlpi_name, '/');
  std::snprintf(module.name, sizeof module.name, "%s", slash != nullptr ? slash + 1 : info->dlpi_name);
  ++module_count;
  return 0;
}

const Module* module_of(std::uintptr_t address) {
  for (std::size_t i = 0; i < module_count; ++i) {
    if (address >= modules[i].begin && address < modules[i].end) return &modules[i];
  }
  return nullptr;
}

__attribute__((constructor)) void read_environment() {
  const char* what = std::getenv("PLIMSOLL_INJECT");
  const char* log = std::getenv("PLIMSOLL_INJECT_LOG");
  const char* which = std::getenv("PLIMSOLL_INJECT_AT");
  const char* manner = std::getenv("PLIMSOLL_INJECT_HOW");
  if (what == nullptr) return;
  dl_iterate_phdr(add_module, nullptr);
  if (log != nullptr) {
    log_file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  }
  const bool allocations = std::strcmp(what, "allocations") == 0;
  if (which != nullptr) at = std::strtoull(which, nullptr, allocations ? 16 : 10);
  if (manner != nullptr) {
    how = std::strcmp(manner, "short") == 0  ? How::kShort
          : std::strcmp(manner, "kill") == 0 ? How::kKill
          : std::strcmp(manner, "once") == 0 ? How::kOnce
          : std::strcmp(manner, "on") == 0   ? How::kOn
                                             : How::kError;
    error_number = std::atoi(manner);
  }
  for (const char* name : {"PLIMSOLL_INJECT", "PLIMSOLL_INJECT_LOG", "PLIMSOLL_INJECT_AT", "PLIMSOLL_INJECT_HOW"}) {
    ::unsetenv(name);
  }
  asked = allocations ? Mode::kAllocations : Mode::kCalls;
}

int begin_main(int count, char** words, char** environment) {
  mode = asked;
  return program_main(count, words, environment);
}

// Returns the function of that name that would be called without this library.
void* next(std::atomic<void*>& known, const char* name) {
  void* function = known.load(std::memory_order_relaxed);
  if (function != nullptr) return function;
  looking_up = true;
  function = ::dlsym(RTLD_NEXT, name);
  looking_up = false;
  known.store(function, std::memory_order_relaxed);
  return function;
}

// Allocations ------------------------------------------------------------------------------------------------------

struct Stack {
  std::uint64_t name = 0xcbf29ce484222325ULL;
  std::array<std::uintptr_t, kFrames> frames{};
  int count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* argument) {
  Stack& stack = *static_cast<Stack*>(argument);
  const std::uintptr_t address = _Unwind_GetIP(context);
  static const Module* const ours = module_of(reinterpret_cast<std::uintptr_t>(&add_frame));
  if (ours != nullptr && address >= ours->begin && address < ours->end) return _URC_NO_REASON;
  const Module* module = module_of(address);
  const auto mix = [&stack](std::uint64_t value) { stack.name = (stack.name ^ value) * 0x100000001b3ULL; };
  if (module != nullptr) {
    for (const char* c = module->name; *c != 0; ++c) mix(static_cast<unsigned char>(*c));
    const std::uintptr_t offset = address - module->begin;
    for (int i = 0; i < 8; ++i) mix((offset >> (8 * i)) & 0xff);
  }
  stack.frames[static_cast<std::size_t>(stack.count++)] = address;
  return stack.count == kFrames ? _URC_END_OF_STACK : _URC_NO_REASON;
}

void log_stack(const char* word, const Stack& stack, std::size_t bytes) {
  char line[kFrames * 96 + 128];
  int size = std::snprintf(line, sizeof line, "%s %016lx %zu", word, static_cast<unsigned long>(stack.name), bytes);
  for (int i = 0; i < stack.count; ++i) {
    const std::uintptr_t address = stack.frames[static_cast<std::size_t>(i)];
    const Module* module = module_of(address);
    size += std::snprintf(line + size, sizeof line - static_cast<std::size_t>(size), " %s+0x%lx",
                          module != nullptr && module->name[0] != 0 ? module->name : "program",
                          static_cast<unsigned long>(address - (module != nullptr ? module->begin : 0)));
  }
  line[size++] = '\n';
  log_line(line, static_cast<std::size_t>(size));
}

// True the first time that a name is seen.
bool is_new(std::uint64_t name) {
  for (std::size_t i = name % kMostStacks;; i = (i + 1) % kMostStacks) {
    std::uint64_t there = seen[i].load(std::memory_order_relaxed);
    if (there == name) return false;
    if (there == 0 && seen[i].compare_exchange_strong(there, name)) return true;
    if (there == name) return false;
  }
}

// True if an allocation fails; must be called once for each.
bool allocation_fails(std::size_t bytes) {
  if (mode != Mode::kAllocations || inside) return false;
  if (failing.load(std::memory_order_relaxed)) return how == How::kOn;
  const Inside guard;
  const int kept = errno;
  Stack stack;
  _Unwind_Backtrace(add_frame, &stack);
  errno = kept;
  if (at == 0) {
    if (is_new(stack.name)) log_stack("stack", stack, bytes);
    return false;
  }
  if (stack.name != at || failing.exchange(true)) return false;
  log_stack("failed", stack, bytes);
  return true;
}

// Memory for dlsym's allocations while the next malloc is not known.
alignas(16) std::byte early[1 << 16];
std::atomic<std::size_t> early_used{0};
bool is_early(const void* memory) { return memory >= early && memory < early + sizeof early; }
void* early_memory(std::size_t bytes) {
  const std::size_t begin = early_used.fetch_add((bytes + 15) / 16 * 16);
  return begin + bytes <= sizeof early ? early + begin : nullptr;
}
std::atomic<void*> known_free{};

#define NEXT(function)                          \
  static std::atomic<void*> known_##function{}; \
  auto* const next_##function = reinterpret_cast<decltype(&::function)>(next(known_##function, #function))

// Calls --------------------------------------------------------------------------------------------------------------

enum class Fate { kPass, kFail, kHalve };

// Counts a call and decides whether it fails. If `path` is nullptr, the path of `file` is used.
Fate fate_of(const char* name, const char* path, int file, std::size_t bytes, bool can_be_short) {
  if (mode != Mode::kCalls || inside) return Fate::kPass;
  const Inside guard;
  const std::uint64_t number = calls.fetch_add(1) + 1;
  if (at != 0 && number != at) return Fate::kPass;
  const int kept = errno;
  char line[600], place[400] = "-";
  if (path != nullptr) {
    std::snprintf(place, sizeof place, "%s", path);
  } else if (file >= 0) {
    char link[64];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t size = ::readlink(link, place, sizeof place - 1);
    place[size > 0 ? size : 0] = 0;
  }
  const bool halves = how == How::kShort && can_be_short && bytes > 1;
  const bool fails = at != 0 && (how == How::kError || how == How::kKill || halves);
  const int size = std::snprintf(line, sizeof line, "%s %lu %s %zu %s\n", fails ? "failed" : "call",
                                 static_cast<unsigned long>(number), name, bytes, place);
  log_line(line, static_cast<std::size_t>(size));
  errno = kept;
  if (fails && how == How::kKill) ::kill(::getpid(), SIGKILL);
  if (!fails) return Fate::kPass;
  if (halves) return Fate::kHalve;
  errno = error_number;
  return Fate::kFail;
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

mode_t mode_of(int flags, va_list list) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int count, char** words, void (*init)(), void (*fini)(),
                      void (*loader_fini)(), void* stack_end) {
  program_main = main;
  const auto start = reinterpret_cast<decltype(&__libc_start_main)>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(begin_main, count, words, init, fini, loader_fini, stack_end);
}

void* malloc(std::size_t bytes) noexcept {
  if (looking_up) return early_memory(bytes);
  if (next(known_free, "free") == nullptr) return nullptr;  // known first: dlsym frees what an earlier one allocated
  NEXT(malloc);
  if (allocation_fails(bytes)) return errno = ENOMEM, nullptr;
  const Inside guard;
  return next_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  if (looking_up) return early_memory(count * size);
  NEXT(calloc);
  if (allocation_fails(count * size)) return errno = ENOMEM, nullptr;
  const Inside guard;
  return next_calloc(count, size);
}

void* realloc(void* memory, std::size_t bytes) noexcept {
  NEXT(realloc);
  if (allocation_fails(bytes)) return errno = ENOMEM, nullptr;
  const Inside guard;
  return next_realloc(memory, bytes);
}

void* reallocarray(void* memory, std::size_t count, std::size_t size) noexcept {
  NEXT(reallocarray);
  if (allocation_fails(count * size)) return errno = ENOMEM, nullptr;
  const Inside guard;
  return next_reallocarray(memory, count, size);
}

void free(void* memory) noexcept {
  if (memory == nullptr || is_early(memory)) return;
  const auto function = reinterpret_cast<decltype(&::free)>(known_free.load(std::memory_order_relaxed));
  if (function != nullptr) function(memory);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  NEXT(posix_memalign);
  if (allocation_fails(bytes)) return ENOMEM;
  const Inside guard;
  return next_posix_memalign(memory, alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  NEXT(aligned_alloc);
  if (allocation_fails(bytes)) return errno = ENOMEM, nullptr;
  const Inside guard;
  return next_aligned_alloc(alignment, bytes);
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  // Before the constructor has run nothing is counted, and dlsym is not called from within the loader.
  if (mode != Mode::kAllocations) {
    return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
  }
  if (allocation_fails(bytes)) return errno = ENOMEM, MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

ssize_t write(int file, const void* bytes, std::size_t count) {
  NEXT(write);
  const Fate fate = fate_of("write", nullptr, file, count, true);
  return fate == Fate::kFail ? -1 : next_write(file, bytes, fate == Fate::kHalve ? count / 2 : count);
}

ssize_t pwrite(int file, const void* bytes, std::size_t count, off_t offset) {
  NEXT(pwrite);
  const Fate fate = fate_of("pwrite", nullptr, file, count, true);
  return fate == Fate::kFail ? -1 : next_pwrite(file, bytes, fate == Fate::kHalve ? count / 2 : count, offset);
}

ssize_t writev(int file, const iovec* parts, int count) {
  NEXT(writev);
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  const Fate fate = fate_of("writev", nullptr, file, bytes, true);
  if (fate == Fate::kFail) return -1;
  if (fate == Fate::kPass) return next_writev(file, parts, count);
  iovec half = parts[0];
  half.iov_len = (half.iov_len + 1) / 2;
  return next_writev(file, &half, 1);
}

int fsync(int file) {
  NEXT(fsync);
  return fate_of("fsync", nullptr, file, 0, false) == Fate::kFail ? -1 : next_fsync(file);
}

int fdatasync(int file) {
  NEXT(fdatasync);
  return fate_of("fdatasync", nullptr, file, 0, false) == Fate::kFail ? -1 : next_fdatasync(file);
}

int ftruncate(int file, off_t size) noexcept {
  NEXT(ftruncate);
  return fate_of("ftruncate", nullptr, file, 0, false) == Fate::kFail ? -1 : next_ftruncate(file, size);
}

int posix_fallocate(int file, off_t offset, off_t size) {
  NEXT(posix_fallocate);
  return fate_of("posix_fallocate", nullptr, file, 0, false) == Fate::kFail ? errno
                                                                            : next_posix_fallocate(file, offset, size);
}

int close(int file) {
  NEXT(close);
  if (mode != Mode::kCalls || file == log_file || !writes(::fcntl(file, F_GETFL))) return next_close(file);
  // A close that fails has still closed the file.
  const Fate fate = fate_of("close", nullptr, file, 0, false);
  const int result = next_close(file);
  if (fate != Fate::kFail) return result;
  errno = error_number;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return fate_of("rename", to, -1, 0, false) == Fate::kFail ? -1 : next_rename(from, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  NEXT(renameat2);
  if (fate_of("renameat2", to, -1, 0, false) == Fate::kFail) return -1;
  return next_renameat2(from_directory, from, to_directory, to, flags);
}

int mkdir(const char* path, mode_t permissions) noexcept {
  NEXT(mkdir);
  return fate_of("mkdir", path, -1, 0, false) == Fate::kFail ? -1 : next_mkdir(path, permissions);
}

int unlink(const char* path) noexcept {
  NEXT(unlink);
  return fate_of("unlink", path, -1, 0, false) == Fate::kFail ? -1 : next_unlink(path);
}

int rmdir(const char* path) noexcept {
  NEXT(rmdir);
  return fate_of("rmdir", path, -1, 0, false) == Fate::kFail ? -1 : next_rmdir(path);
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  NEXT(unlinkat);
  return fate_of("unlinkat", path, -1, 0, false) == Fate::kFail ? -1 : next_unlinkat(directory, path, flags);
}

int open(const char* path, int flags, ...) {
  NEXT(open);
  va_list list;
  va_start(list, flags);
  const mode_t permissions = mode_of(flags, list);
  va_end(list);
  if (writes(flags) && fate_of("open", path, -1, 0, false) == Fate::kFail) return -1;
  return next_open(path, flags, permissions);
}

FILE* fopen(const char* path, const char* manner) {
  NEXT(fopen);
  const bool for_writing = std::strpbrk(manner, "wa+") != nullptr;
  return for_writing && fate_of("fopen", path, -1, 0, false) == Fate::kFail ? nullptr : next_fopen(path, manner);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*begin)(void*),
                   void* argument) noexcept {
  NEXT(pthread_create);
  if (fate_of("pthread_create", nullptr, -1, 0, false) == Fate::kFail) return EAGAIN;
  return next_pthread_create(thread, attributes, begin, argument);
}

}  // extern "C"

// Calls the next library, which may be a leak checker's and knows its own allocations. If it calls malloc in turn,
// `inside` keeps that call from being counted twice.
template <typename... Rest>
static void* next_new(std::atomic<void*>& known, const char* symbol, std::size_t bytes, Rest... rest) {
  const auto function = reinterpret_cast<void* (*)(std::size_t, Rest...)>(next(known, symbol));
  const Inside guard;
  return function(bytes, rest...);
}

void* operator new(std::size_t bytes) {
  static std::atomic<void*> known{};
  if (allocation_fails(bytes)) throw std::bad_alloc();
  return next_new(known, "_Znwm", bytes);
}
void* operator new[](std::size_t bytes) {
  static std::atomic<void*> known{};
  if (allocation_fails(bytes)) throw std::bad_alloc();
  return next_new(known, "_Znam", bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t& tag) noexcept {
  static std::atomic<void*> known{};
  return allocation_fails(bytes) ? nullptr : next_new<const std::nothrow_t&>(known, "_ZnwmRKSt9nothrow_t", bytes, tag);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  static std::atomic<void*> known{};
  return allocation_fails(bytes) ? nullptr : next_new<const std::nothrow_t&>(known, "_ZnamRKSt9nothrow_t", bytes, tag);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  static std::atomic<void*> known{};
  if (allocation_fails(bytes)) throw std::bad_alloc();
  return next_new(known, "_ZnwmSt11align_val_t", bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  static std::atomic<void*> known{};
  if (allocation_fails(bytes)) throw std::bad_alloc();
  return next_new(known, "_ZnamSt11align_val_t", bytes, alignment);
}
