#include "train/updates.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "model/grad_cache.h"
#include "train/batch_shape.h"
#include "train/run_saver.h"
#include "train/update_faults.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;
using End = UpdateResult::End;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A NaN's sign means nothing, and "-nan" would be printed.
double without_sign(double value) { return std::isnan(value) ? kNaN : value; }

bool is_last(const MicroBatchInfo& info) { return !info.first_pass && info.micro_batch + 1 == info.micro_batches; }
bool ends_first_pass(const MicroBatchInfo& info) {
  return info.first_pass && info.micro_batch + 1 == info.micro_batches;
}

std::span<const SampleReference> samples_of(const Batch& batch) {
  return batch.references().first(static_cast<std::size_t>(batch.samples()));
}

// Returns whether a result that the host reads after a run lies in the bytes of an input, which are free once the input
// is no longer needed.
bool lies_in_inputs(const Program& program, const PlannedProgram& planned) {
  const std::deque<Value>& values = program.graph().values();
  for (const ValueId result : {planned.loss, planned.gradient_norm}) {
    if (result == kNoValue) continue;
    const std::byte* const at = program.view(result).byte_span().data();
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (values[v].role != Role::kInput || values[v].producer != kNoNode) continue;
      const std::span<std::byte> input = program.view(static_cast<ValueId>(v)).byte_span();
      if (at >= input.data() && at < input.data() + input.size()) return true;
    }
  }
  return false;
}

}  // namespace

Updates::Updates(const Session& session, const ModelBundle& bundle, const Dataset& pages, const Sampler& sampler,
                 const TrainOptions& options, const LoaderOptions& loader, std::int64_t total_steps)
    : session_(session),
      bundle_(bundle),
      pages_(pages),
      sampler_(sampler),
      options_(options),
      loader_options_(loader),
      total_steps_(total_steps),
      scales_loss_(options.precision == DType::kF16),
      agreement_(session.ranks()),
      bindings_(kProgramKinds),
      taught_(kProgramKinds),
      checked_(kProgramKinds) {
  const ModelCapacity update{.samples = options.train_batch_size};
  samples_.reserve(static_cast<std::size_t>(bundle.definition().samples(update)));
  if (session.plan().levers.chunk_samples > 0) comparison_.emplace(session);
}

void Updates::open(std::int64_t step) {
  if (loader_ != nullptr) return;
  const std::int64_t per_epoch = sampler_.updates_per_epoch();
  const BatchSequence::Range range{.epoch = static_cast<std::uint64_t>(step / per_epoch),
                                   .update = step % per_epoch,
                                   .updates = total_steps_ - step};
  const ModelCapacity& capacity = session_.plan().programs.front().capacity;
  ModelDefinition model = bundle_.definition();
  if (comparison_) {
    const ChunkLimits limits{.samples = capacity.samples, .text_rows = capacity.text_rows};
    sequence_ = std::make_unique<BatchSequence>(sampler_, limits, range);
    model = embedding_part(model, EmbeddingPass::kPut, model.samples({.samples = options_.train_batch_size}));
  } else {
    sequence_ = std::make_unique<BatchSequence>(sampler_, session_.plan().levers.micro_batch_size, range);
  }
  loader_ =
      std::make_unique<Loader>(pages_, *sequence_, batch_shape(model, capacity), options_.pad_to, loader_options_);
}

void Updates::close() {
  loader_.reset();
  copied_ = nullptr;
}

UpdateResult Updates::run(const StepScalars& scalars, const Interrupt& interrupt) {
  UpdateResult result = run_micro_batches(scalars, interrupt);
  if (result.end == End::kDropped || result.end == End::kBadPage) session_.finish_transfers();
  if (comparison_ && (result.end == End::kFaulty || !std::isfinite(result.gradient_norm))) comparison_->forget();
  if (result.end != End::kWhole && result.end != End::kWithoutPages) close();
  return result;
}

