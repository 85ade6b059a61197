#include "cli/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"

namespace plimsoll {
namespace {

Interrupt interrupt;
std::atomic<bool> ends_run{false};  // whether a signal asks the run to end instead of ending the process
std::atomic<Finishes> finishes{Finishes::kUpdate};
sigset_t asked{};  // the signals that have asked the run to end; only the thread that waits uses it

std::mutex removals_mutex;
std::vector<std::filesystem::path>& removals() {
  static std::vector<std::filesystem::path> paths;
  return paths;
}

// This runs in the thread that waits for signals, not in a signal handler, so it may do anything.
void remove_what_is_unfinished() {
  remove_unfinished_files();
  const std::lock_guard lock(removals_mutex);
  for (const std::filesystem::path& path : removals()) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
}

// Bypasses the streams' buffers, which another thread may be filling.
void print(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// A blocked signal comes to the thread that waits for it even if it is ignored.
bool is_ignored(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

sigset_t watched_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGXCPU, SIGUSR1}) ::sigaddset(&signals, signal);
  if (!is_ignored(SIGHUP)) ::sigaddset(&signals, SIGHUP);
  return signals;
}

// Ends the process as if the signal were not watched. Call it only in the watching thread.
void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(signal);
  // The first process of a container survives an unhandled signal.
  ::_exit(128 + signal);
}

// Returns the process that started this one and whose end is to end it, too, as a signal would: the Python package's.
// 0: there is none. (The kernel's own notice, PR_SET_PDEATHSIG, comes when the thread that started this process ends.)
pid_t watched_parent() {
  const char* const given = std::getenv("PLIMSOLL_PARENT");
  const pid_t parent = ::getppid();
  return given != nullptr && std::to_string(parent) == given ? parent : 0;
}

void serve(int signal) {
  if (signal == SIGUSR1) {
    interrupt.request_save();
    print("\nsaving the last finished update; the run continues\n");
  } else if (!ends_run) {
    if (is_ignored(signal)) return;
    remove_what_is_unfinished();
    end_by(signal);
  } else if (::sigismember(&asked, signal) == 0) {
    ::sigaddset(&asked, signal);
    interrupt.request_end(signal);
    print(finishes == Finishes::kUpdate ? "\nsaving the last finished update before ending"
                                        : "\nfinishing the texts that are being written");
    print("; press Ctrl-C (or send the signal) again to end at once\n");
  } else if (signal != SIGXCPU) {  // the kernel repeats that one every second
    end_by(signal);
  }
}

}  // namespace

void watch_signals() {
  const sigset_t signals = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // in the threads that this one starts, too
  std::thread([signals, parent = watched_parent()] {
    constexpr timespec kLookAtParent{.tv_sec = 1, .tv_nsec = 0};
    bool is_orphan = false;
    while (true) {
      const int signal =
          parent == 0 ? ::sigwaitinfo(&signals, nullptr) : ::sigtimedwait(&signals, nullptr, &kLookAtParent);
      if (signal > 0) serve(signal);
      if (parent != 0 && ::getppid() != parent && !std::exchange(is_orphan, true)) serve(SIGTERM);
    }
  }).detach();
}

void remove_when_ended(const std::filesystem::path& path) {
  const std::lock_guard lock(removals_mutex);
  removals().push_back(std::filesystem::absolute(path));
}

Interrupt& interrupt_on_signals(Finishes what) {
  finishes = what;
  ends_run = true;
  return interrupt;
}

}  // namespace plimsoll
