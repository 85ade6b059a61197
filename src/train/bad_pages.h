// What follows from a page that could be read when the run began and cannot be read any more: the run leaves it out
// from now on, or ends. A run ends if it is told to (--on-bad-page stop), if no page is left, or if so many in a row
// cannot be read that their disk or folder is gone; those are tried again when it is resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "train/options.h"
#include "train/skipped_pages.h"

namespace plimsoll {

struct BadPageVerdict {
  bool ends = false;       // the run
  bool gone = false;       // not the page's fault: those in a row are not left out
  bool none_left = false;  // it was the last readable page
  int in_a_row = 0;        // this one included
};

// The pages that a run has met and cannot read.
class BadPages {
 public:
  explicit BadPages(const TrainOptions& options) : stops_(options.stop_on_bad_page) {}

  // Adds the page to `skipped`, or, if the run ends because pages are gone, removes those in a row before it.
  // `pages`: of its data set.
  BadPageVerdict judge(const SkippedPage& page, std::size_t pages, std::vector<SkippedPage>& skipped);
  // A whole update or evaluation was read.
  void forget_row() { in_a_row_ = 0; }

 private:
  bool stops_;
  int in_a_row_ = 0;
};

// The error that ends a run after `step` updates, for such a page.
Problem bad_page_problem(Problem problem, const BadPageVerdict& verdict, std::int64_t step);

}  // namespace plimsoll
