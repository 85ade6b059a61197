#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "bundle/adapter.h"
#include "bundle/model_place.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/usage.h"
#include "tensor/dtype.h"

namespace plimsoll {
namespace {

struct MergeOptions {
  std::string adapter, model, tokenizer, output_dir;
  std::string dtype = "float32";
};

DType type_of(const MergeOptions& options) {
  return options.dtype == "bfloat16" ? DType::kBF16 : options.dtype == "float16" ? DType::kF16 : DType::kF32;
}

void run_merge(const Invocation& invocation, const MergeOptions& options) {
  if (!is_adapter(model_place(options.adapter))) {
    throw UsageError({.what = "not an adapter directory",
                      .where = "--adapter",
                      .found = options.adapter,
                      .allowed = "a directory with adapter_config.json, written by train --lora-rank or PEFT",
                      .remedy = "a whole model needs no merging"});
  }
  const ModelBundle bundle = open_model(options.adapter, options.tokenizer, options.model);
  refuse_replacing({{"--output-dir", options.output_dir}},
                   {{"--adapter", options.adapter}, {"--model", bundle.base}, {"--tokenizer", options.tokenizer}});
  check_weights(bundle, MissingHead::kRefused);
  const ModelDirectory directory(options.output_dir, "--output-dir");
  write_model(options.output_dir,
              [&](const std::filesystem::path& aside) { return merge_adapter(aside, bundle, type_of(options)); });
  const LoraOptions& lora = bundle.options.lora;
  if (invocation.json) {
    return print_json({{"base_model", bundle.base},
                       {"adapter", options.adapter},
                       {"rank", lora.rank},
                       {"modules", lora.modules.size()},
                       {"dtype", options.dtype},
                       {"output_dir", options.output_dir}});
  }
  print_line(fmt::format("{} of rank {} merged into {}, written to {}", counted(lora.modules.size(), "adapter"),
                         lora.rank, bundle.base, options.output_dir));
}

}  // namespace

void add_merge(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "merge", "Merge an adapter into its base model");
  auto options = std::make_shared<MergeOptions>();
  command->heading("Model");
  command->add_option("--adapter", options->adapter, "Adapter directory written by train --lora-rank or PEFT")
      ->type_name("DIR")
      ->required();
  command->add_option("--model", options->model, "Base model directory (default: the one named in the adapter)")
      ->type_name("DIR");
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json or its directory, instead of the model's own")
      ->type_name("PATH");
  command->add_option("--output-dir", options->output_dir, "Hugging Face model directory to write")
      ->type_name("DIR")
      ->required();
  one_of(command->add_option("--dtype", options->dtype,
                             "Type of the weights that are written; bfloat16 and float16 take half the space, and are "
                             "less exact than base and adapter apart"),
         {"float32", "bfloat16", "float16"})
      ->type_name("TYPE")
      ->capture_default_str();
  command->footer(
      "W + scale B A, with DoRA's magnitudes, is computed in double and rounded to --dtype. The result needs\n"
      "neither adapter nor base, and transformers loads it.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_merge(invocation, *options); }; });
}

}  // namespace plimsoll
