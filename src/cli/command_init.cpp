#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "bundle/model_bundle.h"
#include "bundle/model_place.h"
#include "cli/command.h"
#include "cli/first_lines.h"
#include "cli/outputs.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "compress/fewer_layers.h"

namespace plimsoll {
namespace {

struct InitOptions {
  std::string model, tokenizer, labels, task, problem_type, output_dir;
  std::uint64_t seed = 42;
  std::int64_t layers = 0;  // 0: as many as the model has
};

void run_init(const Invocation& invocation, const InitOptions& options) {
  refuse_unfinished_run(options.model);
  ModelBundle bundle = open_model(options.model, options.tokenizer);
  refuse_replacing(
      {{"--output-dir", options.output_dir}},
      {{"--model", options.model}, {"the adapter's base model", bundle.base}, {"--tokenizer", options.tokenizer}});
  set_task(bundle, options.task, options.problem_type);
  if (!options.labels.empty()) set_typed_labels(bundle, options.labels);
  check_head(bundle);
  if (options.layers > layer_count(bundle)) {
    throw UsageError({.what = "the model has fewer layers",
                      .where = "--num-hidden-layers",
                      .found = fmt::format("{}", options.layers),
                      .allowed = fmt::format("1 to {}", layer_count(bundle)),
                      .remedy = "omit it to keep all layers"});
  }
  const ModelDirectory directory(options.output_dir, "--output-dir");
  std::map<std::string, std::vector<float>> values;
  for (const ParameterSpec& spec : bundle.specs()) {
    values[spec.name].resize(static_cast<std::size_t>(spec.shape.elements()));
  }
  const ParameterMemory memory = [&](const std::string& name) { return std::span<float>(values.at(name)); };
  load_model(bundle, options.seed, memory);
  const std::int64_t all = layer_count(bundle), layers = options.layers == 0 ? all : options.layers;
  const FewerLayers written = with_layers(bundle, spaced_layers(layers, all));
  const ParameterMemory chosen = [&](const std::string& name) { return memory(written.sources.at(name)); };
  write_model(options.output_dir,
              [&](const std::filesystem::path& aside) { return save_model(aside, written.bundle, {}, chosen); });
  const std::int64_t count = parameter_count(written.bundle.specs());
  if (invocation.json) return print_json({{"parameters", count}, {"output_dir", options.output_dir}});
  if (const std::string line = weights_line(bundle); !line.empty()) print_line(line);
  print_line(fmt::format("{}{}, written to {}", counted(count, "parameter"), labels_text(bundle), options.output_dir));
}

}  // namespace

void add_init(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "init", "Create a model directory to train from");
  auto options = std::make_shared<InitOptions>();
  command->heading("Model");
  command
      ->add_option("--model", options->model,
                   fmt::format("Preset with random weights ({}), or a model directory that gets a new head",
                               fmt::join(preset_names(), ", ")))
      ->type_name("MODEL")
      ->required();
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json or its directory, instead of the model's own")
      ->type_name("PATH");
  add_task_options(command, options->task, options->problem_type);
  command->add_option("--labels", options->labels, "Label names in order, separated by commas or in a file")
      ->type_name("NAMES");
  whole_number(command->add_option("--seed", options->seed, "Random seed of the new weights"), 0)
      ->capture_default_str();
  whole_number(command->add_option("--num-hidden-layers", options->layers,
                                   "Keep this many of the model's layers, evenly spaced and including the last: a "
                                   "student for train --distil-from (0: all)"),
               0, 10000)
      ->capture_default_str();
  command->add_option("--output-dir", options->output_dir, "Hugging Face model directory to write")
      ->type_name("DIR")
      ->required();
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_init(invocation, *options); }; });
}

}  // namespace plimsoll
