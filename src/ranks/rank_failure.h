// How ranks tell each other that one of them has failed, for any kind of connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "ranks/communicator.h"

namespace plimsoll {

// A message about a failure has at most this many bytes.
inline constexpr std::size_t kMostFailureBytes = 2048;
// How long a rank that was asked to end waits for silent ranks.
inline constexpr std::chrono::milliseconds kPatienceWithSilence(300);

// Returns "rank 1 on HOST".
std::string rank_text(const Communicator& ranks, int rank);

// Returns the message of a failing rank to the others, "CODE\nrank 1 on HOST has failed: WHAT".
std::string failure_text(const Communicator& ranks, const Problem& problem, ExitCode code);
// Makes the error of a rank that has received such a message.
RankError told_failure(const Communicator& ranks, std::string_view text);
// Makes the error of a rank that has waited this long for `names`. `signal` is the one that has asked this process to
// end; 0: none.
RankError silent_failure(const Communicator& ranks, const std::string& names,
                         std::chrono::steady_clock::duration silent, int signal);

}  // namespace plimsoll
