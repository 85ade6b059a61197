// Typed errors: libraries throw them, and only `cli` prints them and turns them into an exit code.
//
// Every message answers five questions: what went wrong, where (file, line, page, word, tensor), what was found, what
// is allowed, and what to do. A field may be empty only if its question has no answer.
//
//   throw DataError({.what = "box lies outside the page", .where = "train.jsonl:17, page 'a12', word 4 (\"TOTAL\")",
//                    .found = "[12, 40, 1214, 60]", .allowed = "x from 0 to 1000",
//                    .remedy = "check --box-format (pixel or 1000)"});
#pragma once

#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plimsoll {

// The exit codes of the process; their values are part of the command line's contract.
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,      // a bug in Plimsoll
  kUsage = 2,         // invalid or contradictory options
  kData = 3,          // bad data or a bad file
  kBudget = 4,        // does not fit the memory budget
  kEnvironment = 5,   // device, disk, memory, permissions
  kDiverged = 6,      // loss or gradients became NaN or infinite
  kUnrecognised = 7,  // `doctor` does not recognise the failure in a log
  kInterrupted = 130  // stopped by SIGINT, after a clean checkpoint; by another signal: 128 + its number
};

struct Problem {
  std::string what{};     // one sentence, no full stop
  std::string where{};    // file:line, page, word, tensor or option
  std::string found{};    // the value found
  std::string allowed{};  // the values that are allowed
  std::string remedy{};   // what the user should do now
};

// Formats "what\n  where: …\n  found: …\n  allowed: …\n  to do: …" without the empty fields.
std::string format_problem(const Problem& problem);

class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, Problem problem);
  ExitCode exit_code() const { return exit_code_; }
  const Problem& problem() const { return problem_; }

 private:
  ExitCode exit_code_;
  Problem problem_;
};

class UsageError : public Error {
 public:
  explicit UsageError(Problem problem) : Error(ExitCode::kUsage, std::move(problem)) {}
};
class DataError : public Error {
 public:
  explicit DataError(Problem problem) : Error(ExitCode::kData, std::move(problem)) {}
};
class BudgetError : public Error {
 public:
  explicit BudgetError(Problem problem) : Error(ExitCode::kBudget, std::move(problem)) {}
};
// The budget for the memory of the device that computes, or of the process while it reads pages, is too small.
class BudgetTooSmall : public BudgetError {
 public:
  BudgetTooSmall(Problem problem, std::size_t smallest_budget_bytes)
      : BudgetError(std::move(problem)), smallest_budget_bytes_(smallest_budget_bytes) {}
  // Returns the smallest budget that is known to be enough for what was requested.
  std::size_t smallest_budget_bytes() const { return smallest_budget_bytes_; }

 private:
  std::size_t smallest_budget_bytes_;
};
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(Problem problem) : Error(ExitCode::kEnvironment, std::move(problem)) {}
};
class DivergedError : public Error {
 public:
  explicit DivergedError(Problem problem) : Error(ExitCode::kDiverged, std::move(problem)) {}
};
class InterruptedError : public Error {
 public:
  // `signal` ended the run. The exit code is 128 + its number, as shells report it.
  static constexpr int kSigInt = 2;
  explicit InterruptedError(Problem problem, int signal = kSigInt)
      : Error(static_cast<ExitCode>(128 + signal), std::move(problem)) {}
};
// A broken internal invariant, which is never the user's fault.
class InternalError : public Error {
 public:
  explicit InternalError(Problem problem) : Error(ExitCode::kInternal, std::move(problem)) {}
};

// The place of a call. Replaces std::source_location, which clang 14 does not have.
struct CallSite {
  const char* file;
  int line;
  static constexpr CallSite here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Throws InternalError naming the caller's file and line unless `condition` holds. It is active in release builds.
void check(bool condition, std::string_view what, CallSite where = CallSite::here());
// Does the same with a message that is only built when it is needed.
template <std::invocable What>
void check(bool condition, const What& what, CallSite where = CallSite::here()) {
  if (!condition) check(false, std::string(what()), where);
}

}  // namespace plimsoll
