// A bar for work on many pages: one line on a terminal, redrawn; elsewhere a line now and then. Writes to standard
// error.
//
//   PageBar bar("pages checked", quiet);
//   bar.draw(done, pages);
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace plimsoll {

class PageBar {
 public:
  // `lines_too`: also prints, every ten seconds, if standard error is not a terminal.
  PageBar(std::string what, bool quiet, bool lines_too = false);
  ~PageBar() { clear(); }
  PageBar(const PageBar&) = delete;
  PageBar& operator=(const PageBar&) = delete;

  void draw(std::size_t done, std::size_t pages);
  // Clears the line, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool quiet_, terminal_, lines_too_, drawn_ = false;
  std::size_t last_done_ = 0;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

}  // namespace plimsoll
