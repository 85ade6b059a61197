#include <fmt/format.h>

#include "cli/command.h"
#include "cli/devices.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "request/fit_request.h"
#include "request/open_data.h"

namespace plimsoll {
namespace {

void run_eval(const Invocation& invocation, RunOptions& options) {
  options.resolve();
  const Device device = open_run_device(invocation, options);
  Backend& backend = *device.backend;
  const ModelBundle bundle = open_trained_model(options.model.model, options.model.tokenizer, options.model.base_model);
  check_weights(bundle, MissingHead::kRefused);
  const auto dataset = open_dataset(bundle, options.data, true, true);
  Session session(fit(fit_request(bundle, options.train, nullptr, dataset.get(), options.memory), backend), backend);
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });
  // A page that cannot be read costs that page; the exit code says so.
  std::vector<SkippedPage> skipped;
  const PredictControl control{.on_bad_page = [&skipped](const BadPageError& error) {
    skipped.push_back({.evaluation = true, .page = error.page(), .problem = error.problem()});
  }};
  const Evaluation evaluation = evaluate(session, bundle, *dataset, loader_options(options.memory), control);
  log_skipped_pages(skipped);
  if (!skipped.empty()) invocation.exit_code = ExitCode::kData;
  if (invocation.json) {
    nlohmann::json object = to_json(evaluation);
    if (!skipped.empty()) object["skipped_pages"] = skipped_pages_json(skipped);
    object["predicted_peak_bytes"] = session.plan().predicted_peak_bytes;
    object["measured_peak_bytes"] = measured_peak_bytes(backend);
    return print_json(object);
  }
  print_line(evaluation_table(evaluation));
  print_line(peak_line(session.plan(), measured_peak_bytes(backend)));
}

}  // namespace

void add_eval(CLI::App& app, Invocation& invocation) {
  CLI::App* command = add_command(app, invocation, "eval", "Compute entity-level precision, recall and F1 of a model");
  auto options = std::make_shared<RunOptions>();
  options->train.train_batch_size = 8;
  add_model_options(command, *options, false);
  add_data_options(command, *options);
  add_memory_options(command, *options);
  whole_number(command->add_option("--per-device-eval-batch-size", options->train.train_batch_size,
                                   "Maximum number of pages processed at once"),
               1, 1 << 16)
      ->capture_default_str();
  add_footer(command,
             "Scores are those of seqeval over whole pages: windows are merged, and labelled words without a\n"
             "prediction (--truncate) count as missed. IOB1, IOB2 and BIOES labels are read as in its default\n"
             "mode, BILOU as in its strict mode; each label without a tag is a type of its own. A page whose image\n"
             "cannot be decoded is skipped and named; the exit code is then 3.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_eval(invocation, *options); }; });
}

}  // namespace plimsoll
