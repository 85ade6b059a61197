#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

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
#include "cli/part_files.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/run_record.h"
#include "cli/same_run.h"
#include "cli/signals.h"
#include "cli/usage.h"
#include "fit/session.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "request/word_rows.h"
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
  std::string shard;
  const Command* command = nullptr;
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

// Returns the requested shard, if shards can do what else was requested.
std::optional<ShardNumber> find_shard(const RunOptions& options, const PredictOptions& predict) {
  const std::optional<ShardNumber> shard = shard_of(predict.shard, predict.output, options.ranks.launch.size);
  if (!shard) return shard;
  const auto refuse = [](const char* option, const std::string& found, const char* what) {
    throw UsageError({.what = fmt::format("shards cannot {}", what),
                      .where = option,
                      .found = found,
                      .allowed = "--draw, which writes a file a page",
                      .remedy = fmt::format("omit {}, or run without --shard", option)});
  };
  if (!predict.draw_pdf.empty()) refuse("--draw-pdf", predict.draw_pdf, "draw pages in one PDF file");
  if (predict.draw_limit > 0) {
    refuse("--draw-limit", std::to_string(predict.draw_limit), "count the pages that others draw");
  }
  return shard;
}

// Pages that were read from documents: in a folder of this run, with their pictures there or beside the output.
struct ReadInput {
  TemporaryFolder folder{};
  std::filesystem::path images{};
  bool keeps_images = false;
  WrittenPages summary{};
};

// Reads --input into a file of pages, which becomes the run's --data. Each rank has its own file; pictures are in one
// place.
std::unique_ptr<ReadInput> read_input(const Invocation& invocation, RunOptions& options, const PredictOptions& predict,
                                      const std::optional<ShardNumber>& shard) {
  const DocumentInput& input = predict.input;
  if (input.files.empty()) return nullptr;
  auto read = std::make_unique<ReadInput>();
  // A table does not name pictures.
  const bool has_place = !predict.output.empty() && !is_special_file(predict.output) && predict.format != "csv";
  read->keeps_images = !input.images.empty() || has_place;
  read->images = !input.images.empty() ? std::filesystem::path(input.images)
                 : has_place           ? std::filesystem::path(predict.output + ".images")
                                       : read->folder.path() / "images";
  if (!read->keeps_images && invocation.ranks != nullptr) {
    read->images = broadcast_text(*invocation.ranks, read->images.string());
  }
  const std::filesystem::path pages = read->folder.path() / "pages.jsonl";
  read->summary = write_pages(invocation, input,
                              {.output = pages,
                               .images = read->images,
                               .owns_images = !read->keeps_images,
                               .absolute_paths = true,
                               .every_rank = true,
                               .threads = sharing_threads(invocation, options.ranks.launch),
                               .budget = reading_budget(options.memory),
                               .shard = shard,
                               .whole_documents = true});
  options.data.data = {pages};
  options.data.box_format = BoxFormat::kPixel;
  return read;
}

// Returns the image's path for the output: relative if it is in the output's folder, like pictures of pages.
std::filesystem::path named_image(const std::filesystem::path& output, const std::filesystem::path& image) {
  const bool has_folder = !output.empty() && !is_special_file(output);
  const std::filesystem::path folder =
      has_folder ? std::filesystem::absolute(output).lexically_normal().parent_path() : std::filesystem::current_path();
  const std::filesystem::path relative = image.lexically_proximate(folder);
  return relative.begin() != relative.end() && *relative.begin() == ".." ? image : relative;
}

// What is reported about a prediction.
struct Predicted {
  std::int64_t pages = 0, unpredicted_words = 0;
  std::vector<SkippedPage> skipped{};  // pages that could not be read are left out; the exit code says so
  std::vector<Problem> unreadable{};   // documents, and pages of them

  bool is_whole() const { return skipped.empty() && unreadable.empty(); }
  // Returns what a part's manifest says about it.
  nlohmann::json result() const {
    nlohmann::json problems = nlohmann::json::array();
    for (const Problem& problem : unreadable) problems.push_back(problem_json(problem));
    for (const SkippedPage& page : skipped) problems.push_back(problem_json(page.problem));
    return {{"pages", pages}, {"unpredicted_words", unpredicted_words}, {"unreadable", std::move(problems)}};
  }
};

