#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>

#include "base/heap.h"
#include "cli/app.h"

namespace {

// An idle compute thread of libgomp spins for milliseconds before it sleeps; wherever another program wants that core,
// or the loader does, both then crawl (three times slower on two busy cores). A short spin costs nothing measurable on
// an idle machine. libgomp reads this only while the process is loaded, hence the second start.
void restart_with_short_spin(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "2000", 1) == 0) execv("/proc/self/exe", argv);
  // Where the process cannot start itself again, it goes on as it is.
}

// Memory that runs out before main (in a library's global objects) or where an exception cannot pass: said all the
// same.
[[noreturn]] void end_without_memory() {
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      ::_exit(plimsoll::report_no_memory(false));
    } catch (...) {
      // A bug: the system's report of it, below.
    }
  } else if (std::uncaught_exceptions() > 0) {
    // Out of a function of libstdc++ that promises not to throw and allocates (std::filesystem's directories).
    ::_exit(plimsoll::report_no_memory(false));
  }
  std::abort();
}

// 101: before this program's other global objects.
__attribute__((constructor(101))) void install() { std::set_terminate(end_without_memory); }

}  // namespace

int main(int argc, char** argv) {
  restart_with_short_spin(argv);
  plimsoll::keep_heap_small();
  return plimsoll::run_cli(argc, argv);
}
