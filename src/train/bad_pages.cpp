#include "train/bad_pages.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/log.h"
#include "data/loader.h"

namespace plimsoll {

BadPageVerdict BadPages::judge(const SkippedPage& page, std::size_t pages, std::vector<SkippedPage>& skipped) {
  BadPageVerdict verdict{.in_a_row = ++in_a_row_};
  verdict.none_left = indices_of(skipped, page.evaluation).size() + 1 >= pages;
  verdict.gone = in_a_row_ >= kMostBadPagesInARow || verdict.none_left;
  verdict.ends = stops_ || verdict.gone;
  if (!verdict.ends) {
    log_warning(fmt::format("a page can no longer be read and is skipped from now on: {}", describe(page)));
    skipped.push_back(page);
  } else if (verdict.gone) {
    skipped.resize(skipped.size() - static_cast<std::size_t>(in_a_row_ - 1));
  }
  return verdict;
}

Problem bad_page_problem(Problem problem, const BadPageVerdict& verdict, std::int64_t step) {
  const bool several = verdict.in_a_row > 1;
  problem.what = verdict.none_left && several ? "no readable page is left: " + problem.what
                 : verdict.gone && several
                     ? fmt::format("{} in a row cannot be read: {}", counted(verdict.in_a_row, "page"), problem.what)
                     : "a page can no longer be read: " + problem.what;
  problem.remedy = fmt::format("{}{}repair it, then continue with --resume-from-checkpoint latest, from update {}{}",
                               problem.remedy, problem.remedy.empty() ? "" : "; ", step,
                               verdict.gone ? "" : "; or pass --on-bad-page skip to continue without such pages");
  return problem;
}

}  // namespace plimsoll
