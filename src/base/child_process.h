// Runs another program, without a shell: with limits on its time and its output and with nothing on its input, or in
// the foreground.
//
//   const std::optional<std::filesystem::path> program = find_program("pdfinfo");
//   const ChildResult result = run_child(*program, {"-isodates", "contract.pdf"});
//   if (result.succeeded()) use(result.output);
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plimsoll {

// Looks for an executable file of that name in the directories of PATH.
std::optional<std::filesystem::path> find_program(const std::string& name);

struct ChildLimits {
  std::chrono::seconds time{60};
  std::uint64_t output_bytes = std::uint64_t{64} << 20;
};

struct ChildResult {
  int exit_code = 0;      // 128 + N if signal N ended it
  std::string output{};   // its standard output; empty if `take` received it
  std::string errors{};   // the first bytes of its standard error
  bool too_slow = false;  // it was killed, because it took longer than the limit
  bool too_long = false;  // it was killed, because it wrote more than the limit

  bool succeeded() const { return exit_code == 0 && !too_slow && !too_long; }
};

// Runs `program` to its end. `take` receives its standard output piece by piece; without `take`, the output is in
// `output`. Throws EnvironmentError if the program cannot be started; an exception from `take` ends the program, too.
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      const ChildLimits& limits = {}, const std::function<void(std::span<const std::byte>)>& take = {});

// Runs `program` to its end with this process's own input and output, and returns its exit code (128 + N if signal N
// ended it). Meanwhile, signals that ask this process to end are passed to the program. Throws EnvironmentError if it
// cannot be started. Call it before any other thread is started.
int run_in_foreground(const std::filesystem::path& program, const std::vector<std::string>& arguments);

}  // namespace plimsoll
