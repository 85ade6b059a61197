#include "fit/phases.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace plimsoll {
namespace {

BudgetTooSmall too_small(std::size_t mebibytes) { return {{.what = "small"}, mebibytes * kMiB}; }

TEST(Phases, AreAllPlannedAndTheNeediestIsNamed) {
  int planned = 0;
  const auto needs = [&](std::size_t mebibytes) {
    return [&planned, mebibytes] {
      ++planned;
      if (mebibytes > 10) throw too_small(mebibytes);
    };
  };
  check_phases({needs(1), needs(10)});
  EXPECT_EQ(planned, 2);
  try {
    check_phases({needs(20), needs(40), needs(1), needs(30)});
    ADD_FAILURE() << "three do not fit";
  } catch (const BudgetTooSmall& error) {
    EXPECT_EQ(error.smallest_budget_bytes(), 40 * kMiB);
  }
  EXPECT_EQ(planned, 6);
}

TEST(Phases, EndAtWhatIsNoRefusal) {
  bool went_on = false;
  EXPECT_THROW(
      check_phases({[] { throw too_small(20); }, [] { throw UsageError({.what = "wrong"}); }, [&] { went_on = true; }}),
      UsageError);
  EXPECT_FALSE(went_on);
}

TEST(Phases, CountWhatTheProcessHeldOrLess) {
  PlanSummary plan;
  plan.items = {{"process", 5}, {"arena", 7}};
  plan.host_items = {{"process", 6}};
  EXPECT_EQ(held_bytes(plan), 5U);
  plan.on_device = true;
  EXPECT_EQ(held_bytes(plan), 6U);
  FitRequest request;
  hold_at_most(request, 1000);
  EXPECT_EQ(request.process_bytes(), 1000U);
  hold_at_most(request, std::size_t{1} << 60);
  EXPECT_LT(request.process_bytes(), std::size_t{1} << 50);
}

}  // namespace
}  // namespace plimsoll
