#include "train/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/sampler.h"
#include "formats/json.h"
#include "runtime/checked_run.h"
#include "train/batch_binding.h"
#include "train/batch_shape.h"
#include "train/rank_agreement.h"

namespace plimsoll {
namespace {

// Passes pages to a task's reader, with their beginnings and ends.
class PageSequence {
 public:
  // `idle` has the pages without a window that are also passed to the reader, ascending.
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
  // Makes sure that the page is never ended, whatever was added for it.
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

// Returns the pages of a batch for a message.
std::string pages_of(const Batch& batch, const Dataset& dataset) {
  std::string pages;
  for (const SampleReference& reference : batch.references().first(static_cast<std::size_t>(batch.samples()))) {
    pages += (pages.empty() ? "" : "; ") + place(dataset.source().read(reference.page));
  }
  return pages;
}

// Runs the batch again, node by node, and says where the first number that is not finite comes from.
DivergedError not_finite(const Session& session, const Program& program, const BatchBinding& binding,
                         const Batch& batch, const Dataset& dataset) {
  binding.copy(batch);
  binding.set_loss_scale(1);
  binding.set_dropout_key({0, 0});
  const std::optional<StepFault> fault = session.as_in_files(CheckedRun(program).run());
  return DivergedError(
      {.what = "the model's predictions are NaN or infinite",
       .where = pages_of(batch, dataset),
       .found = fault ? describe(*fault) : "NaN or infinite logits, but finite ones when the step was run again",
       .allowed = "finite numbers",
       .remedy =
           "the weights overflowed in training: use an earlier checkpoint, or train with a lower --learning-rate"});
}

// Implements predict_pages for several ranks. They process the micro-batches in rounds: each computes one, all exchange
// loss and logits, and each reader gets the round's results in order.
class SharedPrediction {
 public:
  SharedPrediction(const Session& session, const ModelDefinition& model, const Dataset& dataset,
                   const LoaderOptions& options, const PredictControl& control)
      : session_(session),
        ranks_(*session.ranks()),
        agreement_(session.ranks()),
        model_(model),
        dataset_(dataset),
        options_(options),
        control_(control),
        planned_(session.planned(ProgramKind::kEvaluate)),
        program_(session.program(ProgramKind::kEvaluate)),
        logits_(program_.tensor(planned_.logits)),
        all_logits_(static_cast<std::size_t>(ranks_.size()) * logits_.view().bytes()),
        losses_(static_cast<std::size_t>(ranks_.size())),
        round_(static_cast<std::size_t>(ranks_.size())) {
    options_.held = options_.images_every = ranks_.size();
    options_.images_from = ranks_.rank();
  }

  PredictionTotals run(WindowReader& reader, const std::function<void(std::uint32_t)>& on_page) {
    const std::int64_t micro = planned_.capacity.samples;
    Sampler sampler(dataset_.examples(), {.seed = 0, .train_batch_size = micro, .order = SampleOrder::kSequential});
    for (const std::uint32_t page : control_.skipped) sampler.leave_out(page);
    PageSequence pages(
        reader, on_page,
        control_.all_pages ? pages_without_windows(dataset_, control_.skipped) : std::vector<std::uint32_t>());
    std::int64_t done = 0;  // micro-batches
    int bad_in_a_row = 0;
    while (done < sampler.updates_per_epoch()) {
      BatchSequence sequence(sampler, micro,
                             {.epoch = 0, .update = done, .updates = sampler.updates_per_epoch() - done});
      Loader loader(dataset_, sequence, batch_shape(model_, planned_.capacity), 0, options_);
      std::optional<BadPageError> bad;
      while (!bad && done < sampler.updates_per_epoch()) {
        const std::int64_t count = std::min<std::int64_t>(ranks_.size(), sampler.updates_per_epoch() - done);
        load_round(loader, count, bad);
        if (agreement_.before_micro_batch(false, bad) != RankAgreement::Verdict::kGoOn) break;
        compute_round(count);
        read_round(count, pages);
        bad_in_a_row = 0;
        done += count;
      }
      if (!bad) continue;
      if (!control_.on_bad_page || ++bad_in_a_row >= kMostBadPagesInARow) throw *bad;
      control_.on_bad_page(*bad);
      sampler.leave_out(bad->page());
    }
    pages.finish_all();
    totals_.pages = pages.pages();
    return totals_;
  }

