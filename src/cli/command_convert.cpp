#include <fmt/format.h>

#include "base/counted.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/usage.h"
#include "convert/convert.h"
#include "convert/formats.h"
#include "data/labels.h"

namespace plimsoll {
namespace {

struct ConvertCommand {
  ConvertOptions options{};
  std::vector<std::string> inputs{};
  std::string output, predictions, images, labels, label_config;
  std::string box_format = "pixel";
};

// Returns "2 pages, 40 words".
std::string counts_text(const ConvertSummary& summary) {
  std::string text = fmt::format("{}, {}", counted(summary.pages, "page"), counted(summary.words, "word"));
  if (summary.labelled_pages > 0) text += fmt::format("; {} labelled", counted(summary.labelled_pages, "page"));
  if (summary.predicted_pages > 0) text += fmt::format("; {} predicted", counted(summary.predicted_pages, "page"));
  return text;
}

void run_convert(const Invocation& invocation, ConvertCommand& command) {
  ConvertOptions& options = command.options;
  options.output = command.output;
  options.predictions = command.predictions;
  options.images = command.images;
  options.box_format = command.box_format == "1000" ? BoxFormat::k1000 : BoxFormat::kPixel;
  if (!command.labels.empty()) options.label_names = LabelSet::parse(command.labels).names();
  const bool tasks = options.to == "label-studio";
  if (!tasks && !command.label_config.empty()) {
    throw UsageError({.what = "a labelling configuration belongs to Label Studio's tasks",
                      .where = "--label-config",
                      .found = "--to " + options.to,
                      .allowed = "--to label-studio",
                      .remedy = "omit one of the two"});
  }
  if (!command.images.empty() && !std::filesystem::is_directory(command.images)) {
    throw UsageError({.what = "the folder of pictures is not a folder",
                      .where = "--images",
                      .found = command.images,
                      .allowed = "a folder",
                      .remedy = "name the folder that holds the pages' pictures"});
  }
  options.label_config = command.label_config;
  if (tasks && command.label_config.empty() && !is_special_file(options.output)) {
    options.label_config = std::filesystem::path(options.output).replace_extension(".config.xml");
  }
  options.inputs = convert_inputs(command.inputs);
  std::vector<NamedPath> read = {{"--predictions", options.predictions}, {"--labels", command.labels}};
  for (const std::filesystem::path& path : options.inputs) read.push_back({"--input", path});
  refuse_replacing({{"--output", options.output}, {"--label-config", options.label_config}}, read);
  const ConvertSummary summary = convert(options);
  for (const std::string& line : summary.lost) log_warning(line);
  const std::string config = summary.wrote_label_config ? options.label_config.string() : std::string();
  if (invocation.json) {
    nlohmann::json object = {{"pages", summary.pages},
                             {"words", summary.words},
                             {"labelled_pages", summary.labelled_pages},
                             {"predicted_pages", summary.predicted_pages},
                             {"output", options.output.string()},
                             {"lost", summary.lost}};
    if (!config.empty()) object["label_config"] = config;
    return print_json(object);
  }
  print_line(fmt::format("{}, written to {}{}", counts_text(summary), options.output.string(),
                         config.empty() ? "" : ", with the labelling configuration " + config));
  if (is_special_file(options.output)) return;  // no command could read what went to a pipe
  if (options.to == "pages" && summary.labelled_pages == 0) {
    print_line(fmt::format("next: label the words to train on them, or plimsoll predict --model MODEL --data {}",
                           options.output.string()));
  } else if (options.to == "pages") {
    print_line(fmt::format("next: plimsoll check --model MODEL --data {}", options.output.string()));
  }
}

std::string footer() {
  std::string text = "Input formats, which are recognised by a file's contents:\n";
  for (const InputFormat& format : input_formats()) {
    text += fmt::format("  {:<15}{}\n", format.name, format.description);
  }
  text += "Output formats:\n";
  for (const OutputFormat& format : output_formats()) {
    text += fmt::format("  {:<15}{}\n", format.name, format.description);
  }
  return text +
         "What a format cannot express is left out, and a warning counts it. See docs/convert.md.\n"
         "\n"
         "  plimsoll convert --input scan.hocr --output pages.jsonl\n"
         "  plimsoll convert --input 'textract/*.json' --images scans --output pages.jsonl\n"
         "  plimsoll convert --input found.jsonl --to label-studio --output tasks.json\n"
         "  plimsoll convert --input export.json --images scans --output train.jsonl\n"
         "  plimsoll convert --input test.jsonl --predictions found.jsonl --to conll --output test.conll";
}

}  // namespace

void add_convert(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "convert",
                                 "Convert OCR results and annotations to pages, and pages to annotation tools");
  auto convert = std::make_shared<ConvertCommand>();
  ConvertOptions& options = convert->options;
  command->heading("Input");
  command
      ->add_option("--input", convert->inputs,
                   "Files to convert, patterns such as 'results/*.json', or folders of them. Formats are recognised")
      ->type_name("FILE")
      ->required();
  std::vector<std::string> from, to;
  for (const InputFormat& format : input_formats()) from.emplace_back(format.name);
  for (const OutputFormat& format : output_formats()) to.emplace_back(format.name);
  one_of(command->add_option("--from", options.from, "Format of the files (default: detected)"), from)
      ->type_name("FORMAT");
  command
      ->add_option("--images", convert->images,
                   "Folder of the pages' pictures (default: beside the files, or in images/ or image/ there)")
      ->type_name("DIR");
  command
      ->add_option("--predictions", convert->predictions,
                   "Output of predict for the same pages: its labels are written beside those of the data")
      ->type_name("FILE");
  one_of(command->add_option("--box-format", convert->box_format,
                             "Unit of the boxes of pages: pixel, or 1000 (0 to 1000 from edge to edge)"),
         {"pixel", "1000"})
      ->type_name("FORMAT")
      ->capture_default_str();
  number(command->add_option("--dpi", options.dpi,
                             "Pixels per inch, if boxes are in inches or millimetres and a page has no picture"),
         1, 10000)
      ->capture_default_str();
  number(command->add_option("--min-confidence", options.least_confidence,
                             "Leave out words that were read with less confidence, 0 to 1, whatever the file's unit"),
         0, 1)
      ->capture_default_str();
  command->add_flag("--segment-boxes", options.segment_boxes,
                    "Each word gets the box of its line or field, as LayoutLMv3 was pretrained");
  command
      ->add_option("--labels", convert->labels,
                   "Label names, separated by commas or in a file: to name labels that are numbers, and to add labels "
                   "that no page has yet to the labelling configuration")
      ->type_name("NAMES");
  command->heading("Output");
  add_output_file(command, "--output", convert->output, "File to write")->required();
  one_of(command->add_option("--to", options.to, "The format to write"), to)
      ->type_name("FORMAT")
      ->capture_default_str();
  command
      ->add_option("--label-config", convert->label_config,
                   "Label Studio's labelling configuration to write (default: OUTPUT with the ending .config.xml)")
      ->type_name("FILE");
  command
      ->add_option("--image-url", options.image_url,
                   "Prefix of picture paths, which are relative to the output's folder, in Label Studio's tasks")
      ->type_name("PREFIX")
      ->capture_default_str();
  command
      ->add_option("--model-version", options.model_version,
                   "Model version that Label Studio shows for the predictions")
      ->type_name("NAME")
      ->capture_default_str();
  command->footer(footer());
  command->callback(
      [&invocation, convert] { invocation.action = [&invocation, convert] { run_convert(invocation, *convert); }; });
}

}  // namespace plimsoll