UpdateResult Updates::run_micro_batches(const StepScalars& scalars, const Interrupt& interrupt) {
  UpdateResult result;
  samples_.clear();
  const auto ended = [&](End end) {
    result.end = end;
    return std::move(result);
  };
  for (;;) {
    const auto wait_time = Clock::now();
    const Batch* batch = nullptr;
    try {
      batch = loader_->next(&interrupt);
    } catch (const BadPageError& error) {
      result.bad_page = error;
    }
    result.wait_seconds += std::chrono::duration<double>(Clock::now() - wait_time).count();
    check(batch != nullptr || result.bad_page || interrupt.pending(), "the loader has a batch for every update");
    switch (agreement_.before_micro_batch(batch == nullptr, result.bad_page)) {
      case RankAgreement::Verdict::kBadPage:
        return ended(End::kBadPage);
      case RankAgreement::Verdict::kDrop:
        return ended(End::kDropped);
      case RankAgreement::Verdict::kGoOn:
        break;
    }
    if (batch->info().samples_in_update == 0) {
      result.loss = result.gradient_norm = kNaN;  // they were not computed
      return ended(End::kWithoutPages);
    }
    const bool last = is_last(batch->info());
    const ProgramKind kind = program_of(batch->info());
    try {
      const Program& program = bind(*batch, scalars);
      // Ranks drop an update together, between micro-batches.
      if (!run_program(program, kind, agreement_.alone() ? interrupt : never_, result.fault))
        return ended(End::kDropped);
      if (result.fault) {
        result.gradient_norm = kNaN;
        return ended(End::kFaulty);
      }
      if (batch->info().first_pass) {
        const std::optional<End> end = end_of_first_pass(*batch, scalars, interrupt, result);
        if (end) return ended(*end);
        continue;
      }
      copy_ahead(kind);
      const PlannedProgram& planned = session_.planned(kind);
      if (!comparison_) {
        result.loss = without_sign(result.loss + double{program.tensor(planned.loss).get<float>()} / scalars.scale);
      }
      if (last) result.gradient_norm = without_sign(program.tensor(planned.gradient_norm).get<float>());
    } catch (const EnvironmentError& error) {
      throw_unfinished(scalars.step, error);
    }
    if (last) result.loss = agreement_.sum(result.loss);
    if (!scales_loss_ && (last || agreement_.alone()) &&
        !(std::isfinite(result.loss) && (!last || std::isfinite(result.gradient_norm)))) {
      if (!last) result.gradient_norm = kNaN;
      return ended(End::kFaulty);
    }
    const std::span<const SampleReference> samples = samples_of(*batch);
    samples_.insert(samples_.end(), samples.begin(), samples.end());
    result.samples = samples_;
    result.last_samples = result.samples.last(samples.size());
    result.pages = batch->info().samples_in_update;
    if (last) return result;
    if (agreement_.alone() && interrupt.pending()) return ended(End::kDropped);
  }
}

ProgramKind Updates::program_of(const MicroBatchInfo& info) const {
  return info.first_pass ? ProgramKind::kEmbed : step_program(session_, is_last(info));
}

std::optional<End> Updates::end_of_first_pass(const Batch& batch, const StepScalars& scalars,
                                              const Interrupt& interrupt, UpdateResult& result) {
  comparison_->collect(batch);
  if (ends_first_pass(batch.info())) {
    const Program& program = comparison_->bind(scalars);
    if (!run_program(program, ProgramKind::kCompare, interrupt, result.fault)) return End::kDropped;
    const PlannedProgram& planned = session_.planned(ProgramKind::kCompare);
    result.loss = without_sign(double{program.tensor(planned.loss).get<float>()} / scalars.scale);
  } else {
    copy_ahead(ProgramKind::kEmbed);
  }
  if (result.fault || (!scales_loss_ && !std::isfinite(result.loss))) {
    result.gradient_norm = kNaN;
    result.last_samples = samples_of(batch);
    return End::kFaulty;
  }
  if (interrupt.pending()) return End::kDropped;
  return std::nullopt;
}

double Updates::rows_in_update(const Batch& batch) const {
  const std::int64_t samples = batch.info().samples_in_update * pages_.samples_per_example();
  return static_cast<double>(batch.info().text_rows_in_update + samples * batch.shape().image.visual_tokens());
}

