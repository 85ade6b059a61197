// Throughput: how fast the updates of this process went. Evaluation and saving are left out, and so are updates that
// were dropped.
//
//   Throughput throughput;
//   throughput.add({.pages = 8, .seconds = 0.5, .wait_seconds = 0.1});
//   const double rate = throughput.pages_per_second();
#pragma once

#include <cstdint>

namespace plimsoll {

class Throughput {
 public:
  struct Update {
    std::int64_t pages = 0;
    double seconds = 0;
    double wait_seconds = 0;  // of these, waiting for the loader
  };
  void add(const Update& update) {
    sum_.pages += update.pages;
    sum_.seconds += update.seconds;
    sum_.wait_seconds += update.wait_seconds;
  }

  std::int64_t pages() const { return sum_.pages; }
  double seconds() const { return sum_.seconds; }
  // Returns 0 before the first update.
  double pages_per_second() const { return sum_.seconds > 0 ? static_cast<double>(sum_.pages) / sum_.seconds : 0; }
  double data_wait() const { return sum_.seconds > 0 ? sum_.wait_seconds / sum_.seconds : 0; }

 private:
  Update sum_{};
};

}  // namespace plimsoll
