#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "train/model_bundle.h"

namespace plimsoll {
namespace {

struct InitOptions {
  std::string model, tokenizer, labels, output_dir;
  std::uint64_t seed = 42;
};

void run_init(const Invocation& invocation, const InitOptions& options) {
  ModelBundle bundle = open_model(options.model, options.tokenizer);
  if (!options.labels.empty()) set_labels(bundle, LabelSet::parse(options.labels));
  std::filesystem::create_directories(options.output_dir);
  std::map<std::string, std::vector<float>> values;
  for (const ParameterSpec& spec : bundle.specs()) {
    values[spec.name].resize(static_cast<std::size_t>(spec.shape.elements()));
  }
  const ParameterMemory memory = [&](const std::string& name) { return std::span<float>(values.at(name)); };
  load_model(bundle, options.seed, memory);
  save_model(options.output_dir, bundle, memory);
  const std::int64_t count = parameter_count(bundle.specs());
  if (invocation.json) return print_json({{"parameters", count}, {"output_dir", options.output_dir}});
  print_line(fmt::format("{} parameters, {} labels, written to {}", count, bundle.config.num_labels(), options.output_dir));
}

}  // namespace

void add_init(CLI::App& app, Invocation& invocation) {
  CLI::App* command = add_command(app, invocation, "init", "Write a model as training would start from it");
  auto options = std::make_shared<InitOptions>();
  command->add_option("--model", options->model, "A preset, or a model directory that gets a new head")->required();
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json or a directory, in place of the model's own");
  command->add_option("--labels", options->labels, "Label names, comma separated or in a file");
  command->add_option("--seed", options->seed, "Fixes the fresh weights")->capture_default_str();
  command->add_option("--output-dir", options->output_dir, "Where the Hugging Face model directory goes")->required();
  command->callback([&invocation, options] {
    invocation.action = [&invocation, options] { run_init(invocation, *options); };
  });
}

}  // namespace plimsoll
