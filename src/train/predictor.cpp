#include "train/predictor.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "data/sampler.h"
#include "runtime/checked_run.h"
#include "train/batch_binding.h"
#include "train/batch_shape.h"

namespace plimsoll {
namespace {

// Tells a task where pages begin and end.
class PageSequence {
 public:
  // `idle`: pages without a window that go to the reader all the same, ascending.
  PageSequence(WindowReader& reader, const std::function<void(std::uint32_t)>& on_page, std::vector<std::uint32_t> idle)
      : reader_(reader), on_page_(on_page), idle_(std::move(idle)) {}

  [[nodiscard]] bool add(const Batch& batch, std::int64_t sample, const TensorView& logits) {
    const SampleReference& reference = batch.references()[static_cast<std::size_t>(sample)];
    start(reference.page);
    if (!reader_.add_window(batch, sample, logits)) return false;
    if (reference.window + 1 == reference.windows && reference.item + 1 == reference.items) finish();
    return true;
  }
  void finish() {
    if (!open_) return;
    reader_.end_page();
    if (on_page_) on_page_(page_);
    ++pages_;
    open_ = false;
  }
  void finish_all() {
    finish();
    pass_idle(std::numeric_limits<std::uint32_t>::max());
  }
  // The page is never ended, whatever was added of it.
  void discard(std::uint32_t page) {
    if (page_ == page) open_ = false;
  }
  std::int64_t pages() const { return pages_; }

 private:
  void start(std::uint32_t page) {
    if (open_ && page_ == page) return;
    finish();
    pass_idle(page);
    open_ = true;
    page_ = page;
    reader_.begin_page(page);
  }
  void pass_idle(std::uint32_t before) {
    for (; passed_ < idle_.size() && idle_[passed_] < before; ++passed_) {
      open_ = true;
      page_ = idle_[passed_];
      reader_.begin_page(page_);
      finish();
    }
  }

  WindowReader& reader_;
  const std::function<void(std::uint32_t)>& on_page_;
  std::vector<std::uint32_t> idle_;
  std::size_t passed_ = 0;  // of idle_
  std::uint32_t page_ = 0;
  bool open_ = false;
  std::int64_t pages_ = 0;
};

std::vector<std::uint32_t> pages_without_windows(const Dataset& dataset, const std::vector<std::uint32_t>& skipped) {
  std::vector<bool> left(dataset.source().size(), true);
  for (const Example& example : dataset.examples()) left[example.page] = false;
  for (const std::uint32_t page : dataset.options().left_out) left[page] = false;
  for (const std::uint32_t page : skipped) left[page] = false;
  std::vector<std::uint32_t> pages;
  for (std::uint32_t page = 0; page < left.size(); ++page) {
    if (left[page]) pages.push_back(page);
  }
  return pages;
}

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
                               const LoaderOptions& options, WindowReader& reader, const PredictControl& control,
                               const std::function<void(std::uint32_t)>& on_page) {
  const PlannedProgram& planned = session.planned(ProgramKind::kEvaluate);
  const Program& program = session.program(ProgramKind::kEvaluate);
  const std::int64_t micro = planned.capacity.samples;
  Sampler sampler(dataset.examples(), {.seed = 0, .train_batch_size = micro, .order = SampleOrder::kSequential});
  for (const std::uint32_t page : control.skipped) sampler.leave_out(page);
  std::unique_ptr<BatchBinding> binding;
  PageSequence pages(
      reader, on_page,
      control.all_pages ? pages_without_windows(dataset, control.skipped) : std::vector<std::uint32_t>());
  PredictionTotals totals;
  HostCopy logits(program.tensor(planned.logits));
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
    totals.loss_weight += batch->loss_weight();
    for (std::int64_t sample = 0; sample < batch->samples(); ++sample) {
      if (!pages.add(*batch, sample, logits.view())) throw_not_finite(program, *binding, *batch, dataset);
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
      pages.discard(error.page());
    }
  }
  if (!totals.interrupted) pages.finish_all();
  totals.pages = pages.pages();
  return totals;
}

}  // namespace plimsoll
