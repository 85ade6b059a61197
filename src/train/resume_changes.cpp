#include "train/resume_changes.h"

#include <fmt/format.h>

#include "train/skipped_pages.h"

namespace plimsoll {

std::string resume_changes(const TrainerState& then, const TrainerState& now) {
  std::string changes;
  const auto differs = [&](const char* what, const auto& old, const auto& current) {
    if (old != current)
      changes += fmt::format("{}{}: {} then, {} now", changes.empty() ? "" : "; ", what, old, current);
  };
  differs("--seed", then.seed, now.seed);
  differs("--train-batch-size", then.train_batch_size, now.train_batch_size);
  differs("micro-batch", then.micro_batch_size, now.micro_batch_size);
  differs("windows of training data", then.examples, now.examples);
  differs("--max-length", then.max_length, now.max_length);
  differs("updates in all", then.total_steps, now.total_steps);
  if (!then.device.empty()) differs("device", then.device, now.device);
  if (then.device.empty() || then.device == now.device) differs("threads", then.threads, now.threads);
  if (!then.options.empty()) differs("options", then.options, now.options);
  const auto changed = [&](const char* what, const std::string& old, const std::string& current) {
    if (!old.empty() && old != current) changes += fmt::format("{}{}", changes.empty() ? "" : "; ", what);
    return !old.empty() && old != current;
  };
  // Other windows have other tokens and labels: that is one change, not three.
  if (then.examples == now.examples && !changed("other training data", then.data, now.data)) {
    changed("other words or boxes in the training data", then.tokens, now.tokens);
    changed("other labels on the words of the training data", then.labels, now.labels);
    // Pages that were skipped are not looked at again: their pictures may have changed since.
    if (indices_of(then.skipped_pages, false).empty()) {
      changed("other pictures in the training data", then.images, now.images);
    }
  }
  changed("other weights of the adapter's base model", then.base, now.base);
  return changes;
}

}  // namespace plimsoll
