#include "cli/resume.h"

#include <fmt/format.h>

#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/work_folder.h"
#include "formats/json.h"
#include "train/run_directory.h"

namespace plimsoll {

namespace fs = std::filesystem;

std::optional<fs::path> find_resume(const std::string& resume, const fs::path& output_dir) {
  if (resume.empty()) return std::nullopt;
  if (resume != "latest") {
    if (fs::exists(fs::path(resume) / "trainer_state.json")) return resume;
    throw DataError({.what = "not a checkpoint",
                     .where = "--resume-from-checkpoint",
                     .found = resume,
                     .allowed = "'latest', or a checkpoint-N directory written by a training run"});
  }
  if (output_dir.empty()) {
    throw UsageError({.what = "the latest checkpoint is asked for without a directory to look in",
                      .where = "--resume-from-checkpoint",
                      .found = "no --output-dir",
                      .remedy = "pass the run's --output-dir too, or the path of the checkpoint"});
  }
  const std::vector<std::int64_t> steps = list_checkpoints(output_dir);
  if (steps.empty()) {
    log_info(fmt::format("no checkpoint in {}: starting from the beginning", output_dir.string()));
    return std::nullopt;
  }
  const fs::path path = checkpoint_path(output_dir, steps.back());
  log_info(fmt::format("resuming from {}", path.string()));
  return path;
}

void refuse_other_family(const ModelBundle& bundle, const fs::path& resume) {
  std::error_code error;
  const fs::path path = resume / "config.json";
  if (!fs::exists(path, error)) return;  // an adapter's
  const nlohmann::json config = parse_json(read_text_file(path), path.string());
  const std::string saved = config.is_object() ? config.value("model_type", std::string()) : std::string();
  const std::string named = saved_model_type(bundle.config);
  if (saved.empty() || saved == named) return;
  throw DataError({.what = "the checkpoint is of a model of another family",
                   .where = "--resume-from-checkpoint",
                   .found = fmt::format("{}, a {}; --model {} is a {}", resume.string(), saved, bundle.origin, named),
                   .allowed = "the model that the run began with",
                   .remedy = "pass --model as that run had it; or begin a new run, in another --output-dir"});
}

void recover_for_plan(const fs::path& output_dir) {
  std::error_code error;
  if (output_dir.empty() || !fs::is_directory(work_folder(output_dir), error)) return;
  try {
    const DirectoryLock lock(output_dir, "--output-dir");
    recover_run_directory(output_dir);
  } catch (const UsageError&) {
    log_info(fmt::format("a run is under way in {}", output_dir.string()));
  }
}

void keep_batch(RunOptions& options, const TrainerState& saved) {
  if (options.batch.train_batch_size > 0 || saved.ranks == options.train.ranks) return;
  BatchOptions then = options.batch;
  then.ranks = saved.ranks;
  if (then.effective() != saved.train_batch_size) return;
  options.train.train_batch_size = saved.train_batch_size;
  log_info(fmt::format("an update keeps its {}, as with {}; --train-batch-size states another number",
                       counted(saved.train_batch_size, "page"), counted(saved.ranks, "process", "processes")));
}

void keep_micro_batch(RunOptions& options, const TrainerState& saved) {
  options.memory.resumes = true;
  // Updates of fewer pages, or another micro-batch that is asked for, are cut anew; the run says then what differs.
  const std::int64_t asked = options.memory.micro_batch_size.value_or(saved.micro_batch_size);
  const bool fits = saved.micro_batch_size <= options.train.train_batch_size && asked == saved.micro_batch_size;
  if (fits) options.memory.kept_cut = cut_of(saved);
}

KeptCut cut_of(const TrainerState& saved) {
  return {.micro_batch_size = saved.micro_batch_size, .chunk_samples = saved.chunk_samples};
}

void keep_cut(FitRequest& request, const KeptCut& kept) {
  request.micro_batch_size = kept.micro_batch_size;
  request.chunk_samples = kept.chunk_samples;
  if (kept.chunk_samples == 0) request.grad_cache = GradCache::kOff;
}

namespace {

std::string cut_text(std::int64_t micro_batch, std::int64_t chunk) {
  return chunk > 0 ? "chunks of " + counted(chunk, "page") : fmt::format("micro-batches of {}", micro_batch);
}

}  // namespace

RunPlan fit_resumed(FitRequest& request, const std::optional<KeptCut>& kept, Backend& backend) {
  if (!kept) return fit(request, backend);
  FitRequest pinned = request;
  keep_cut(pinned, *kept);
  if (std::optional<RunPlan> run = try_fit(pinned, backend)) {
    request = std::move(pinned);
    return std::move(*run);
  }
  RunPlan run = fit(request, backend);
  log_warning(
      fmt::format("the checkpoint's {} do not fit the budget of {}; using {}, so numbers may differ in their "
                  "last bits",
                  cut_text(kept->micro_batch_size, kept->chunk_samples), format_bytes(run.budget_bytes),
                  cut_text(run.levers.micro_batch_size, run.levers.chunk_samples)));
  return run;
}

}  // namespace plimsoll
