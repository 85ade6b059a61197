#include "cli/batch_options.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostPages = 1 << 20;
constexpr std::int64_t kPerDevice = 8;     // TrainingArguments' default
constexpr std::int64_t kAccumulation = 1;  // the same

UsageError contradiction(std::string where, std::string found, std::string allowed, std::string remedy) {
  return UsageError({.what = "the batch options contradict each other",
                     .where = std::move(where),
                     .found = std::move(found),
                     .allowed = std::move(allowed),
                     .remedy = std::move(remedy)});
}

}  // namespace

std::int64_t BatchOptions::per_device() const {
  return per_device_train_batch_size > 0 ? per_device_train_batch_size : kPerDevice;
}

std::int64_t BatchOptions::effective() const {
  const std::int64_t pages = per_device_train_batch_size, steps = gradient_accumulation_steps;
  const std::int64_t product = (pages > 0 ? pages : kPerDevice) * (steps > 0 ? steps : kAccumulation) * ranks;
  const std::int64_t total = train_batch_size > 0 ? train_batch_size : product;
  if (total > kMostPages) {
    throw UsageError({.what = "an update has too many pages",
                      .where = "--gradient-accumulation-steps",
                      .found = fmt::format("{} x {} = {}", product / (steps > 0 ? steps : kAccumulation),
                                           steps > 0 ? steps : kAccumulation, counted(product, "page")),
                      .allowed = fmt::format("at most {} per update", counted(kMostPages, "page")),
                      .remedy = "pass a smaller --gradient-accumulation-steps"});
  }
  constexpr const char* kRule = "--per-device-train-batch-size x --gradient-accumulation-steps = --train-batch-size";
  if (pages > 0 && steps > 0 && product != total) {
    throw contradiction("--train-batch-size",
                        fmt::format("{}, but {} x {} = {}", total, pages, steps, counted(product, "page")), kRule,
                        fmt::format("pass --train-batch-size {}, or omit one of the three", product));
  }
  if (pages > 0 && total % pages != 0) {
    throw contradiction(
        "--per-device-train-batch-size",
        fmt::format("{}, but --train-batch-size {} is not a multiple of it", pages, total), kRule,
        "omit --per-device-train-batch-size; --micro-batch-size pins how many pages are processed at once");
  }
  if (steps > 0 && total % steps != 0) {
    throw contradiction("--gradient-accumulation-steps",
                        fmt::format("{}, but --train-batch-size {} is not a multiple of it", steps, total), kRule,
                        "omit --gradient-accumulation-steps: the planner splits an update to fit the budget");
  }
  if (micro_batch_size > total) {
    throw contradiction("--micro-batch-size",
                        fmt::format("{}, but an update has {}", micro_batch_size, counted(total, "page")),
                        fmt::format("1 to {}", total),
                        fmt::format("pass --train-batch-size {} too, or omit --micro-batch-size", micro_batch_size));
  }
  return total;
}

void add_batch_size_options(Command* command, BatchOptions& options) {
  whole_number(
      command->add_option("--per-device-train-batch-size", options.per_device_train_batch_size,
                          "Pages per update, before multiplication by --gradient-accumulation-steps (default: 8)"),
      1, kMostPages);
  whole_number(
      command->add_option("--gradient-accumulation-steps", options.gradient_accumulation_steps,
                          "Multiplies --per-device-train-batch-size to give the pages per update (default: 1)"),
      1, kMostPages);
  whole_number(command->add_option("--train-batch-size", options.train_batch_size,
                                   "Total pages per update (the effective batch), instead of the two options above"),
               1, kMostPages);
  whole_number(command->add_option("--micro-batch-size", options.micro_batch_size,
                                   "Pages processed at once. Affects memory and time; losses only in their last bits "
                                   "(0: as many as the budget allows)"),
               0, kMostPages)
      ->capture_default_str();
}

}  // namespace plimsoll
