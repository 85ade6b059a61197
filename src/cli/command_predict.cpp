#include <fmt/format.h>

#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/document_lines.h"
#include "cli/outputs.h"
#include "cli/page_pictures.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "fit/session.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "train/predictor.h"

namespace plimsoll {
namespace {

struct PredictOptions {
  std::string output;
  std::string draw_dir;
  std::int64_t draw_limit = 0;
  bool all_scores = false;
};

// The image as a reader of `output` finds it: a relative path is one from the output's folder.
std::filesystem::path path_from(const std::filesystem::path& output, const std::filesystem::path& image) {
  if (output.empty() || image.empty() || image.is_absolute() || is_special_file(output)) return image;
  return std::filesystem::absolute(image).lexically_normal().lexically_proximate(
      std::filesystem::absolute(output).lexically_normal().parent_path());
}

void run_predict(const Invocation& invocation, RunOptions& options, const PredictOptions& predict) {
  options.resolve();
  refuse_replacing({{"--output", predict.output}, {"--draw", predict.draw_dir}}, options.inputs());
  const Device device = open_run_device(invocation, options);
  Backend& backend = *device.backend;
  const ModelBundle bundle = open_trained_model(options.model.model, options.model.tokenizer, options.model.base_model);
  check_weights(bundle, MissingHead::kRefused);
  // A page that cannot be read costs that page; the exit code says so.
  std::vector<SkippedPage> skipped;
  const auto dataset = open_to_predict(bundle, options.data, skipped);
  refuse_replacing_images({{"--output", predict.output}}, dataset->source());
  // Labels in the data, where it has any, are only drawn as right or wrong. Drawing needs boxes and images, whatever
  // the model reads.
  const bool draws = !predict.draw_dir.empty();
  ReadOptions reading = read_options(bundle, options.data, true);
  if (draws) reading.parts = PageParts();
  const std::unique_ptr<PageSource> pages = open_pages(options.data.data, reading);
  std::unique_ptr<OutputFile> file;
  if (!predict.output.empty()) file = std::make_unique<OutputFile>(predict.output);
  std::optional<PagePictures> pictures;
  if (draws) {
    options.memory.drawing_bytes = PagePictures::bytes(*pages);
    pictures.emplace(predict.draw_dir, "predict");
  }
  Session session(fit(fit_request(bundle, options.train, nullptr, dataset.get(), options.memory), backend), backend);
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });
  std::int64_t done = 0, unpredicted = 0;
  const auto leave_out = [&skipped](const BadPageError& error) {
    skipped.push_back({.page = error.page(), .problem = error.problem()});
    log_warning(fmt::format("skipping a page that cannot be read: {}", describe(skipped.back())));
  };
  const std::unique_ptr<Predictions> predictions =
      bundle.task().predictions(bundle.config.task, {.all_scores = predict.all_scores});
  DocumentLines lines([&file](const std::string& line) {
    if (file) {
      file->write(line + "\n");
    } else {
      print_line(line);
    }
  });
  predict_pages(session, bundle.definition(), *dataset, loader_options(options.memory), *predictions,
                {.on_bad_page = leave_out, .all_pages = true},
                [&](std::uint32_t index) {
                  PageFaults of_labels;  // which only a drawing would show
                  Page page = pages->read(index, &of_labels);
                  const std::filesystem::path image = page.image;
                  page.image = path_from(predict.output, image);
                  lines.add(page, predictions->to_json(page));
                  page.image = image;
                  if (draws && (predict.draw_limit == 0 || done < predict.draw_limit)) {
                    pictures->draw(*predictions, page, options.data.box_format);
                  }
                  unpredicted += predictions->unpredicted_words(page);
                  ++done;
                });
  lines.finish();
  if (file) file->close();
  log_skipped_pages(skipped);
  if (!skipped.empty()) invocation.exit_code = ExitCode::kData;
  if (unpredicted > 0) {
    log_warning(fmt::format("{} no prediction ({}) and count as O; \"unpredicted_words\" lists them",
                            counted(unpredicted, "word has", "words have"),
                            options.data.truncate ? "cut off by --truncate, or without text" : "they have no text"));
  }
  if (invocation.json && file) {
    nlohmann::json object = {{"pages", done},
                             {"unpredicted_words", unpredicted},
                             {"output", predict.output},
                             {"pictures", predict.draw_dir}};
    if (!skipped.empty()) object["skipped_pages"] = skipped_pages_json(skipped);
    print_json(object);
  } else if (file) {
    print_line(fmt::format("{} predicted, written to {}{}", counted(done, "page"), predict.output,
                           predict.draw_dir.empty() ? "" : ", drawn in " + predict.draw_dir));
  }
}

}  // namespace

void add_predict(CLI::App& app, Invocation& invocation) {
  CLI::App* command = add_command(app, invocation, "predict",
                                  "Predict labels of words, classes, answers or links of pages; write or draw them");
  auto options = std::make_shared<RunOptions>();
  auto predict = std::make_shared<PredictOptions>();
  options->train.train_batch_size = 8;
  add_model_options(command, *options, false);
  add_data_options(command, *options);
  add_memory_options(command, *options);
  whole_number(command->add_option("--per-device-eval-batch-size", options->train.train_batch_size,
                                   "Maximum number of pages processed at once"),
               1, 1 << 16)
      ->capture_default_str();
  command->option_defaults()->group("Output");
  add_output_file(command, "--output", predict->output,
                  "JSONL file with a line a page: its words, what was found, and fields (default: standard output)");
  command->add_flag("--return-all-scores", predict->all_scores,
                    "Also write the probability of every label for each word: `scores`, in the order of `label_names`");
  command
      ->add_option("--draw", predict->draw_dir,
                   "Directory for images of the pages with the predicted fields drawn on them")
      ->type_name("DIR");
  whole_number(command->add_option("--draw-limit", predict->draw_limit, "Draw at most this many pages (0: all)"), 0)
      ->capture_default_str();
  add_footer(command,
             "One line per page, in the order of the data. `fields` has what was found, whatever the task: label,\n"
             "text, box (boxes: of its words), confidence, start_word, end_word (not included). Beside it stand, by\n"
             "task, `labels` and `probabilities` of words (those of `unpredicted_words` have none), `label` and\n"
             "`confidence` of the page, `questions` with their answers, or `entities` and `links`. See\n"
             "docs/predictions.md. Labels in the data are not needed; if there are any, --draw marks the\n"
             "differences. A page that cannot be read, or whose image cannot, is skipped and named; the exit code\n"
             "is then 3.\n"
             "\n"
             "  plimsoll predict --model run --data new.jsonl --output found.jsonl --draw pictures");
  command->callback([&invocation, options, predict] {
    invocation.action = [&invocation, options, predict] { run_predict(invocation, *options, *predict); };
  });
}

}  // namespace plimsoll