 private:
  std::span<std::byte> logits_of(std::size_t member) {
    const std::size_t each = logits_.view().bytes();
    return std::span(all_logits_).subspan(member * each, each);
  }

  void load_round(Loader& loader, std::int64_t count, std::optional<BadPageError>& bad) {
    try {
      for (std::int64_t i = 0; i < count; ++i) round_[static_cast<std::size_t>(i)] = loader.next();
    } catch (const BadPageError& error) {
      bad = error;
    }
  }

  // A rank with nothing left in the last round computes the round's first micro-batch, too, because the others may need
  // its parts of parameters; its result is not used.
  void compute_round(std::int64_t count) {
    const bool has_own = ranks_.rank() < count;
    computed_ = round_[has_own ? static_cast<std::size_t>(ranks_.rank()) : 0];
    const Batch& batch = *computed_;
    if (!binding_) binding_ = std::make_unique<BatchBinding>(program_, batch, session_.plan().word_rows);
    binding_->copy(batch);
    binding_->set_loss_scale(1);
    binding_->set_dropout_key({0, 0});
    program_.run();
    logits_.refresh();
    const float loss = program_.tensor(planned_.loss).get<float>();
    const float mine = has_own && batch.samples() > 0 ? loss : 0;
    all_gather(ranks_, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(losses_)));
    all_gather(ranks_, std::as_const(logits_).view().byte_span(), all_logits_);
  }

  void read_round(std::int64_t count, PageSequence& pages) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto member = static_cast<std::size_t>(i);
      const Batch& batch = *round_[member];
      const TensorView view(logits_.view().type(), logits_of(member).data());
      bool finite = std::isfinite(losses_[member]);
      for (std::int64_t sample = 0; finite && sample < batch.samples(); ++sample) {
        finite = pages.add(batch, sample, view);
      }
      if (!finite) throw_fault(member);
      totals_.loss_sum += losses_[member];
      totals_.loss_weight += batch.loss_weight();
    }
  }

  // All ranks have seen the fault, and each searches what it has computed itself, because the others may need its parts
  // of parameters. All report what the rank that computed the micro-batch has found.
  [[noreturn]] void throw_fault(std::size_t member) {
    const Problem found = not_finite(session_, program_, *binding_, *computed_, dataset_).problem();
    const std::string text =
        json_text(nlohmann::json({found.what, found.where, found.found, found.allowed, found.remedy}));
    const auto said = nlohmann::json::parse(all_gather_texts(ranks_, text).at(member)).get<std::vector<std::string>>();
    throw DivergedError(
        {.what = said.at(0), .where = said.at(1), .found = said.at(2), .allowed = said.at(3), .remedy = said.at(4)});
  }

  const Session& session_;
  Communicator& ranks_;
  RankAgreement agreement_;
  const ModelDefinition& model_;
  const Dataset& dataset_;
  LoaderOptions options_;
  const PredictControl& control_;
  const PlannedProgram& planned_;
  const Program& program_;
  HostCopy logits_;
  std::vector<std::byte> all_logits_;  // of a round
  std::vector<float> losses_;
  std::vector<const Batch*> round_;
  const Batch* computed_ = nullptr;  // by this rank, of the round
  std::unique_ptr<BatchBinding> binding_;
  PredictionTotals totals_;
};

}  // namespace

PredictionTotals predict_pages(const Session& session, const ModelDefinition& model, const Dataset& dataset,
                               const LoaderOptions& options, WindowReader& reader, const PredictControl& control,
                               const std::function<void(std::uint32_t)>& on_page) {
  if (session.ranks() != nullptr) {
    return SharedPrediction(session, model, dataset, options, control).run(reader, on_page);
  }
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
    if (!binding) binding = std::make_unique<BatchBinding>(program, *batch, session.plan().word_rows);
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
    if (!std::isfinite(loss)) throw not_finite(session, program, *binding, *batch, dataset);
    totals.loss_sum += loss;
    totals.loss_weight += batch->loss_weight();
    for (std::int64_t sample = 0; sample < batch->samples(); ++sample) {
      if (!pages.add(*batch, sample, logits.view())) throw not_finite(session, program, *binding, *batch, dataset);
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
