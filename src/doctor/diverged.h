// Recognises runs whose loss rises far above where it began and stays there, without ever becoming NaN. No single line
// shows that, so the whole log is read first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "doctor/diagnosis.h"
#include "doctor/run_up.h"

namespace plimsoll::doctor {

class DivergedReader {
 public:
  void read(const LossLine& losses, std::uint64_t number, std::string_view text, std::string_view small);
  // Call it for a line that only a finished run prints: the next loss is another run's.
  void close(std::uint64_t number) { closing_line_ = number; }
  // Call it at the log's end. Returns the lines that show the rise, from the lowest loss to the last one; empty if the
  // loss did not diverge: it is noisy, recovered from a spike, or rose no more than a loss may while training works.
  std::vector<Evidence> find() const;

 private:
  struct Point {
    double loss = 0;
    Evidence evidence{};
  };
  void clear();
  void add(Point point);

  std::vector<Point> rise_;  // the lowest loss, and those after it: every `stride_`-th of them
  std::uint64_t after_ = 0, stride_ = 1;
  Point previous_, last_;                         // the last two losses
  std::uint64_t losses_ = 0, losses_to_low_ = 0;  // how many there were, and how many up to the lowest one
  double highest_ = 0, highest_to_low_ = 0;       // of all, and of those up to the lowest one
  double epoch_ = 0;
  std::uint64_t closing_line_ = 0;  // since the last loss; 0: none
  bool negative_ = false;
};

}  // namespace plimsoll::doctor
