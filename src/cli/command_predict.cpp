#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/outputs.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "data/image.h"
#include "data/label_scheme.h"
#include "draw/annotate.h"
#include "fit/session.h"
#include "train/metrics.h"
#include "train/predictor.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  std::string output;
  std::string draw_dir;
  std::int64_t draw_limit = 0;
  bool all_scores = false;
};

// A page's id as the name of a file in one folder: ids may hold anything, "../invoices/7" and twice the same too.
std::string picture_name(const std::string& id, std::set<std::string>& used) {
  std::string name;
  for (const char c : id.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(c);
    name += byte < 0x20 || c == '/' || c == '\\' || byte == 0x7F ? '_' : c;
  }
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  std::string free = name;
  for (int i = 2; !used.insert(free).second; ++i) free = fmt::format("{}-{}", name, i);
  return free + ".png";
}

// Label of each word of the page; a word that no window predicted is outside every entity.
std::vector<std::string> label_names(const PagePrediction& prediction, const std::vector<std::string>& names,
                                     std::size_t words) {
  std::vector<std::string> labels(words, "O");
  for (std::size_t w = 0; w < std::min(words, prediction.labels.size()); ++w) {
    if (prediction.labels[w] >= 0) labels[w] = names[static_cast<std::size_t>(prediction.labels[w])];
  }
  return labels;
}

// Whole numbers as they were read: 12 and not 12.0.
nlohmann::json box_json(const Box& box) {
  nlohmann::json json = nlohmann::json::array();
  for (const double value : box) {
    const bool whole = std::floor(value) == value && std::abs(value) < 1e9;
    json.push_back(whole ? nlohmann::json(static_cast<std::int64_t>(value)) : nlohmann::json(value));
  }
  return json;
}

Box united(Box a, const Box& b) {
  return {std::min(a[0], b[0]), std::min(a[1], b[1]), std::max(a[2], b[2]), std::max(a[3], b[3])};
}

// What docs/predictions.md describes.
nlohmann::json field_json(const Page& page, const WordSpan& span, const PagePrediction& prediction) {
  std::string text;
  float confidence = 1;
  for (std::size_t w = span.begin; w < span.end; ++w) {
    text += (w == span.begin ? "" : " ") + page.words[w];
    confidence = std::min(confidence, prediction.probabilities[w]);
  }
  nlohmann::json field = {{"label", span.name},
                          {"text", text},
                          {"confidence", confidence},
                          {"start_word", span.begin},
                          {"end_word", span.end}};
  if (page.boxes.empty()) return field;
  Box box = page.boxes[span.begin];
  nlohmann::json boxes = nlohmann::json::array();
  for (std::size_t w = span.begin; w < span.end; ++w) {
    box = united(box, page.boxes[w]);
    boxes.push_back(box_json(page.boxes[w]));
  }
  field["box"] = box_json(box);
  field["boxes"] = std::move(boxes);
  return field;
}

bool is_predicted(const PagePrediction& prediction, std::size_t word) {
  return word < prediction.labels.size() && prediction.labels[word] != kNoPrediction;
}

// `names`: of the model's labels.
nlohmann::json page_json(const Page& page, const std::vector<std::string>& labels, const PagePrediction& prediction,
                         const std::vector<std::string>& names, bool all_scores) {
  nlohmann::json fields = nlohmann::json::array(), probabilities = fields, unpredicted = fields, scores = fields;
  for (const WordSpan& span : entity_spans(labels, label_scheme(names))) {
    fields.push_back(field_json(page, span, prediction));
  }
  for (std::size_t w = 0; w < page.words.size(); ++w) {
    const bool predicted = is_predicted(prediction, w);
    probabilities.push_back(predicted ? nlohmann::json(prediction.probabilities[w]) : nlohmann::json());
    if (!predicted) unpredicted.push_back(w);
    if (!all_scores) continue;
    nlohmann::json of_word;  // null
    if (predicted) {
      const std::span<const float> all = std::span(prediction.scores).subspan(w * names.size(), names.size());
      of_word = std::vector<float>(all.begin(), all.end());
    }
    scores.push_back(std::move(of_word));
  }
  nlohmann::json object = {{"id", page.id},    {"words", page.words},
                           {"labels", labels}, {"probabilities", probabilities},
                           {"fields", fields}, {"unpredicted_words", unpredicted}};
  if (!page.image.empty()) object["image"] = page.image.string();
  if (all_scores) {
    object["label_names"] = names;
    object["scores"] = scores;
  }
  return object;
}

// The page's boxes in pixels of its image, whatever the data gave.
std::array<double, 4> pixel_box(const Page& page, std::size_t word, BoxFormat format) {
  const Box& box = page.boxes[word];
  if (format == BoxFormat::kPixel) return {box[0], box[1], box[2], box[3]};
  const double x = page.width / 1000.0, y = page.height / 1000.0;
  return {box[0] * x, box[1] * y, box[2] * x, box[3] * y};
}

