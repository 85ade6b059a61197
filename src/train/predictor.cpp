#include "train/predictor.h"

#include <cmath>

#include "data/sampler.h"
#include "train/batch_binding.h"

namespace plimsoll {
namespace {

// The index of the largest logit, and its softmax probability.
std::pair<std::int32_t, float> likeliest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < logits.size(); ++c) {
    if (logits[c] > logits[best]) best = c;
  }
  float sum = 0;
  for (const float logit : logits) sum += std::exp(logit - logits[best]);
  return {static_cast<std::int32_t>(best), 1.0F / sum};
}

class PageMerger {
 public:
  explicit PageMerger(const std::function<void(const PagePrediction&)>& on_page) : on_page_(on_page) {}

  void add(const SampleReference& reference, std::int32_t word, std::int32_t label, float probability,
           std::int32_t gold) {
    start(reference.page);
    const auto index = static_cast<std::size_t>(word);
    if (index >= current_.labels.size()) {
      current_.labels.resize(index + 1, -1);
      current_.probabilities.resize(index + 1, 0);
      current_.gold.resize(index + 1, kIgnoredLabel);
    }
    current_.labels[index] = label;
    current_.probabilities[index] = probability;
    current_.gold[index] = gold;
  }
  void end_sample(const SampleReference& reference) {
    start(reference.page);
    if (reference.window + 1 == reference.windows) flush();
  }
  void flush() {
    if (!open_) return;
    on_page_(current_);
    ++pages_;
    open_ = false;
  }
  // The page is never handed out, whatever was added of it.
  void discard(std::uint32_t page) {
    if (current_.page == page) open_ = false;
  }
  std::int64_t pages() const { return pages_; }

 private:
  void start(std::uint32_t page) {
    if (open_ && current_.page == page) return;
    flush();
    open_ = true;
    current_.page = page;
    current_.labels.clear();
    current_.probabilities.clear();
    current_.gold.clear();
  }

  const std::function<void(const PagePrediction&)>& on_page_;
  PagePrediction current_;
  bool open_ = false;
  std::int64_t pages_ = 0;
};

}  // namespace

BatchShape batch_shape(const LayoutLMv3Config& config, const ModelCapacity& capacity) {
  return {.max_samples = capacity.samples,
          .max_text_rows = capacity.text_rows,
          .patches_per_side = config.grid(),
          .image_size = config.input_size,
          .channels = config.num_channels};
}

PredictionTotals predict_pages(const Session& session, const LayoutLMv3Config& config, const Dataset& dataset,
                               const LoaderOptions& options, const std::function<void(const PagePrediction&)>& on_page,
                               const PredictControl& control) {
  const PlannedProgram& planned = session.planned(ProgramKind::kEvaluate);
  const Program& program = session.program(ProgramKind::kEvaluate);
  const std::int64_t micro = planned.capacity.samples;
  Sampler sampler(dataset.examples(), {.seed = 0, .train_batch_size = micro, .shuffle = false});
  for (const std::uint32_t page : control.skipped) sampler.leave_out(page);
  std::unique_ptr<BatchBinding> binding;
  PageMerger merger(on_page);
  PredictionTotals totals;
  HostCopy logits(program.tensor(planned.logits));
  const auto width = static_cast<std::size_t>(logits.view().shape()[1]);
  const auto run = [&](const Batch* batch) {
    if (!binding) binding = std::make_unique<BatchBinding>(program, *batch);
    binding->copy(*batch);
    binding->set_loss_scale(1);
    binding->set_dropout_key({0, 0});
    if (control.interrupt == nullptr) {
      program.run();
    } else if (!program.run(*control.interrupt)) {
      return false;
    }
    logits.refresh();
    totals.loss_sum += program.tensor(planned.loss).get<float>();
    totals.labelled_tokens += batch->labelled_tokens();
    const std::int32_t* labels = batch->tensor("labels").data<std::int32_t>();
    for (std::int64_t s = 0; s < batch->samples(); ++s) {
      const SampleReference& reference = batch->references()[static_cast<std::size_t>(s)];
      for (std::int64_t row = batch->first_text_row(s); row < batch->first_text_row(s + 1); ++row) {
        const std::int32_t word = batch->predicts()[static_cast<std::size_t>(row)];
        if (word == kNoWord) continue;
        const auto [label, probability] =
            likeliest({logits.view().data<float>() + static_cast<std::size_t>(row) * width, width});
        merger.add(reference, word, label, probability, labels[row]);
      }
      merger.end_sample(reference);
    }
    return true;
  };
  std::int64_t done = 0;  // micro-batches
  int bad_in_a_row = 0;
  while (done < sampler.updates_per_epoch() && !totals.interrupted) {
    BatchSequence sequence(sampler, micro, {.epoch = 0, .update = done, .updates = sampler.updates_per_epoch() - done});
    Loader loader(dataset, sequence, batch_shape(config, planned.capacity), 0, options);
    try {
      while (done < sampler.updates_per_epoch()) {
        const Batch* const batch = loader.next(control.interrupt);
        totals.interrupted = batch == nullptr || (batch->samples() > 0 && !run(batch));
        if (totals.interrupted) break;
        if (batch->samples() > 0) bad_in_a_row = 0;
        ++done;
      }
    } catch (const BadPageError& error) {
      if (!control.on_bad_page || ++bad_in_a_row >= kMostBadPagesInARow) throw;
      control.on_bad_page(error);
      sampler.leave_out(error.page());
      merger.discard(error.page());
    }
  }
  if (!totals.interrupted) merger.flush();
  totals.pages = merger.pages();
  return totals;
}

}  // namespace plimsoll
