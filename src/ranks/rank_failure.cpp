#include "ranks/rank_failure.h"

#include <fmt/format.h>

#include <cstdlib>

namespace plimsoll {

std::string rank_text(const Communicator& ranks, int rank) {
  return fmt::format("rank {} on {}", rank, ranks.host(rank));
}

std::string failure_text(const Communicator& ranks, const Problem& problem, ExitCode code) {
  return fmt::format("{}\n{} has failed: {}", static_cast<int>(code), rank_text(ranks, ranks.rank()), problem.what)
      .substr(0, kMostFailureBytes);
}

RankError told_failure(const Communicator& ranks, std::string_view text) {
  const std::string all(text);
  const std::size_t line = all.find('\n');
  return {{.what = line == std::string::npos ? all : all.substr(line + 1),
           .where = rank_text(ranks, ranks.rank()),
           .remedy = "see that rank's own message"},
          static_cast<ExitCode>(std::atoi(all.c_str()))};
}

RankError silent_failure(const Communicator& ranks, const std::string& names,
                         std::chrono::steady_clock::duration silent, int signal) {
  return {{.what = fmt::format("{} said nothing for {:.1f} s", names, std::chrono::duration<double>(silent).count()),
           .where = rank_text(ranks, ranks.rank()),
           .found = signal != 0 ? fmt::format("signal {} while this rank waited: the launcher ends all ranks", signal)
                                : std::string("no message within --timeout"),
           .remedy = "look at the launcher's message and at that rank's machine"},
          ExitCode::kEnvironment};
}

}  // namespace plimsoll
