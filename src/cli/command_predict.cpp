#include <fmt/format.h>

#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path_from.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/document_input.h"
#include "cli/document_lines.h"
#include "cli/field_output.h"
#include "cli/outputs.h"
#include "cli/page_pictures.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/signals.h"
#include "cli/usage.h"
#include "fit/session.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "train/predictor.h"

namespace plimsoll {
namespace {

struct PredictOptions {
  DocumentInput input;
  std::string output;
  std::string format = "jsonl";
  std::string draw_dir, draw_pdf;
  std::int64_t draw_limit = 0;
  PredictionOptions form;
};

void check_one_source(const RunOptions& options, const PredictOptions& predict) {
  const bool reads = !predict.input.files.empty();
  if (reads == options.data_files.empty()) return;
  throw UsageError({.what = reads ? "pages come from two places" : "there are no pages to predict",
                    .where = "--data, --input",
                    .found = reads ? "both" : "neither",
                    .allowed = "one of them",
                    .remedy = "pass --data for pages with words and boxes, --input for scans and PDF files"});
}

// Pages that were read of documents: in a folder of this run, their pictures with them or beside the output.
struct ReadInput {
  TemporaryFolder folder{};
  std::filesystem::path images{};
  bool keeps_images = false;
  std::size_t unreadable = 0;
};

// Reads --input into a file of pages, which becomes the run's --data.
std::unique_ptr<ReadInput> read_input(const Invocation& invocation, RunOptions& options,
                                      const PredictOptions& predict) {
  const DocumentInput& input = predict.input;
  if (input.files.empty()) return nullptr;
  auto read = std::make_unique<ReadInput>();
  // A table names no pictures.
  const bool has_place = !predict.output.empty() && !is_special_file(predict.output) && predict.format != "csv";
  read->keeps_images = !input.images.empty() || has_place;
  read->images = !input.images.empty() ? std::filesystem::path(input.images)
                 : has_place           ? std::filesystem::path(predict.output + ".images")
                                       : read->folder.path() / "images";
  const std::filesystem::path pages = read->folder.path() / "pages.jsonl";
  const DocumentSummary summary = write_pages(
      invocation, input,
      {.output = pages, .images = read->images, .owns_images = !read->keeps_images, .absolute_paths = true});
  read->unreadable = summary.unreadable.size();
  options.data.data = {pages};
  options.data.box_format = BoxFormat::kPixel;
  return read;
}

// The image as the output names it: relative where it lies in the output's folder, as pictures of pages do.
std::filesystem::path named_image(const std::filesystem::path& output, const std::filesystem::path& image) {
  const bool has_folder = !output.empty() && !is_special_file(output);
  const std::filesystem::path folder =
      has_folder ? std::filesystem::absolute(output).lexically_normal().parent_path() : std::filesystem::current_path();
  const std::filesystem::path relative = image.lexically_proximate(folder);
  return relative.begin() != relative.end() && *relative.begin() == ".." ? image : relative;
}

void run_predict(Invocation& invocation, RunOptions& options, const PredictOptions& predict) {
  check_one_source(options, predict);
  if (!predict.input.files.empty()) watch_signals();
  options.runs = true;
  options.resolve();
  if (options.ranks.launch.size > 1 && !predict.input.files.empty()) {
    throw UsageError({.what = "several processes cannot read documents together",
                      .where = "--input",
                      .found = fmt::format("{} processes", options.ranks.launch.size),
                      .allowed = "--data with pages that plimsoll ocr has read, or --launcher none",
                      .remedy = "run plimsoll ocr first, and pass its output as --data"});
  }
  const std::vector<NamedPath> outputs = {
      {"--output", predict.output}, {"--draw", predict.draw_dir}, {"--draw-pdf", predict.draw_pdf}};
  refuse_replacing(outputs, options.inputs());
  refuse_replacing(outputs, predict.input.inputs());
  connect_ranks(invocation, options.ranks);
  const Device device = open_run_device(invocation, options);
  Backend& backend = *device.backend;
  const ModelBundle bundle = open_evaluated_model(options);
  // Reading takes its time, so a model that cannot be used has been refused before.
  const std::unique_ptr<ReadInput> read = read_input(invocation, options, predict);
  // A page that cannot be read costs that page; the exit code says so.
  std::vector<SkippedPage> skipped;
  const auto dataset = open_to_predict(bundle, options.data, skipped);
  refuse_replacing_images({{"--output", predict.output}, {"--draw-pdf", predict.draw_pdf}}, dataset->source());
  // Labels in the data, where it has any, are only drawn as right or wrong. Drawing needs boxes and images, whatever
  // the model reads.
  const bool draws = !predict.draw_dir.empty() || !predict.draw_pdf.empty();
  ReadOptions reading = read_options(bundle, options.data, true);
  if (draws) reading.parts = PageParts();
  const std::unique_ptr<PageSource> pages = open_pages(options.data.data, reading);
  std::unique_ptr<OutputFile> file;
  // With ranks, the first one writes.
  if (!predict.output.empty() && invocation.is_first()) file = std::make_unique<OutputFile>(predict.output);
  std::optional<PagePictures> pictures;
  if (draws) {
    options.memory.drawing_bytes = PagePictures::bytes(*pages, !predict.draw_pdf.empty());
    if (invocation.is_first()) pictures.emplace(predict.draw_dir, "predict", predict.draw_pdf);
  }
  FitRequest request = fit_request(bundle, options.train, nullptr, dataset.get(), options.memory);
  Session session(plan_of(invocation, request, backend), backend, std::nullopt, invocation.ranks.get());
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });
  std::int64_t done = 0, unpredicted = 0;
  const auto leave_out = [&skipped](const BadPageError& error) {
    skipped.push_back({.page = error.page(), .problem = error.problem()});
    log_warning(fmt::format("skipping a page that cannot be read: {}", describe(skipped.back())));
  };
  const std::unique_ptr<Predictions> predictions = bundle.task().predictions(bundle.config.task, predict.form);
  FieldOutput fields(predict.format, [&file](const std::string& text) {
    if (file) {
      file->write(text);
    } else {
      print_text(text);
    }
  });
  DocumentLines lines([&fields](const nlohmann::json& line) { fields.add(line); });
  predict_pages(session, bundle.definition(), *dataset, loader_options(options.memory), *predictions,
                {.on_bad_page = leave_out, .all_pages = true}, [&](std::uint32_t index) {
                  PageFaults of_labels;  // which only a drawing would show
                  Page page = pages->read(index, &of_labels);
                  const std::filesystem::path image = page.image;
                  // A picture that goes with this run is not named.
                  const bool goes = read && !read->keeps_images && image.string().starts_with(read->images.string());
                  page.image = goes   ? std::filesystem::path()
                               : read ? named_image(predict.output, image)
                                      : path_from(predict.output, image);
                  lines.add(page, predictions->to_json(page));
                  page.image = image;
                  if (pictures && (predict.draw_limit == 0 || done < predict.draw_limit)) {
                    pictures->draw(*predictions, page, options.data.box_format);
                  }
                  unpredicted += predictions->unpredicted_words(page);
                  ++done;
                });
  lines.finish();
  fields.finish();
  if (file) file->close();
  if (pictures) pictures->finish();
  log_skipped_pages(skipped);
  if (!skipped.empty() || (read && read->unreadable > 0)) invocation.exit_code = ExitCode::kData;
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
    if (!predict.draw_pdf.empty()) object["drawn_pdf"] = predict.draw_pdf;
    if (!skipped.empty()) object["skipped_pages"] = skipped_pages_json(skipped);
    print_json(object);
  } else if (file) {
    const std::string drawn = !predict.draw_dir.empty() ? predict.draw_dir : predict.draw_pdf;
    print_line(fmt::format("{} predicted, written to {}{}", counted(done, "page"), predict.output,
                           drawn.empty() ? "" : ", drawn in " + drawn));
  }
}

}  // namespace

