#include "compress/window_pass.h"

#include <algorithm>

#include "data/sampler.h"
#include "train/batch_shape.h"

namespace plimsoll {

std::int64_t WindowPass::windows() const {
  return std::min(most_windows, static_cast<std::int64_t>(dataset->examples().size()));
}

double WindowPass::keys_per_row() const {
  double rows = 0, pairs = 0;
  for (const Example& example : dataset->examples()) {
    const auto its = static_cast<double>(bundle->config.encoder->rows({.samples = 1, .text_rows = example.tokens}));
    rows += its;
    pairs += its * its;
  }
  return rows > 0 ? pairs / rows : 0;
}

void WindowPass::run(std::int64_t text_rows, const std::function<void(const Batch&)>& visit) const {
  const Sampler sampler(dataset->examples(), {.seed = seed, .train_batch_size = 1});
  BatchSequence sequence(sampler, 1, {.epoch = 0, .update = 0, .updates = windows()});
  const ModelCapacity capacity{.samples = 1, .text_rows = text_rows};
  Loader loader_of(*dataset, sequence, batch_shape(bundle->definition(), capacity), 0, loader);
  std::int64_t done = 0;
  while (const Batch* batch = loader_of.next()) {
    if (batch->loss_terms() > 0) visit(*batch);
    if (on_progress) on_progress(++done, windows());
  }
}

}  // namespace plimsoll