// Refuses other forms for pairs: a pair's line has no words, so it can only be written as a line.
void refuse_for_pairs(const ModelBundle& bundle, const PredictOptions& predict) {
  if (!bundle.task().reads_pairs()) return;
  const auto refuse = [&](const char* option, bool is_given, const char* remedy) {
    if (!is_given) return;
    throw UsageError({.what = "predictions of pairs are written as lines alone",
                      .where = option,
                      .found = fmt::format("a model for {}", bundle.task().name()),
                      .allowed = "--data FILE --pages FILE --output FILE",
                      .remedy = remedy});
  };
  refuse("--input", !predict.input.files.empty(), "read the pages first (plimsoll ocr), and pass pairs of them");
  refuse("--format", predict.format != "jsonl", "omit --format");
  refuse("--draw", !predict.draw_dir.empty(), "omit --draw");
  refuse("--draw-pdf", !predict.draw_pdf.empty(), "omit --draw-pdf");
  refuse("--shard", !predict.shard.empty(), "split the file of pairs instead");
}

// Reads, predicts, writes and draws the pages of --data, or of the request's range; `earlier_ids` are those of earlier
// pages, which may have pictures with the same names.
void predict_and_write(Invocation& invocation, RunOptions& options, const PredictOptions& predict, Backend& backend,
                       ModelBundle bundle, const ReadInput* read, const std::vector<std::string>& earlier_ids,
                       OutputFile* file, bool is_part, Predicted& predicted) {
  const auto dataset = open_to_predict(bundle, options.data, predicted.skipped);
  if (dataset == nullptr) return;
  refuse_other_inputs(invocation, options, bundle, {.data = dataset.get()});
  refuse_replacing_images({{"--output", predict.output}, {"--draw-pdf", predict.draw_pdf}}, dataset->source());
  // Labels in the data, if any, are only drawn as right or wrong. Drawing needs boxes and images, whatever the model
  // reads.
  const bool draws = !predict.draw_dir.empty() || !predict.draw_pdf.empty();
  ReadOptions reading = read_options(bundle, options.data, true);
  if (draws) reading.parts = PageParts();
  const std::unique_ptr<PageSource> opened =
      bundle.task().reads_pairs() ? nullptr : open_requested(options.data, options.data.data, reading);
  const PageSource* const pages = opened != nullptr ? opened.get() : &dataset->source();
  std::optional<PagePictures> pictures;
  if (draws) {
    options.memory.drawing_bytes = PagePictures::bytes(*pages, !predict.draw_pdf.empty());
    pictures.emplace(invocation, predict.draw_dir, "predict", predict.draw_pdf);
    for (const std::string& id : earlier_ids) pictures->pass(id);
  }
  options.memory.written = predict.form;
  keep_word_rows(bundle, options.train, nullptr, dataset.get());
  FitRequest request = fit_request(bundle, options.train, nullptr, dataset.get(), options.memory);
  Session session(plan_of(invocation, request, backend), backend, std::nullopt, invocation.ranks.get());
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });
  const auto leave_out = [&predicted](const BadPageError& error) {
    predicted.skipped.push_back({.page = error.page(), .problem = error.problem()});
    log_warning(fmt::format("skipping a page that cannot be read: {}", describe(predicted.skipped.back())));
  };
  const std::unique_ptr<Predictions> predictions = bundle.task().predictions(bundle.config.task, predict.form);
  const auto write = [file](const std::string& text) {
    if (file != nullptr) {
      file->write(text);
    } else {
      print_text(text);
    }
  };
  FieldOutput fields(predict.format, write, is_part);
  DocumentLines lines(
      *pages, [&fields](const nlohmann::json& line) { fields.add(line); },
      read != nullptr ? read->summary.numbers : std::vector<int>());
  predict_pages(session, bundle.definition(), *dataset, loader_options(options.memory), *predictions,
                {.on_bad_page = leave_out, .all_pages = true}, [&](std::uint32_t index) {
                  PageFaults of_labels;  // faults of labels, which only a drawing would show
                  Page page = pages->read(index, &of_labels);
                  const std::filesystem::path image = page.image;
                  // A picture that is deleted with this run's folder is not named.
                  const bool goes = read && !read->keeps_images && image.string().starts_with(read->images.string());
                  page.image = goes   ? std::filesystem::path()
                               : read ? named_image(predict.output, image)
                                      : path_from(predict.output, image);
                  // With ranks, the first one writes.
                  if (invocation.is_first()) lines.add(index, page, predictions->to_json(page));
                  page.image = image;
                  if (pictures && (predict.draw_limit == 0 || predicted.pages < predict.draw_limit)) {
                    pictures->draw(*predictions, page, options.data.box_format);
                  }
                  predicted.unpredicted_words += predictions->unpredicted_words(page);
                  ++predicted.pages;
                });
  // After this, each rank has drawn its pages, and no longer needs pictures of the others.
  wait_for_ranks(invocation);
  lines.finish();
  fields.finish();
  if (pictures) pictures->finish();
  if (pictures && pictures->lacks_pages()) invocation.exit_code = ExitCode::kData;
}

