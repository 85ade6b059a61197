#include "train/grad_scaler.h"

namespace plimsoll {

bool GradScaler::update(bool finite) {
  if (!on_) return true;
  if (!finite) {
    state_.scale *= kBackoffFactor;
    state_.since_change = 0;
    ++state_.skipped;
    return false;
  }
  if (++state_.since_change == kGrowthInterval) {
    state_.scale *= kGrowthFactor;
    state_.since_change = 0;
  }
  return true;
}

}  // namespace plimsoll
