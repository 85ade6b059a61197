#include <fmt/format.h>

#include "base/counted.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/outputs.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "train/gradients.h"

namespace plimsoll {
namespace {

struct GradOptions {
  std::string model, base_model, batch, output;
  DeviceOptions device;
  bool train_tables = false;
  PrecisionOptions precision;
};

void run_grad(const Invocation& invocation, const GradOptions& options) {
  refuse_replacing({{"--output", options.output}},
                   {{"--batch", options.batch}, {"--model", options.model}, {"--base-model", options.base_model}});
  const Device device = open_device(invocation, options.device);
  // Gradients need only config and weights, so the directory need not have a tokenizer.
  const ModelBundle bundle = open_weights_only(options.model, options.base_model);
  check_weights(bundle, MissingHead::kRefused);
  const GradientReport report = compute_gradients(
      bundle, options.batch, options.output, *device.backend,
      {.train_relative_position_tables = options.train_tables, .precision = options.precision.resolve()});
  if (invocation.json) {
    return print_json({{"loss", report.loss},
                       {"samples", report.samples},
                       {"tokens", report.tokens},
                       {"loss_terms", report.loss_terms},
                       {"gradients", report.parameters},
                       {"output", options.output}});
  }
  print_line(fmt::format("loss {:.7f} over {} ({} of {}); logits and {} in {}", report.loss,
                         counted(report.loss_terms, "labelled token"), counted(report.samples, "sample"),
                         counted(report.tokens, "token"), counted(report.parameters, "gradient"), options.output));
}

}  // namespace

void add_grad(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "grad",
                  "Compute loss, logits and gradients of a batch without dropout, to compare with other programs");
  auto options = std::make_shared<GradOptions>();
  command->heading("Numbers");
  command->add_option("--model", options->model, "Hugging Face model directory, or a preset")
      ->type_name("MODEL")
      ->required();
  command
      ->add_option(
          "--base-model", options->base_model,
          "Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)")
      ->type_name("DIR");
  command
      ->add_option("--batch", options->batch,
                   "input_ids, bbox, pixel_values and optionally attention_mask, position_ids, token_type_ids, and the "
                   "targets (labels; start_positions, end_positions; entity_tokens, entity_labels, link_labels), with "
                   "the shapes of transformers: safetensors, .npz, or a folder of .npy files")
      ->type_name("FILE")
      ->required();
  add_output_file(
      command, "--output", options->output,
      "safetensors file with loss, logits, and the gradient of every trained parameter under its Hugging Face name")
      ->required();
  add_device_option(command, options->device);
  add_backend_option(command, options->device);
  command->add_flag(
      "--train-relative-position-tables", options->train_tables,
      "Also compute gradients of the relative position tables, which unilm trains and transformers does not");
  add_precision_options(command, options->precision);
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_grad(invocation, *options); }; });
}

}  // namespace plimsoll
