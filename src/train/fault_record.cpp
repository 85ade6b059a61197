#include "train/fault_record.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/work_folder.h"
#include "formats/checksums.h"
#include "train/batch_file.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string name_of(std::int64_t step) { return fmt::format("nonfinite-step-{}", step); }

}  // namespace

fs::path FaultRecorder::write(const UpdateResult& result, const StepScalars& scalars, StepRecord& record) {
  const std::string name = name_of(scalars.step);
  const fs::path final_path = options_.output_dir / name;
  const fs::path aside = make_work_directory(options_.output_dir, name);
  fs::create_directories(aside / kRecordedModel);
  record.loss = result.loss;
  record.gradient_norm = result.gradient_norm;
  record.padded = options_.pad_to > 0;
  record.choices = session_.choices();
  write_checksums(aside / kRecordedModel,
                  save_model(aside / kRecordedModel, bundle_, memory_.original(), memory_.parameters()));
  const auto write_micro_batch = [&](const Batch& batch, const StepScalars& given) {
    const MicroBatchInfo& info = batch.info();
    record.scalars = given;
    record.micro_batches_in_update = info.micro_batches;
    MicroBatchRecord micro{.file = fmt::format("batch-{}.safetensors", info.micro_batch),
                           .first_sample = batch.tensor(input::kRowKeys).data<std::int32_t>()[0]};
    for (const SampleReference& reference : batch.references().first(static_cast<std::size_t>(batch.samples()))) {
      micro.pages.push_back(place(pages_.source().read(reference.page)));
    }
    write_batch_file(aside / micro.file, batch, bundle_.facts());
    record.micro_batches.push_back(std::move(micro));
  };
  const std::optional<StepFault> found = updates_.find_fault(scalars, write_micro_batch);
  if (!record.fault) record.fault = found;
  write_step_record(aside, record, session_.plan(), bundle_);
  sync_directory(aside);
  replace_directory(aside, final_path);
  remove_work_directory(options_.output_dir, name);
  return final_path;
}

RecordedFault FaultRecorder::record(const UpdateResult& result, const StepScalars& scalars) {
  RecordedFault recorded;
  recorded.record.fault = result.fault;
  // A rank's micro-batches and parts of parameters would not be enough to run the step again in one process, and a
  // record has neither a teacher nor the embeddings of other chunks.
  if (options_.ranks > 1 || options_.teacher != nullptr || session_.plan().levers.chunk_samples > 0) {
    if (!result.fault) recorded.record.fault = updates_.find_fault(scalars, {});
    return recorded;
  }
  std::string problem;
  try {
    recorded.directory = write(result, scalars, recorded.record);
    return recorded;
  } catch (const EnvironmentError& error) {
    problem = fmt::format("{}, {}", error.problem().what, error.problem().found);
  } catch (const DataError& error) {  // a page that cannot be read a second time
    problem = fmt::format("{}, {}", error.problem().what, error.problem().where);
  } catch (const fs::filesystem_error& error) {
    problem = error.what();
  }
  updates_.close();
  // A full disk must not hide the fault itself.
  log_warning(fmt::format("update {} failed and cannot be recorded: {}", scalars.step, problem));
  discard_work_directory(options_.output_dir, name_of(scalars.step));
  return recorded;
}

}  // namespace plimsoll
