// How fast the ranks of a run exchange messages: the two numbers of the alpha-beta model (Hockney 1994), measured with
// the pattern of collectives, a message from each rank to every other one at the same time.
#pragma once

#include "ranks/communicator.h"

namespace plimsoll {

struct NetworkSpeed {
  // The sender's time for a message, whatever its length, and for each of its bytes.
  double seconds_per_message = 0, seconds_per_byte = 0;
};

// Takes about a tenth of a second, and at most 8 MiB, which it frees afterwards. All ranks call it, and get the same
// numbers: those of the slowest rank.
NetworkSpeed measure_network(Communicator& ranks);

}  // namespace plimsoll