void add_predict(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "predict",
                                 "Predict labels of words, classes, answers or links of pages; write or draw them");
  auto options = std::make_shared<RunOptions>();
  auto predict = std::make_shared<PredictOptions>();
  add_model_options(command, *options, false);
  add_data_options(command, *options);
  command->get_option("--data")->required(false);
  add_document_options(command, predict->input);
  add_memory_options(command, *options);
  add_evaluation_size_option(command, *options);
  add_launcher_options(command, options->ranks);
  command->heading("Output");
  add_output_file(command, "--output", predict->output,
                  "File with a line a page: its words, what was found, and fields (default: standard output)");
  one_of(command->add_option("--format", predict->format,
                             "Form of the output: jsonl (a JSON object a line), json (one list of them), or csv (a row "
                             "a field)"),
         {"jsonl", "json", "csv"})
      ->type_name("NAME")
      ->capture_default_str();
  add_prediction_options(command, predict->form);
  command
      ->add_option("--draw", predict->draw_dir,
                   "Directory for images of the pages with the predicted fields drawn on them")
      ->type_name("DIR");
  command->add_option("--draw-pdf", predict->draw_pdf, "PDF file with the same pictures, a page each")
      ->type_name("FILE");
  whole_number(command->add_option("--draw-limit", predict->draw_limit, "Draw at most this many pages (0: all)"), 0)
      ->capture_default_str();
  command->footer(
      "One line per page, in the order of the data. `fields` has what was found, whatever the task: label,\n"
      "text, box (boxes: of its words), confidence, start_word, end_word (not included). Beside it stand, by\n"
      "task, `labels` and `probabilities` of words (those of `unpredicted_words` have none), `label` and\n"
      "`confidence` of the page, `questions` with their answers, or `entities` and `links`. See\n"
      "docs/predictions.md. Labels in the data are not needed; if there are any, --draw marks the\n"
      "differences. A page that cannot be read, or whose image cannot, is skipped and named; the exit code\n"
      "is then 3.\n"
      "\n"
      "--input reads scans and PDF files first, as `plimsoll ocr` does; see docs/ocr.md.\n"
      "\n"
      "  plimsoll predict --model run --data new.jsonl --output found.jsonl --draw pictures\n"
      "  plimsoll predict --model run --input invoice.pdf --output fields.csv --format csv");
  command->callback([&invocation, options, predict] {
    invocation.action = [&invocation, options, predict] { run_predict(invocation, *options, *predict); };
  });
}

}  // namespace plimsoll
