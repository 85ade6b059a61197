// The command line: parses, calls the libraries, prints, and turns typed errors into exit codes. The only place that
// prints or decides how the process ends.
//
//   int main(int argc, char** argv) { return plimsoll::run_cli(argc, argv); }
#pragma once

namespace plimsoll {

// Returns the process's exit code (base/error.h).
int run_cli(int argc, const char* const* argv);

// Reports, without allocating, that memory has run out, and returns the exit code.
int report_no_memory(bool json);

}  // namespace plimsoll
