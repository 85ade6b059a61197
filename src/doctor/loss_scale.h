// The scale of a loss in half precision, as a run prints it. It falls when gradients overflow, and a few falls are how
// it is found; one that falls from record to record, below 1, says that every update is skipped.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::doctor {

class LossScaleReader {
 public:
  // True if the line prints a scale that has fallen all the way until it helps no more.
  bool has_fallen(std::string_view small);

 private:
  double last_ = 0;
  std::uint64_t falls_ = 0;  // in a row
};

}  // namespace plimsoll::doctor
