// The speeds at which offloaded tensors are read back and written.
#pragma once

namespace plimsoll {

struct TransferSpeed {
  double read_bytes_per_second = 0, write_bytes_per_second = 0;
  bool both_ways = false;  // reads and writes run at the same time, as between a GPU and its host copy
};

}  // namespace plimsoll
