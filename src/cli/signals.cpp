#include "cli/signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

namespace plimsoll {
namespace {

Interrupt interrupt;

// What is safe in a handler: write(2), of a text that stands.
void print(std::string_view text) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  errno = error;
}

void request_end(int signal) {
  interrupt.request_end(signal);
  print("\nsaving the last finished update before ending; press Ctrl-C (or send the signal) again to end at once\n");
  std::signal(signal, signal == SIGXCPU ? SIG_IGN : SIG_DFL);
}

void request_save(int) {
  interrupt.request_save();
  print("\nsaving the last finished update; the run continues\n");
}

}  // namespace

void save_on_signal() { std::signal(SIGUSR1, request_save); }

Interrupt& interrupt_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGXCPU}) std::signal(signal, request_end);
  if (std::signal(SIGHUP, request_end) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  save_on_signal();
  return interrupt;
}

}  // namespace plimsoll
