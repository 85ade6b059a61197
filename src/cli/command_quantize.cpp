#include <fmt/format.h>

#include <memory>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "bundle/model_place.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "compress/quantize.h"
#include "tensor/block_code.h"

namespace plimsoll {
namespace {

struct QuantizeCommand {
  RunOptions run;
  std::string output_dir;
  bool use_double_quant = false;
};

void refuse_unsuitable(const ModelBundle& bundle) {
  if (bundle.options.lora.enabled()) {
    throw UsageError({.what = "an adapter's weights stay floats; those of its base can be quantized",
                      .where = "--model",
                      .found = bundle.origin,
                      .allowed = "a model directory with all its weights",
                      .remedy = "merge the adapter first: plimsoll merge --adapter DIR --output-dir MERGED"});
  }
  if (bundle.quantized) {
    throw UsageError({.what = "the model's weights are quantized already",
                      .where = "--model",
                      .found = bundle.origin,
                      .allowed = "weights of F32, F16 or BF16",
                      .remedy = "use the model as it is, or quantize the one that it was made from"});
  }
}

void run_quantize(Invocation& invocation, QuantizeCommand& typed) {
  refuse_replacing({{"--output-dir", typed.output_dir}}, typed.run.inputs());
  refuse_unfinished_run(typed.run.model.model);
  const ModelBundle bundle = open_trained_model(typed.run.model.model, typed.run.model.tokenizer);
  refuse_unsuitable(bundle);
  check_weights(bundle);
  verify_weights(bundle);
  const QuantizedModel quantized(bundle, typed.use_double_quant);
  if (quantized.matrices() == 0) {
    throw UsageError({.what = "the model has no weight matrix that can be quantized",
                      .where = "--model",
                      .found = bundle.origin,
                      .allowed = "linear layers of the encoder whose inputs are a multiple of 64"});
  }
  const ModelDirectory directory(typed.output_dir, "--output-dir");
  write_model(typed.output_dir, [&](const std::filesystem::path& aside) { return quantized.save(aside); });
  if (invocation.json) {
    return print_json({{"matrices", quantized.matrices()},
                       {"matrices_in_floats", quantized.kept()},
                       {"bytes_before", quantized.bytes_before()},
                       {"bytes", quantized.bytes()},
                       {"output_dir", typed.output_dir}});
  }
  print_line(fmt::format("{} in 4 bits; {} of weights instead of {}, written to {}",
                         counted(quantized.matrices(), "weight matrix", "weight matrices"),
                         format_bytes(quantized.bytes()), format_bytes(quantized.bytes_before()), typed.output_dir));
  if (const auto& kept = quantized.kept(); !kept.empty()) {
    print_line(
        fmt::format("{} in floats, because the inputs are not a multiple of {}; the first is {}",
                    counted(kept.size(), "weight matrix of the encoder stays", "weight matrices of the encoder stay"),
                    kCodeBlock, kept.front()));
  }
}

}  // namespace

void add_quantize(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "quantize", "Store a model's weights in 4 bits, in bitsandbytes' format");
  auto options = std::make_shared<QuantizeCommand>();
  add_model_options(command, options->run, false);
  command->heading("Quantization");
  command->add_flag("--bnb-4bit-use-double-quant", options->use_double_quant,
                    "Quantize the blocks' scale factors too, which saves 0.37 bits per weight");
  command->heading("Output");
  command->add_option("--output-dir", options->output_dir, "Hugging Face model directory to write")
      ->type_name("DIR")
      ->required();
  command->footer(
      "The encoder's weight matrices become NormalFloat (nf4) in blocks of 64, as in QLoRA; embeddings, norms and\n"
      "heads are unchanged. `transformers` can load the directory with bitsandbytes. Plimsoll keeps these\n"
      "weights in 4 bits, as in the file, wherever they do not train:\n"
      "\n"
      "  plimsoll quantize --model llama --output-dir llama-4bit\n"
      "  plimsoll train --model llama-4bit --lora-rank 16 --data train.jsonl --output-dir adapter");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_quantize(invocation, *options); }; });
}

}  // namespace plimsoll
