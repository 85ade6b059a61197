// GradScaler: the scale of --fp16's loss, so that small gradients do not become 0 in half precision (Micikevicius et
// al. 2018, "Mixed Precision Training"); the rule and its constants are those of torch.amp.GradScaler.
//
//   binding.set_loss_scale(scaler.scale() / labelled_tokens);   // then the step runs
//   if (!scaler.update(std::isfinite(norm))) ++skipped;         // gradients overflowed: it changed nothing
#pragma once

#include <cstdint>

#include "base/error.h"

namespace plimsoll {

// The scale fell until it could no longer help: overflowing gradients are not the cause.
class ScaleCollapsedError : public DivergedError {
 public:
  using DivergedError::DivergedError;
};

class GradScaler {
 public:
  static constexpr double kInitialScale = 65536, kGrowthFactor = 2, kBackoffFactor = 0.5;
  static constexpr std::int64_t kGrowthInterval = 2000;  // updates without overflow until the scale grows
  static constexpr double kSmallestScale = 0x1p-14;      // below it, a loss of 1 is not normal in half precision

  struct State {
    double scale = kInitialScale;
    std::int64_t since_change = 0;  // updates without overflow since the scale changed
    std::int64_t skipped = 0;       // skipped updates of the whole run
  };

  GradScaler() = default;  // scales nothing, skips nothing
  explicit GradScaler(const State& state) : on_(true), state_(state) {}

  bool on() const { return on_; }
  const State& state() const { return state_; }
  double scale() const { return on_ ? state_.scale : 1; }
  // Call it after an update with this scale. Returns false if its gradients had overflowed: it was skipped, and the
  // scale is now lower.
  bool update(bool finite);
  bool collapsed() const { return on_ && state_.scale < kSmallestScale; }

 private:
  bool on_ = false;
  State state_{};
};

}  // namespace plimsoll
