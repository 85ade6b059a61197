#include "train/predictor.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "data/sampler.h"
#include "runtime/checked_run.h"
#include "train/batch_binding.h"
#include "train/batch_shape.h"

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
  PageMerger(const std::function<void(const PagePrediction&)>& on_page, bool all_scores)
      : on_page_(on_page), all_scores_(all_scores) {}

  // `logits` of one word, which are finite if its probability is; false otherwise.
  [[nodiscard]] bool add(const SampleReference& reference, std::int32_t word, std::span<const float> logits,
                         std::int32_t gold) {
    const auto [label, probability] = likeliest(logits);
    if (!std::isfinite(probability)) return false;
    start(reference.page);
    const auto index = static_cast<std::size_t>(word);
    if (index >= current_.labels.size()) {
      current_.labels.resize(index + 1, -1);
      current_.probabilities.resize(index + 1, 0);
      current_.gold.resize(index + 1, kIgnoredLabel);
      if (all_scores_) current_.scores.resize((index + 1) * logits.size(), 0);
    }
    current_.labels[index] = label;
    current_.probabilities[index] = probability;
    current_.gold[index] = gold;
    if (!all_scores_) return true;
    const float largest = logits[static_cast<std::size_t>(label)];
    for (std::size_t c = 0; c < logits.size(); ++c) {
      current_.scores[index * logits.size() + c] = probability * std::exp(logits[c] - largest);
    }
    return true;
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
    current_.scores.clear();
  }

  const std::function<void(const PagePrediction&)>& on_page_;
  bool all_scores_;
  PagePrediction current_;
  bool open_ = false;
  std::int64_t pages_ = 0;
};

// The pages of a batch, as a message names them.
std::string pages_of(const Batch& batch, const Dataset& dataset) {
  std::string pages;
  for (const SampleReference& reference : batch.references().first(static_cast<std::size_t>(batch.samples()))) {
    pages += (pages.empty() ? "" : "; ") + place(dataset.source().read(reference.page));
  }
  return pages;
}

// Runs the batch again, node by node, and says where the first number that is not finite comes from.
[[noreturn]] void throw_not_finite(const Program& program, const BatchBinding& binding, const Batch& batch,
                                   const Dataset& dataset) {
  binding.copy(batch);
  binding.set_loss_scale(1);
  binding.set_dropout_key({0, 0});
  const std::optional<StepFault> fault = CheckedRun(program).run();
  throw DivergedError(
      {.what = "the model's predictions are NaN or infinite",
       .where = pages_of(batch, dataset),
       .found = fault ? describe(*fault) : "NaN or infinite logits, but finite ones when the step was run again",
       .allowed = "finite numbers",
       .remedy =
           "the weights overflowed in training: use an earlier checkpoint, or train with a lower --learning-rate"});
}

}  // namespace

PredictionTotals predict_pages(const Session& session, const ModelDefinition& model, const Dataset& dataset,
                               const LoaderOptions& options, const std::function<void(const PagePrediction&)>& on_page,
                               const PredictControl& control) {
  const PlannedProgram& planned = session.planned(ProgramKind::kEvaluate);
  const Program& program = session.program(ProgramKind::kEvaluate);
  const std::int64_t micro = planned.capacity.samples;
  Sampler sampler(dataset.examples(), {.seed = 0, .train_batch_size = micro, .shuffle = false});
  for (const std::uint32_t page : control.skipped) sampler.leave_out(page);
  std::unique_ptr<BatchBinding> binding;
  PageMerger merger(on_page, control.all_scores);
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
    const float loss = program.tensor(planned.loss).get<float>();
    if (!std::isfinite(loss)) throw_not_finite(program, *binding, *batch, dataset);
    totals.loss_sum += loss;
    totals.labelled_tokens += batch->labelled_tokens();
    const std::int32_t* labels = batch->tensor(input::kLabels).data<std::int32_t>();
    for (std::int64_t s = 0; s < batch->samples(); ++s) {
      const SampleReference& reference = batch->references()[static_cast<std::size_t>(s)];
      for (std::int64_t row = batch->first_text_row(s); row < batch->first_text_row(s + 1); ++row) {
        const std::int32_t word = batch->predicts()[static_cast<std::size_t>(row)];
        if (word == kNoWord) continue;
        const float* const first = logits.view().data<float>() + static_cast<std::size_t>(row) * width;
        if (!merger.add(reference, word, {first, width}, labels[row])) {
          throw_not_finite(program, *binding, *batch, dataset);
        }
      }
      merger.end_sample(reference);
    }
    return true;
  };
  std::int64_t done = 0;  // micro-batches
  int bad_in_a_row = 0;
  while (done < sampler.updates_per_epoch() && !totals.interrupted) {
    BatchSequence sequence(sampler, micro, {.epoch = 0, .update = done, .updates = sampler.updates_per_epoch() - done});
    Loader loader(dataset, sequence, batch_shape(model, planned.capacity), 0, options);
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
