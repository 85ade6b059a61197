#include "train/update_faults.h"

#include <fmt/format.h>

#include <utility>

#include "base/counted.h"
#include "base/log.h"

namespace plimsoll {
namespace {

std::string where_text(const FaultFacts& facts) {
  return fmt::format("update {}{}{}", facts.step, facts.pages.empty() ? "" : ", ", facts.pages);
}

std::string found_text(const FaultFacts& facts) {
  return fmt::format("loss {}, gradient norm {}; {}", facts.loss, facts.gradient_norm,
                     facts.fault ? describe(*facts.fault)
                                 : std::string("running the update again node by node gave only finite numbers"));
}

}  // namespace

bool leaves_parameters_intact(const std::optional<StepFault>& fault, UpdateMode update) {
  const bool early = updates_in_backward(update) && fault && !fault->forward;
  return fault && fault->kind != StepFault::Kind::kHeld && !fault->updated && !early;
}

std::string skipped_text(const FaultFacts& facts) {
  return fmt::format("{}: the loss or the gradients are NaN or infinite: {}; the update is skipped{}",
                     where_text(facts), found_text(facts),
                     facts.directory.empty() ? "" : fmt::format(", see plimsoll replay {}", facts.directory.string()));
}

void throw_fault(const FaultFacts& facts, const std::filesystem::path& last_good) {
  const std::optional<StepFault>& fault = facts.fault;
  if (fault && fault->kind == StepFault::Kind::kIndex) {
    throw InternalError(
        {.what = "an index points outside its table",
         .where = where_text(facts),
         .found = describe(*fault),
         .allowed = fmt::format("0 to {}", fault->table_rows - 1),
         .remedy = "this should never happen: please report it with the model's config.json and these pages"});
  }
  std::string remedy =
      facts.directory.empty() ? "" : fmt::format("plimsoll replay {} shows the step again; ", facts.directory.string());
  if (fault && fault->kind == StepFault::Kind::kHeld) {
    remedy += fmt::format("start from finite weights; '{}' has NaN or infinite values", fault->tensor);
  } else {
    remedy += facts.skips
                  ? "lower --learning-rate, or raise --warmup-ratio"
                  : "lower --learning-rate, raise --warmup-ratio, or pass --on-nonfinite skip if a page is the cause";
  }
  if (!last_good.empty()) {
    remedy += fmt::format("; the last good checkpoint is {} (if a run from it fails at once, take an earlier one)",
                          last_good.string());
  }
  throw DivergedError(
      {.what = facts.skips
                   ? fmt::format("the loss or the gradients are NaN or infinite, and skipping {} does not help",
                                 facts.skipped_in_a_row > 1 ? counted(facts.skipped_in_a_row, "update") + " in a row"
                                                            : std::string("the update"))
                   : "the loss or the gradients are no longer finite",
       .where = where_text(facts),
       .found = found_text(facts),
       .allowed = "finite numbers",
       .remedy = std::move(remedy)});
}

UpdateFaults::Verdict UpdateFaults::judge(const UpdateResult& result, const StepScalars& scalars) {
  ++in_a_row_;
  const bool first = !std::exchange(recorded_, true);
  const bool too_many = !options_.skip_nonfinite || in_a_row_ >= kMostSkippedInARow;
  RecordedFault recorded;
  recorded.record.fault = result.fault;
  if (first || too_many) recorded = recorder_.record(result, scalars);
  Verdict verdict{.facts = {.step = scalars.step,
                            .loss = result.loss,
                            .gradient_norm = result.gradient_norm,
                            .fault = recorded.record.fault,
                            .directory = recorded.directory,
                            .skips = options_.skip_nonfinite,
                            .skipped_in_a_row = in_a_row_}};
  if (!recorded.record.micro_batches.empty()) {
    std::string& pages = verdict.facts.pages;
    for (const std::string& page : recorded.record.micro_batches.back().pages) {
      pages += (pages.empty() ? "" : "; ") + page;
    }
  }
  verdict.intact = leaves_parameters_intact(verdict.facts.fault, update_);
  verdict.ends = too_many || (first && !verdict.intact);
  if (first && !verdict.ends) log_warning(skipped_text(verdict.facts));
  return verdict;
}

}  // namespace plimsoll
