// The scale of a loss in half precision, as a run prints it. It falls when gradients overflow, and a few falls are
// normal at the beginning; if it falls from record to record, below 1, every update is skipped.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::doctor {

class LossScaleReader {
 public:
  // True if the line prints a scale that has fallen so far that it no longer helps.
  bool has_fallen(std::string_view small);

 private:
  double last_ = 0;
  std::uint64_t falls_ = 0;  // in a row
};

}  // namespace plimsoll::doctor