void report_predicted(const Invocation& invocation, const RunOptions& options, const PredictOptions& predict,
                      const Predicted& predicted, const std::string& output) {
  log_skipped_pages(predicted.skipped);
  if (!predicted.is_whole()) invocation.exit_code = ExitCode::kData;
  if (predicted.unpredicted_words > 0) {
    log_warning(fmt::format("{} no prediction ({}) and count as O; \"unpredicted_words\" lists them",
                            counted(predicted.unpredicted_words, "word has", "words have"),
                            options.data.truncate ? "cut off by --truncate, or without text" : "they have no text"));
  }
  if (output.empty()) return;
  if (invocation.json) {
    nlohmann::json object = {{"pages", predicted.pages},
                             {"unpredicted_words", predicted.unpredicted_words},
                             {"output", output},
                             {"pictures", predict.draw_dir}};
    if (!predict.draw_pdf.empty()) object["drawn_pdf"] = predict.draw_pdf;
    if (!predict.shard.empty()) object["shard"] = predict.shard;
    if (!predicted.skipped.empty()) object["skipped_pages"] = unread_pages_json(predicted.skipped);
    return print_json(object);
  }
  const std::string drawn = !predict.draw_dir.empty() ? predict.draw_dir : predict.draw_pdf;
  print_line(fmt::format("{} predicted, written to {}{}", counted(predicted.pages, "page"), output,
                         drawn.empty() ? "" : ", drawn in " + drawn));
}

// Returns the ids of the pages of --data before the shard's.
std::vector<std::string> ids_before(const RunOptions& options, std::size_t end) {
  std::vector<std::string> ids;
  const std::unique_ptr<PageSource> pages = open_pages(options.data.data, {.ignore_labels = true});
  for (std::size_t index = 0; index < end; ++index) {
    PageFaults faults;
    try {
      ids.push_back(pages->read(index, &faults).id);
    } catch (const DataError&) {  // it has no picture
    }
  }
  return ids;
}

// Predicts the pages of one shard into a part of the output, unless that has been done.
void run_shard(Invocation& invocation, RunOptions& options, const PredictOptions& predict, Backend& backend,
               const ModelBundle& bundle, ShardNumber shard) {
  const bool reads = !predict.input.files.empty();
  const std::string input = reads ? documents_fingerprint(predict.input) : pages_fingerprint(options.data.data);
  const PartFile part(predict.output, shard,
                      part_identity("predict", *predict.command, predict.format, model_record(bundle), input));
  if (tell_finished(invocation, part, shard)) return;
  part.begin();
  std::vector<std::string> earlier_ids;
  const std::unique_ptr<ReadInput> read = read_input(invocation, options, predict, shard);
  PageRange range;
  Predicted predicted;
  if (read) {
    range = read->summary.range;
    earlier_ids = read->summary.earlier_ids;
    predicted.unreadable = read->summary.unreadable;
  } else {
    const std::unique_ptr<PageSource> all = open_pages(options.data.data, read_options(bundle, options.data, false));
    range = range_of_shard(*all, shard);
    options.data.range = range;
    if (!predict.draw_dir.empty()) earlier_ids = ids_before(options, range.begin);
  }
  // Shards that cache their pages' tokens at the same time use separate folders.
  if (!options.data.cache.empty()) {
    options.data.cache /= fmt::format("part-{}-of-{}", shard.index + 1, shard.count);
    make_directory(options.data.cache, "--cache");
  }
  OutputFile file(part.path());
  const bool has_pages = read ? read->summary.pages > 0 : range.size() > 0;
  if (has_pages) {
    predict_and_write(invocation, options, predict, backend, bundle, read.get(), earlier_ids, &file, true, predicted);
  }
  part.finish(range, file.close(), predicted.result());
  report_predicted(invocation, options, predict, predicted, part.path().string());
}

