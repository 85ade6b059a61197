// Compiles the examples of src/train.
#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/process.h"
#include "bundle/model_bundle.h"
#include "examples/use.h"
#include "train/batch_binding.h"
#include "train/comparison.h"
#include "train/generator.h"
#include "train/grad_scaler.h"
#include "train/growth_watch.h"
#include "train/learning_rate.h"
#include "train/run_schedule.h"
#include "train/sampling.h"
#include "train/schedule.h"
#include "train/teacher_file.h"
#include "train/throughput.h"
#include "train/trainer.h"
#include "train/update_comparison.h"
#include "train/updates.h"
#include "train/worst_pages.h"

namespace plimsoll::examples {

namespace fs = std::filesystem;

void of_grad_scaler(const BatchBinding& binding, GradScaler& scaler, double labelled_tokens, double norm, int skipped) {
#include "train/grad_scaler.h.inc"
}

void of_generator(const FitRequest& request, Backend& backend, const Task& task,
                  const std::shared_ptr<const Encoder>& encoder, const std::vector<std::vector<std::int32_t>>& prompts,
                  const GenerationOptions& options) {
#include "train/generator.h.inc"
  use(texts);
}

void of_sampling(std::int64_t vocab_size, std::vector<float> logits, const std::vector<std::int32_t>& tokens,
                 std::uint32_t text) {
#include "train/sampling.h.inc"
  use(next);
}

void of_comparison(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                   const LoaderOptions& loader, const PagesRead& b) {
#include "train/comparison.h.inc"
}

void of_growth_watch(std::size_t budget, std::int64_t step, double seconds, const MemoryGroups& groups) {
#include "train/growth_watch.h.inc"
}

void of_run_schedule(const TrainOptions& options, std::int64_t updates_per_epoch, std::int64_t step) {
#include "train/run_schedule.h.inc"
  use(is_due);
}

void of_learning_rate(const Schedule& schedule) {
#include "train/learning_rate.h.inc"
}

void of_schedule() {
#include "train/schedule.h.inc"
  use(schedule);
}

void of_throughput() {
#include "train/throughput.h.inc"
  use(rate);
}

void of_updates(const Session& session, const ModelBundle& bundle, const Dataset& pages, const Sampler& sampler,
                const TrainOptions& options, const LoaderOptions& loader, std::int64_t total_steps, std::int64_t step,
                const StepScalars& scalars, const Interrupt& interrupt) {
#include "train/updates.h.inc"
  use(result);
}

void of_trainer(const Session& session, const ModelBundle& bundle, const Dataset& pages, const Dataset& held_out,
                const TrainOptions& options, const LoaderOptions& loader, int threads, TrainObserver& observer,
                const std::optional<fs::path>& resume, Interrupt& interrupt) {
#include "train/trainer.h.inc"
}

void of_teacher_file(const fs::path& directory, const std::string& name, const StepOptions& step,
                     const Dataset& dataset, const EncoderFacts& facts, const Session& session,
                     const ModelDefinition& model, const LoaderOptions& loader, const Interrupt& interrupt,
                     const Program& program, const Batch& batch) {
#include "train/teacher_file.h.inc"
}

void of_update_comparison(const Session& session, const Batch& batch, const StepScalars& scalars) {
#include "train/update_comparison.h.inc"
}

void of_worst_pages(const Session& session, const ModelBundle& bundle, const Dataset& held_out,
                    const LoaderOptions& loader, const Evaluation& evaluation, const fs::path& run) {
#include "train/worst_pages.h.inc"
}

}  // namespace plimsoll::examples
