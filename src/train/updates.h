// Updates: runs the updates of a run, one after the other, on the session's programs.
//
// An update is one micro-batch or several. Each is loaded, copied to its program's inputs and run; the last one's
// program changes the parameters. With GradCache (model/grad_cache.h) all chunks are embedded first, and compared; then
// they come again as micro-batches. While a device computes, the next batch is copied to it, if it is ready and for the
// same program.
//
// Invariant: an open loader is at the beginning of the update after the last one that run() has finished. An update
// that ends in any other way closes the loader, so that it starts again. run() allocates nothing.
//
//   Updates updates(session, bundle, pages, sampler, options, loader, total_steps);
//   updates.open(step);
//   const UpdateResult result = updates.run(scalars, interrupt);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/interrupt.h"
#include "bundle/model_bundle.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "fit/session.h"
#include "runtime/checked_run.h"
#include "train/batch_binding.h"
#include "train/options.h"
#include "train/rank_agreement.h"
#include "train/step_record.h"
#include "train/teacher_file.h"
#include "train/update_comparison.h"

namespace plimsoll {

struct UpdateResult {
  enum class End : std::uint8_t {
    kWhole,         // every node has run; with --fp16 its gradients may have overflowed, and then it changed nothing
    kFaulty,        // its loss or gradients are NaN or infinite, or `fault` was found
    kWithoutPages,  // its pages are all left out
    kDropped,       // a request came before it had changed a parameter
    kBadPage        // one of its pages can no longer be read
  };
  End end = End::kWhole;
  double loss = 0;           // mean over labelled tokens, of all ranks; NaN without pages
  double gradient_norm = 0;  // before clipping; NaN if unknown
  double wait_seconds = 0;   // for the loader
  std::int64_t pages = 0;    // of all ranks
  // Pages and windows of the finite micro-batches that this rank has run, in order; and those of only the last one.
  std::span<const SampleReference> samples{};
  std::span<const SampleReference> last_samples{};
  std::optional<StepFault> fault{};        // found by --detect-anomaly
  std::optional<BadPageError> bad_page{};  // of kBadPage
};

class Updates {
 public:
  // All except `loader` must outlive this object.
  Updates(const Session& session, const ModelBundle& bundle, const Dataset& pages, const Sampler& sampler,
          const TrainOptions& options, const LoaderOptions& loader, std::int64_t total_steps);

  // Opens the loader, if it is closed, at the position after `step` updates.
  void open(std::int64_t step);
  // Releases the loader's memory.
  void close();

  // Runs update scalars.step, for which the loader is open; `labelled` is taken from its batches. The spans of the
  // result are valid until the next call. Throws EnvironmentError if a device or its disk fails within the update:
  // states then belong to two updates.
  UpdateResult run(const StepScalars& scalars, const Interrupt& interrupt);

  // Runs the update again node by node, up to the micro-batch in which a fault is found, and closes the loader.
  // `visit`, if set, gets each micro-batch and its scalars. All ranks call it, and get the same fault.
  std::optional<StepFault> find_fault(const StepScalars& scalars,
                                      const std::function<void(const Batch&, const StepScalars&)>& visit);

  // Returns how long a separate device has worked on updates; 0 without one.
  double device_seconds() const;

 private:
  UpdateResult run_micro_batches(const StepScalars& scalars, const Interrupt& interrupt);
  // Keeps what the comparison needs from an embedded chunk, and after the last chunk compares the update's pages, which
  // gives its loss. Returns how the update ends, if it ends here.
  std::optional<UpdateResult::End> end_of_first_pass(const Batch& batch, const StepScalars& scalars,
                                                     const Interrupt& interrupt, UpdateResult& result);
  ProgramKind program_of(const MicroBatchInfo& info) const;
  // Returns the rows of the encoder in the whole update that `batch` belongs to.
  double rows_in_update(const Batch& batch) const;
  const Program& bind(const Batch& batch, const StepScalars& scalars);
  bool run_program(const Program& program, ProgramKind kind, const Interrupt& interrupt,
                   std::optional<StepFault>& fault);
  std::optional<StepFault> of_all_ranks(std::optional<StepFault> found);
  // Copies a batch, and the teacher's outputs for it from the file, to the program's inputs.
  void copy(const Batch& batch, ProgramKind kind);
  void copy_ahead(ProgramKind kind);
  [[noreturn]] void throw_unfinished(std::int64_t step, const EnvironmentError& error) const;

  const Session& session_;
  const ModelBundle& bundle_;
  const Dataset& pages_;
  const Sampler& sampler_;
  const TrainOptions& options_;
  LoaderOptions loader_options_;
  std::int64_t total_steps_;
  bool scales_loss_;  // gradients may overflow, which the scaler handles
  RankAgreement agreement_;
  std::unique_ptr<BatchSequence> sequence_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::optional<BatchBinding>> bindings_;  // by ProgramKind
  std::vector<std::optional<TeacherInputs>> taught_;   // by ProgramKind, if the teacher's outputs are in a file
  std::vector<std::optional<CheckedRun>> checked_;     // by ProgramKind, for --detect-anomaly
  std::optional<UpdateComparison> comparison_;         // with GradCache
  std::int64_t step_ = 0;                              // the update that runs
  const Batch* copied_ = nullptr;                      // is already in its program's inputs
  std::vector<SampleReference> samples_;               // of the update
  const Interrupt never_{};
};

}  // namespace plimsoll