void run_predict(Invocation& invocation, RunOptions& options, const PredictOptions& predict) {
  check_one_source(options, predict);
  watch_signals();
  options.runs = true;
  options.resolve();
  const std::optional<ShardNumber> shard = find_shard(options, predict);
  const std::vector<NamedPath> outputs = {
      {"--output", predict.output}, {"--draw", predict.draw_dir}, {"--draw-pdf", predict.draw_pdf}};
  refuse_replacing(outputs, options.inputs());
  refuse_replacing(outputs, predict.input.inputs());
  if (std::filesystem::path(predict.output).extension() == ".csv" && predict.format != "csv") {
    log_warning(fmt::format("{} becomes lines of JSON; for a table, pass --format csv", predict.output));
  }
  connect_ranks(invocation, options.ranks);
  const Device device = open_run_device(invocation, options);
  const ModelBundle bundle = open_evaluated_model(options);
  refuse_for_pairs(bundle, predict);
  if (invocation.is_first()) {
    tell_trained_windows(options, bundle, "predicts");
    tell_idle_document_options(*predict.command, predict.input);
    if (predict.draw_limit > 0 && predict.draw_dir.empty() && predict.draw_pdf.empty()) {
      log_warning("--draw-limit changes nothing without --draw or --draw-pdf");
    }
  }
  if (bundle.task().reads_text() && predict.format == "csv") {
    throw UsageError({.what = "a table holds the fields of pages, and a text has none",
                      .where = "--format",
                      .found = "csv, with a language model",
                      .allowed = "jsonl, json",
                      .remedy = "omit --format"});
  }
  if (predict.format == "csv" && bundle.config.task.problem_type == "regression") {
    throw UsageError({.what = "a table holds the fields of pages, and a number is none",
                      .where = "--format",
                      .found = "csv, with a model whose label is a number",
                      .allowed = "jsonl, json",
                      .remedy = "omit --format; `value` of each line is the number"});
  }
  if (shard) return run_shard(invocation, options, predict, *device.backend, bundle, *shard);
  // Reading takes long, so a model that cannot be used is refused before it.
  const std::unique_ptr<ReadInput> read = read_input(invocation, options, predict, std::nullopt);
  Predicted predicted;
  if (read) predicted.unreadable = read->summary.unreadable;
  std::unique_ptr<OutputFile> file;
  if (!predict.output.empty() && invocation.is_first()) file = std::make_unique<OutputFile>(predict.output);
  predict_and_write(invocation, options, predict, *device.backend, bundle, read.get(), {}, file.get(), false,
                    predicted);
  if (file) file->close();
  report_predicted(invocation, options, predict, predicted, file ? predict.output : std::string());
}

}  // namespace

void add_predict(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "predict", "Predict labels, classes, answers or links, and write or draw them");
  auto options = std::make_shared<RunOptions>();
  auto predict = std::make_shared<PredictOptions>();
  add_model_options(command, *options, false);
  add_data_options(command, *options);
  command->get_option("--data")->required(false);
  add_document_options(command, predict->input);
  add_memory_options(command, *options);
  add_weights_offload_option(command, *options);
  add_evaluation_size_option(command, *options);
  add_quantization_options(command, *options);
  add_launcher_options(command, options->ranks);
  command->heading("Output");
  add_output_file(command, "--output", predict->output,
                  "File with one line per page: its words, the predictions, and fields (default: standard output)");
  one_of(command->add_option(
             "--format", predict->format,
             "Form of the output: jsonl (one JSON object per line), json (a list of them), or csv (one row per field)"),
         {"jsonl", "json", "csv"})
      ->type_name("NAME")
      ->capture_default_str();
  add_prediction_options(command, predict->form);
  add_shard_option(command, predict->shard);
  predict->command = command;
  command
      ->add_option("--draw", predict->draw_dir,
                   "Directory for images of the pages with the predicted fields drawn on them")
      ->type_name("DIR");
  command->add_option("--draw-pdf", predict->draw_pdf, "PDF file with the same pictures, one per page")
      ->type_name("FILE");
  whole_number(command->add_option("--draw-limit", predict->draw_limit, "Draw at most this many pages (0: all)"), 0)
      ->capture_default_str();
  command->footer(
      "One line per page, in the order of the data. `fields` has the predictions of any task: label, text,\n"
      "box (boxes: those of its words), confidence, start_word, end_word (exclusive). Depending on the task there\n"
      "are also `labels` and `probabilities` of words (those of `unpredicted_words` have none), `label` and\n"
      "`confidence` of the page, `questions` with their answers, or `links` between the `fields`. See\n"
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
