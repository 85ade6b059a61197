#include "cli/idle_options.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "base/log.h"

namespace plimsoll {

void tell_idle_options(const RunOptions& options, const ModelBundle& bundle, bool many) {
  if (options.command == nullptr) return;
  const auto tell = [&](bool idle, std::initializer_list<const char*> names, const std::string& why) {
    for (const char* name : names) {
      if (idle && options.command->changed(name)) log_warning(fmt::format("{} changes nothing {}", name, why));
    }
  };
  const TrainOptions& train = options.train;
  tell(options.teacher.model.empty(),
       {"--distil-logits", "--distil-temperature", "--distil-hidden", "--distil-relations", "--teacher-bits"},
       "without --distil-from");
  tell(options.eval_data.empty(), {"--eval-delay", "--metric-for-best-model", "--greater-is-better"},
       train.eval_strategy == IntervalStrategy::kNo ? "with --eval-strategy no" : "without --eval-data");
  tell(train.early_stopping_patience == 0, {"--early-stopping-threshold"}, "without --early-stopping-patience");
  tell(train.optim == OptimizerKind::kAdafactor, {"--adam-beta1", "--adam-beta2", "--adam-epsilon"},
       "with --optim adafactor");
  tell(!options.reports_to_tensorboard(), {"--logging-dir"}, "without --report-to tensorboard");
  tell(train.ranks == 1 && !many, {"--zero-stage"}, "in one process");
  tell(!bundle.definition().compares_examples(), {"--temperature"},
       fmt::format("for {}: its loss compares no pages with each other", bundle.task().name()));
  tell(!bundle.task().reads_pairs(), {"--pages"}, fmt::format("for {}: it reads no pairs", bundle.task().name()));
}

}  // namespace plimsoll
