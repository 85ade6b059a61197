// How ranks tell each other that one of them fails, whatever connects them.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "ranks/communicator.h"

namespace plimsoll {

// A failure is told in no more bytes than these.
inline constexpr std::size_t kMostFailureBytes = 2048;
// A rank that was asked to end waits so long for ranks that say nothing.
inline constexpr std::chrono::milliseconds kPatienceWithSilence(300);

// "rank 1 on HOST"
std::string rank_text(const Communicator& ranks, int rank);

// Returns what the rank that fails tells the others, as "CODE\nrank 1 on HOST has failed: WHAT".
std::string failure_text(const Communicator& ranks, const Problem& problem, ExitCode code);
// The error of a rank that was told such a text.
RankError told_failure(const Communicator& ranks, std::string_view text);
// The error of a rank that has waited so long for `names`. `signal`: that has asked this process to end; 0: none.
RankError silent_failure(const Communicator& ranks, const std::string& names,
                         std::chrono::steady_clock::duration silent, int signal);

}  // namespace plimsoll
