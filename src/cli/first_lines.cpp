#include "cli/first_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "request/fit_request.h"
#include "train/evaluation.h"

namespace plimsoll {

std::string labels_text(const ModelBundle& bundle) {
  return bundle.task().reads_text() ? "" : fmt::format(", {}", counted(bundle.config.task.num_labels(), "label"));
}

std::string run_line(const ModelBundle& bundle, const Dataset& train, const TrainOptions& options) {
  const bool texts = bundle.task().reads_text();
  const char* const page = texts ? "text" : "page";
  return fmt::format("{}: {}{}; {} in {}; {} of {}", bundle.origin,
                     counted(parameter_count(bundle.specs()), "parameter"), labels_text(bundle),
                     counted(train.source().size(), page), counted(train.size(), "window"),
                     counted(updates_of(options, train), "update"),
                     counted(options.train_batch_size, train.size() == train.source().size() ? page : "window"));
}

std::string weights_line(const ModelBundle& bundle) {
  if (bundle.weights != nullptr) return {};
  const std::string repository = published_model(bundle.origin);
  if (repository.empty()) return fmt::format("random weights: the preset {} has no published weights", bundle.origin);
  const std::string name = repository.substr(repository.find('/') + 1);
  // Lines of at most eighty columns, as in plan --explain.
  return fmt::format(
      "random weights: the preset {0} has {1}\n"
      "  for pretrained weights: hf download {3} \\\n"
      "    --local-dir {2}, then pass --model ./{2}",
      bundle.origin, is_published(bundle.origin) ? "the published model's shape only" : "no published weights", name,
      repository);
}

std::string defaults_line(const RunOptions& options, const ModelBundle& bundle) {
  std::vector<std::string> differing;
  const auto add = [&](const char* option, const std::string& here, const char* there) {
    if (!options.given(option)) differing.push_back(fmt::format("{} {} (Hugging Face: {})", option, here, there));
  };
  const TrainOptions& train = options.train;
  add("--weight-decay", fmt::format("{:g}", train.weight_decay), "0");
  if (train.logging_strategy == IntervalStrategy::kSteps)
    add("--logging-steps", fmt::format("{:g}", train.logging_steps), "500");
  if (!options.eval_data.empty() && !options.given("--eval-steps") && !options.given("--eval-strategy")) {
    differing.emplace_back("an evaluation after each epoch (Hugging Face: none)");
  }
  if (train.load_best_model_at_end) add("--metric-for-best-model", metric_name(bundle, ""), "loss");
  if (options.parts.lora_rank > 0 && 2 * options.parts.lora_rank != 8) {
    add("--lora-alpha", fmt::format("{}, twice the rank", 2 * options.parts.lora_rank), "8");
  }
  if (differing.empty()) return {};
  return fmt::format("defaults that differ from Hugging Face's: {}; docs/migration.md lists all",
                     fmt::join(differing, ", "));
}

}  // namespace plimsoll