const Program& Updates::bind(const Batch& batch, const StepScalars& scalars) {
  const MicroBatchInfo& info = batch.info();
  const ProgramKind kind = program_of(info);
  step_ = scalars.step;
  const Program& program = session_.program(kind);
  std::optional<BatchBinding>& binding = bindings_[static_cast<std::size_t>(kind)];
  if (!binding) binding.emplace(program, batch, session_.plan().word_rows);
  if (std::exchange(copied_, nullptr) != &batch) copy(batch, kind);
  StepScalars of_batch = scalars;
  of_batch.labelled = info.loss_weight_in_update;
  of_batch.labels = static_cast<double>(info.loss_terms_in_update);
  of_batch.rows = rows_in_update(batch);
  bind_scalars(*binding, of_batch, info.micro_batch == 0);
  binding->set_first_sample(info.first_sample);
  return program;
}

bool Updates::run_program(const Program& program, ProgramKind kind, const Interrupt& interrupt,
                          std::optional<StepFault>& fault) {
  if (!options_.detect_anomaly) return program.run(interrupt);
  std::optional<CheckedRun>& checked = checked_[static_cast<std::size_t>(kind)];
  if (!checked) checked.emplace(program);
  fault = of_all_ranks(checked->run(scales_loss_));
  return true;
}

std::optional<StepFault> Updates::of_all_ranks(std::optional<StepFault> found) {
  // The other ranks wait for a rank that could not continue; its error ends them.
  if (!agreement_.alone() && found && found->kind == StepFault::Kind::kIndex) {
    throw_fault({.step = step_, .fault = std::move(found)}, {});
  }
  return agreement_.first_fault(session_.as_in_files(std::move(found)));
}

void Updates::copy(const Batch& batch, ProgramKind kind) {
  bindings_[static_cast<std::size_t>(kind)]->copy(batch);
  if (options_.teacher_file == nullptr) return;
  std::optional<TeacherInputs>& taught = taught_[static_cast<std::size_t>(kind)];
  if (!taught) taught.emplace(session_.program(kind), *options_.teacher_file);
  taught->copy(batch);
  if (const Batch* const next = loader_->peek(); next != nullptr) taught->advise(*next);
}

void Updates::copy_ahead(ProgramKind kind) {
  const Program& program = session_.program(kind);
  if (!program.source(input::kLossScale).host_bytes().empty()) return;  // the host itself has computed
  if (lies_in_inputs(program, session_.planned(kind))) return;
  const Batch* const next = loader_->peek();
  if (next == nullptr) return;
  if (program_of(next->info()) != kind) return;  // its inputs are elsewhere
  copy(*next, kind);
  copied_ = next;
}

std::optional<StepFault> Updates::find_fault(const StepScalars& scalars,
                                             const std::function<void(const Batch&, const StepScalars&)>& visit) {
  close();
  open(scalars.step - 1);
  if (comparison_) comparison_->forget();
  std::optional<StepFault> found;
  for (bool last = false; !last && !found;) {
    const Batch& batch = *loader_->next();
    last = is_last(batch.info());
    StepScalars of_batch = scalars;
    of_batch.labelled = batch.info().loss_weight_in_update;
    if (visit) visit(batch, of_batch);
    found = of_all_ranks(CheckedRun(bind(batch, scalars)).run(scales_loss_));
    if (found || !batch.info().first_pass) continue;
    comparison_->collect(batch);
    if (ends_first_pass(batch.info())) {
      found = session_.as_in_files(CheckedRun(comparison_->bind(scalars)).run(scales_loss_));
    }
  }
  if (comparison_) comparison_->forget();
  close();
  return found;
}

// The device that computes a step may fail within it, and so may the disk that it reads and writes: states then belong
// to two updates, and the run can only be continued from what was saved before.
void Updates::throw_unfinished(std::int64_t step, const EnvironmentError& error) const {
  Problem problem = error.problem();
  problem.what = fmt::format("cannot finish update {}: {}", step, problem.what);
  problem.remedy += continue_remedy(options_.output_dir);
  if (dynamic_cast<const DeviceError*>(&error) != nullptr && !options_.detect_anomaly) {
    problem.remedy += "; --detect-anomaly runs ops one by one and names the one that fails";
  }
  throw EnvironmentError(std::move(problem));
}

double Updates::device_seconds() const {
  double seconds = 0;
  for (const PlannedProgram& program : session_.plan().programs) {
    if (program.kind != ProgramKind::kEvaluate) seconds += session_.program(program.kind).device_seconds();
  }
  return seconds;
}

}  // namespace plimsoll
