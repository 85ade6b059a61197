#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>

#include "base/heap.h"
#include "cli/app.h"

namespace {

// An idle compute thread of libgomp spins for milliseconds before it sleeps; if another program or the loader needs
// that core, both become very slow (three times slower on two busy cores). A short spin costs nothing measurable on an
// idle machine. libgomp reads this only while the process is loaded, hence the second start.
void restart_with_short_spin(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "2000", 1) == 0) execv("/proc/self/exe", argv);
  // If the process cannot restart itself, it continues unchanged.
}

// Also reports that memory has run out before main (in a library's global objects) or where an exception cannot pass.
[[noreturn]] void end_without_memory() {
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      ::_exit(plimsoll::report_no_memory(false));
    } catch (...) {
      // This is a bug: abort below lets the system report it.
    }
  } else if (std::uncaught_exceptions() > 0) {
    // bad_alloc came from a function of libstdc++ that is noexcept but allocates (std::filesystem's directories).
    ::_exit(plimsoll::report_no_memory(false));
  }
  std::abort();
}

// Priority 101 runs it before this program's other global objects.
__attribute__((constructor(101))) void install() { std::set_terminate(end_without_memory); }

}  // namespace

int main(int argc, char** argv) {
  restart_with_short_spin(argv);
  plimsoll::keep_heap_small();
  return plimsoll::run_cli(argc, argv);
}
