// How fast the ranks of a run exchange messages: the two numbers of the alpha-beta model (Hockney 1994), measured by
// what collectives do, a message from each rank to every other one at the same time.
#pragma once

#include "ranks/communicator.h"

namespace plimsoll {

struct NetworkSpeed {
  // The time that a message takes of its sender, whatever its length, and each of its bytes.
  double seconds_per_message = 0, seconds_per_byte = 0;
};

// Takes about a tenth of a second, and 8 MiB or less, which are free again afterwards. All ranks call it, and get the
// same numbers: those of the slowest.
NetworkSpeed measure_network(Communicator& ranks);

}  // namespace plimsoll
