// The speeds at which offloaded tensors are read back and written.
#pragma once

namespace plimsoll {

struct TransferSpeed {
  double read_bytes_per_second = 0, write_bytes_per_second = 0;
};

}  // namespace plimsoll
