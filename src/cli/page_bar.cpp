#include "cli/page_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace plimsoll {

PageBar::PageBar(std::string what, bool quiet, bool lines_too)
    : what_(std::move(what)), quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1), lines_too_(lines_too) {}

void PageBar::draw(std::size_t done, std::size_t pages) {
  if (quiet_ || !(terminal_ || lines_too_)) return;
  const auto now = Clock::now();
  if (done < last_done_) begin_ = now;  // another data set
  last_done_ = done;
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10))) return;
  last_ = now;
  const double spent = std::chrono::duration<double>(now - begin_).count();
  const double left = spent * static_cast<double>(pages - done) / static_cast<double>(std::max<std::size_t>(done, 1));
  const std::string text = fmt::format("{}/{} {}, about {:.0f} s left", done, pages, what_, left);
  if (!terminal_) return fmt::print(stderr, "{}\n", text);
  constexpr std::size_t kWidth = 20;
  const std::size_t filled = kWidth * done / std::max<std::size_t>(pages, 1);
  fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}\x1b[K", "", filled, "", kWidth - filled, text);
  drawn_ = true;
}

void PageBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace plimsoll
