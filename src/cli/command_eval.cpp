#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/command.h"
#include "cli/devices.h"
#include "cli/outputs.h"
#include "cli/page_pictures.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/same_run.h"
#include "cli/usage.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "request/reading.h"
#include "request/word_rows.h"

namespace plimsoll {
namespace {

struct EvalOptions {
  std::int64_t worst = 0;
  std::string draw_dir;
};

// Predicts the pages with the highest loss again, to draw what was found on them.
void draw_worst(const Session& session, const ModelBundle& bundle, const Dataset& dataset, const RunOptions& options,
                const std::vector<PageLoss>& worst, PagePictures& pictures) {
  ReadOptions reading = read_options(bundle, options.data, true);
  reading.parts = PageParts();
  const std::unique_ptr<PageSource> pages = open_pages(options.data.data, reading);
  PredictControl only;
  for (std::uint32_t page = 0; page < dataset.source().size(); ++page) {
    if (std::ranges::find(worst, page, &PageLoss::page) == worst.end()) only.skipped.push_back(page);
  }
  const std::unique_ptr<Predictions> predictions = bundle.task().predictions(bundle.config.task, {});
  predict_pages(session, bundle.definition(), dataset, loader_options(options.memory), *predictions, only,
                [&](std::uint32_t index) {
                  Page page = pages->read(index);
                  pictures.draw(*predictions, page, options.data.box_format);
                });
}

std::string worst_table(const Evaluation& evaluation, const Dataset& dataset) {
  if (evaluation.worst.empty()) return {};
  std::string text = fmt::format("{:>10}  {}\n", "loss", "pages with the highest loss");
  for (const PageLoss& of : evaluation.worst) {
    text += fmt::format("{:>10.4f}  {}\n", of.loss, place(dataset.source().read(of.page)));
  }
  text.pop_back();
  return text;
}

void run_eval(Invocation& invocation, RunOptions& options, const EvalOptions& eval) {
  options.runs = true;
  options.resolve();
  if (!eval.draw_dir.empty() && eval.worst == 0) {
    throw UsageError({.what = "--draw is for the pages with the highest loss",
                      .where = "--draw",
                      .found = eval.draw_dir,
                      .allowed = "--draw with --worst",
                      .remedy = "pass --worst 10 too; for all pages: plimsoll predict --draw"});
  }
  refuse_replacing({{"--draw", eval.draw_dir}}, options.inputs());
  connect_ranks(invocation, options.ranks);
  const Device device = open_run_device(invocation, options);
  Backend& backend = *device.backend;
  ModelBundle bundle = open_evaluated_model(options);
  if (bundle.task().reads_pairs() && !eval.draw_dir.empty()) {
    throw UsageError({.what = "pairs have no pictures of their own",
                      .where = "--draw",
                      .found = fmt::format("a model for {}", bundle.task().name()),
                      .allowed = "--worst without --draw, which lists the pairs",
                      .remedy = "omit --draw"});
  }
  if (invocation.is_first()) tell_trained_windows(options, bundle, "evaluates");
  const auto dataset = open_dataset(bundle, options.data, true);
  refuse_other_inputs(invocation, options, bundle, {.data = dataset.get()});
  std::optional<PagePictures> pictures;
  if (!eval.draw_dir.empty()) {
    ReadOptions reading = read_options(bundle, options.data, false);
    reading.parts = PageParts();
    options.memory.drawing_bytes = PagePictures::bytes(*open_pages(options.data.data, reading));
    pictures.emplace(invocation, eval.draw_dir, "eval");
  }
  keep_word_rows(bundle, options.train, nullptr, dataset.get());
  FitRequest request = fit_request(bundle, options.train, nullptr, dataset.get(), options.memory);
  Session session(plan_of(invocation, request, backend), backend, std::nullopt, invocation.ranks.get());
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });
  // A page that cannot be read is left out; the exit code says so.
  std::vector<SkippedPage> skipped;
  const PredictControl control{.on_bad_page = [&skipped](const BadPageError& error) {
    skipped.push_back({.evaluation = true, .page = error.page(), .problem = error.problem()});
  }};
  const Evaluation evaluation = evaluate(session, bundle, *dataset, loader_options(options.memory), control,
                                         static_cast<std::size_t>(eval.worst));
  if (pictures) draw_worst(session, bundle, *dataset, options, evaluation.worst, *pictures);
  wait_for_ranks(invocation);
  if (pictures) pictures->finish();
  log_skipped_pages(skipped);
  if (!skipped.empty() || (pictures && pictures->lacks_pages())) invocation.exit_code = ExitCode::kData;
  if (invocation.json) {
    nlohmann::json object = to_json(evaluation);
    for (const PageLoss& of : evaluation.worst) {
      const Page page = dataset->source().read(of.page);
      object["worst"].push_back({{"id", page.id}, {"where", place(page)}, {"loss", of.loss}});
    }
    if (!skipped.empty()) object["skipped_pages"] = unread_pages_json(skipped);
    object["predicted_peak_bytes"] = session.plan().predicted_peak_bytes;
    object["measured_peak_bytes"] = measured_peak_bytes(backend);
    return print_json(object);
  }
  print_line(evaluation_table(evaluation, bundle.task()));
  for (const std::string& text : {confusion_table(evaluation.scores), worst_table(evaluation, *dataset)}) {
    if (!text.empty()) print_line("\n" + text);
  }
  print_line(peak_line(session.plan(), measured_peak_bytes(backend)));
}

}  // namespace

void add_eval(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "eval", "Score a model, and show where it is wrong");
  auto options = std::make_shared<RunOptions>();
  auto eval = std::make_shared<EvalOptions>();
  add_model_options(command, *options, false);
  add_data_options(command, *options);
  add_memory_options(command, *options);
  add_weights_offload_option(command, *options);
  add_evaluation_size_option(command, *options);
  add_quantization_options(command, *options);
  add_launcher_options(command, options->ranks);
  command->heading("Output");
  whole_number(command->add_option("--worst", eval->worst, "List the pages with the highest loss, this many"), 0)
      ->capture_default_str();
  command
      ->add_option("--draw", eval->draw_dir,
                   "Directory for pictures of the --worst pages with the predictions drawn on them")
      ->type_name("DIR");
  command->footer(
      "Scores of labelled words are those of seqeval over whole pages: windows are merged, and labelled words\n"
      "without a prediction (--truncate) count as missed. IOB1, IOB2 and BIOES labels are read as in seqeval's\n"
      "default mode, BILOU as in its strict mode; each label without a tag is a type of its own. A page whose\n"
      "image proves to be damaged while it is decoded is skipped and named; the exit code is then 3.");
  command->callback([&invocation, options, eval] {
    invocation.action = [&invocation, options, eval] { run_eval(invocation, *options, *eval); };
  });
}

}  // namespace plimsoll