void draw_page(const Page& page, const std::vector<std::string>& labels, const PagePrediction& prediction,
               BoxFormat format, LabelScheme scheme, const fs::path& path) {
  AnnotatedPage picture{.image = page.image, .output_png = path, .scheme = scheme};
  for (std::size_t w = 0; w < page.words.size(); ++w) {
    AnnotatedWord word{.box = pixel_box(page, w, format), .label = labels[w]};
    if (w < prediction.probabilities.size()) word.confidence = prediction.probabilities[w];
    if (w < page.labels.size()) word.gold_label = page.labels[w];
    picture.words.push_back(std::move(word));
  }
  draw_annotated_page(picture);
}

void run_predict(const Invocation& invocation, RunOptions& options, const PredictOptions& predict) {
  options.resolve();
  refuse_replacing({{"--output", predict.output}, {"--draw", predict.draw_dir}}, options.inputs());
  const Device device = open_run_device(invocation, options);
  Backend& backend = *device.backend;
  const ModelBundle bundle = open_trained_model(options.model.model, options.model.tokenizer, options.model.base_model);
  check_weights(bundle, MissingHead::kRefused);
  const auto dataset = open_dataset(bundle, options.data, false, false);
  refuse_replacing_images({{"--output", predict.output}}, dataset->source());
  // Labels in the data, where it has any, are only drawn as right or wrong. Drawing needs boxes and images, whatever
  // the model reads.
  const bool draws = !predict.draw_dir.empty();
  const std::unique_ptr<PageSource> pages =
      open_pages(options.data.data, {.label_names = bundle.config.labels,
                                     .segment_boxes = options.data.segment_boxes,
                                     .parts = draws ? PageParts() : page_parts(bundle.facts())});
  if (draws) {
    ImageLimits largest;
    for (std::size_t i = 0; i < pages->size(); ++i) largest.include(read_image_info(pages->read(i).image));
    make_directory_of(predict.draw_dir, "--draw", "predict");
    options.memory.drawing_bytes = drawing_bytes(largest.width, largest.height) + largest.decode_bytes;
  }
  Session session(fit(fit_request(bundle, options.train, nullptr, dataset.get(), options.memory), backend), backend);
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });
  std::unique_ptr<OutputFile> file;
  if (!predict.output.empty()) file = std::make_unique<OutputFile>(predict.output);
  std::int64_t done = 0, unpredicted = 0;
  std::set<std::string> names;
  // A page that cannot be read costs that page; the exit code says so.
  std::vector<SkippedPage> skipped;
  const auto leave_out = [&skipped](const BadPageError& error) {
    skipped.push_back({.page = error.page(), .problem = error.problem()});
    log_warning(fmt::format("skipping a page that cannot be read: {}", describe(skipped.back())));
  };
  const PredictControl control{.on_bad_page = leave_out, .all_scores = predict.all_scores};
  predict_pages(
      session, bundle.definition(), *dataset, loader_options(options.memory),
      [&](const PagePrediction& prediction) {
        Page page = pages->read(prediction.page);
        if (draws && page.width == 0) read_page_image_info(page);
        const std::vector<std::string> labels = label_names(prediction, bundle.config.labels, page.words.size());
        const std::string line = page_json(page, labels, prediction, bundle.config.labels, predict.all_scores).dump();
        if (file) {
          file->write(line + "\n");
        } else {
          print_line(line);
        }
        if (draws && (predict.draw_limit == 0 || done < predict.draw_limit)) {
          draw_page(page, labels, prediction, options.data.box_format, label_scheme(bundle.config.labels),
                    fs::path(predict.draw_dir) / picture_name(page.id, names));
        }
        for (std::size_t w = 0; w < page.words.size(); ++w) unpredicted += is_predicted(prediction, w) ? 0 : 1;
        ++done;
      },
      control);
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
  CLI::App* command =
      add_command(app, invocation, "predict", "Predict labels for the words of pages; write or draw them");
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
                  "JSONL file: id, image, words, labels, probabilities, fields (default: standard output)");
  command->add_flag("--return-all-scores", predict->all_scores,
                    "Also write the probability of every label for each word: `scores`, in the order of `label_names`");
  command
      ->add_option("--draw", predict->draw_dir,
                   "Directory for images of the pages with the predicted fields drawn on them")
      ->type_name("DIR");
  whole_number(command->add_option("--draw-limit", predict->draw_limit, "Draw at most this many pages (0: all)"), 0)
      ->capture_default_str();
  add_footer(command,
             "One line per page, in the order of the data. `labels` has one name per word, `probabilities` its\n"
             "probability, and `fields` the entities of adjoining words: label, text, box (boxes: of its words),\n"
             "confidence, start_word, end_word (not included). Words of `unpredicted_words` have no prediction.\n"
             "See docs/predictions.md. Labels in the data are not needed; if there are any, --draw marks the\n"
             "differences. A page whose image cannot be decoded is skipped and named; the exit code is then 3.\n"
             "\n"
             "  plimsoll predict --model run --data new.jsonl --output found.jsonl --draw pictures");
  command->callback([&invocation, options, predict] {
    invocation.action = [&invocation, options, predict] { run_predict(invocation, *options, *predict); };
  });
}

}  // namespace plimsoll
