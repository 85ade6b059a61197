#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/work_folder.h"
#include "bundle/model_bundle.h"
#include "bundle/model_place.h"
#include "cli/command.h"
#include "cli/first_lines.h"
#include "cli/outputs.h"
#include "cli/run_options.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

struct InitOptions {
  std::string model, tokenizer, labels, task, problem_type, output_dir;
  std::uint64_t seed = 42;
};

void run_init(const Invocation& invocation, const InitOptions& options) {
  ModelBundle bundle = open_model(options.model, options.tokenizer);
  refuse_replacing(
      {{"--output-dir", options.output_dir}},
      {{"--model", options.model}, {"the adapter's base model", bundle.base}, {"--tokenizer", options.tokenizer}});
  set_task(bundle, options.task, options.problem_type);
  if (!options.labels.empty()) set_labels(bundle, LabelSet::parse(options.labels));
  check_head(bundle);
  make_model_directory(options.output_dir, "--output-dir");
  const DirectoryLock lock(options.output_dir, "--output-dir");
  std::map<std::string, std::vector<float>> values;
  for (const ParameterSpec& spec : bundle.specs()) {
    values[spec.name].resize(static_cast<std::size_t>(spec.shape.elements()));
  }
  const ParameterMemory memory = [&](const std::string& name) { return std::span<float>(values.at(name)); };
  load_model(bundle, options.seed, memory);
  write_model(options.output_dir,
              [&](const std::filesystem::path& aside) { return save_model(aside, bundle, {}, memory); });
  const std::int64_t count = parameter_count(bundle.specs());
  if (invocation.json) return print_json({{"parameters", count}, {"output_dir", options.output_dir}});
  if (const std::string line = weights_line(bundle); !line.empty()) print_line(line);
  print_line(fmt::format("{}, {}, written to {}", counted(count, "parameter"),
                         counted(bundle.config.task.num_labels(), "label"), options.output_dir));
}

}  // namespace

void add_init(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "init", "Write a new model directory for training to start from");
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
  command->add_option("--output-dir", options->output_dir, "Hugging Face model directory to write")
      ->type_name("DIR")
      ->required();
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_init(invocation, *options); }; });
}

}  // namespace plimsoll
