// Decides what to do about a page that could be read when the run began and no longer can: the run leaves it out from
// now on, or ends. A run ends if --on-bad-page stop says so, if no page is left, or if so many in a row cannot be read
// that their disk or folder must be gone; those are tried again when the run is resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "train/options.h"
#include "train/skipped_pages.h"

namespace plimsoll {

struct BadPageVerdict {
  bool ends = false;       // the run ends
  bool gone = false;       // not the page's fault: the pages in a row are not left out
  bool none_left = false;  // it was the last readable page
  int in_a_row = 0;        // including this one
};

// The pages that a run could not read.
class BadPages {
 public:
  explicit BadPages(const TrainOptions& options) : stops_(options.stop_on_bad_page) {}

  // Adds the page to `skipped`, or, if the run ends because pages are gone, removes those in a row before it.
  // `pages` is the number of pages of its data set.
  BadPageVerdict judge(const SkippedPage& page, std::size_t pages, std::vector<SkippedPage>& skipped);
  // Call it when a whole update or evaluation was read.
  void forget_row() { in_a_row_ = 0; }

 private:
  bool stops_;
  int in_a_row_ = 0;
};

// Returns the error that ends a run after `step` updates because of such a page.
Problem bad_page_problem(Problem problem, const BadPageVerdict& verdict, std::int64_t step);

}  // namespace plimsoll
