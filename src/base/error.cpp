#include "base/error.h"

#include <fmt/format.h>

#include "base/in_quotes.h"

namespace plimsoll {

std::string format_problem(const Problem& problem) {
  std::string text = problem.what;
  const auto line = [&text](std::string_view label, const std::string& value) {
    if (!value.empty()) text += fmt::format("\n  {:<8} {}", label, value);
  };
  line("where:", printable(problem.where));
  line("found:", printable(problem.found, "\n"));  // a plan has lines
  line("allowed:", printable(problem.allowed, "\n"));
  line("to do:", printable(problem.remedy, "\n"));
  return text;
}

Error::Error(ExitCode exit_code, Problem problem)
    : std::runtime_error(format_problem(problem)), exit_code_(exit_code), problem_(std::move(problem)) {}

void check(bool condition, std::string_view what, CallSite where) {
  if (condition) return;
  throw InternalError({.what = std::string(what),
                       .where = fmt::format("{}:{}", where.file, where.line),
                       .remedy = "this is a bug in Plimsoll: please report it with the command that led here"});
}

}  // namespace plimsoll
