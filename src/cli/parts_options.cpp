// The options that say which parts of a model train: frozen parameters, low-rank adapters, weights in 8 or 4 bits.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/error.h"
#include "cli/run_options.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

void add_code_options(Command* command, RunOptions& o) {
  command->add_flag("--load-in-8bit", o.load_in_8bit,
                    "Store the encoder's frozen weights in 8 bits, in blocks of 64 (with --lora-rank or --freeze)");
  command->add_flag("--load-in-4bit", o.load_in_4bit, "Store them in 4 bits: NormalFloat (nf4), as in QLoRA");
}

void add_lora_rank_option(Command* command, RunOptions& o) {
  whole_number(command->add_option("--lora-rank", o.parts.lora_rank,
                                   "Train LoRA adapters of this rank and the classification head; everything else is "
                                   "frozen, and --output-dir gets an adapter in PEFT's format (0: no adapters)"),
               0, 4096)
      ->capture_default_str();
}

LoraPatterns patterns_in(const std::string& option, const std::vector<std::string>& texts) {
  LoraPatterns patterns;
  for (const std::string& text : texts) {
    std::ranges::move(numbers_in(option, text, "query=4,layer.0.output.dense=16"), std::back_inserter(patterns));
  }
  return patterns;
}

// Parses "0,2" or "[0, 2]".
std::vector<std::int64_t> layers_in(std::string text) {
  std::vector<std::int64_t> layers;
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  for (const std::string& part : names_in(text)) {
    std::int64_t layer = -1;
    const char* const end = part.data() + part.size();
    if (std::from_chars(part.data(), end, layer).ptr != end || layer < 0) {
      throw bad_value("--layers-to-transform", part, "numbers of layers from 0, separated by commas");
    }
    layers.push_back(layer);
  }
  return layers;
}

void add_adapter_options(Command* command, RunOptions& o) {
  PartsRequest& p = o.parts;
  add_lora_rank_option(command, o);
  number(command->add_option("--lora-alpha", p.lora_alpha,
                             "LoRA's alpha: adapters are scaled by alpha / rank (default: twice the rank)"),
         0, 1e6, true);
  number(command->add_option("--lora-dropout", p.lora_dropout, "Dropout on the input of adapters"), 0, 0.99)
      ->capture_default_str();
  command
      ->add_option(
          "--lora-target-modules", o.lora_targets,
          "Linear layers that get adapters, separated by commas, by the end of their names: query, key, "
          "value, attention.output.dense, intermediate.dense, output.dense (which matches both of a layer's), of "
          "decoders q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, "
          "or patterns as in --freeze (default: all of them)")
      ->type_name("LIST");
  command
      ->add_option("--exclude-modules", o.lora_excluded,
                   "Linear layers that get no adapter although --lora-target-modules names them, in the same way")
      ->type_name("LIST");
  command
      ->add_option("--layers-to-transform", o.lora_layers,
                   "Numbers of the encoder's layers that get adapters, from 0, separated by commas (default: all)")
      ->type_name("LIST");
  command
      ->add_option(
          "--modules-to-save", o.saved_modules,
          "Modules that train in full besides the adapters and are saved with them, separated by commas, by the "
          "end of their names, such as LayerNorm or layer.11. Linear layers within them get no adapter; the "
          "head is trained and saved in any case")
      ->type_name("LIST");
  command->add_flag("--use-rslora", p.lora_rslora, "Scale adapters by alpha / sqrt(rank) (rank-stabilized LoRA)");
  command->add_flag("--use-dora", p.lora_dora,
                    "Also train a magnitude for each row of an adapted weight, whose direction the adapter changes "
                    "(weight-decomposed adapters, DoRA): slower, often better at small ranks");
  command
      ->add_option("--rank-pattern", o.rank_patterns,
                   "Other ranks for some linear layers, PATTERN=RANK, separated by commas, or a JSON object. As in "
                   "PEFT a pattern is a regular expression for a module's name or for what follows a dot in it, and "
                   "the first that matches counts: 'layer.0.output.dense=16,query=4'. May be given several times")
      ->type_name("PATTERNS")
      ->repeatable();
  command
      ->add_option("--alpha-pattern", o.alpha_patterns,
                   "Other values of --lora-alpha for some linear layers, in the same way")
      ->type_name("PATTERNS")
      ->repeatable();
}

}  // namespace

void add_parts_options(Command* command, RunOptions& o) {
  command->heading("Trained parameters");
  command
      ->add_option("--freeze", o.freeze,
                   "Parameters that are not trained: a pattern for whole Hugging Face names, where * is any text (dots "
                   "too), ? one character, [0-5] one of a set; such as 'layoutlmv3.embeddings.*' or "
                   "'layoutlmv3.encoder.layer.[0-5].*'. May be given several times, or as a list with commas. Frozen "
                   "parameters have no gradient and no optimizer state")
      ->type_name("PATTERN")
      ->repeatable();
  add_adapter_options(command, o);
  add_code_options(command, o);
}

void add_bench_parts_options(Command* command, RunOptions& o) {
  add_lora_rank_option(command, o);
  add_code_options(command, o);
}

void add_quantization_options(Command* command, RunOptions& o) {
  o.memory.may_quantize = true;
  command->add_flag("--bf16", o.precision.bf16,
                    "Compute in bfloat16 and keep weight matrices in it, in half the memory; scores differ a little");
  command->add_flag("--load-in-8bit", o.load_in_8bit,
                    "Hold the encoder's weights in 8 bits, in blocks of 64, and multiply in 8 bits where that is "
                    "faster (AVX512_VNNI)");
  command->add_flag("--load-in-4bit", o.load_in_4bit,
                    "Hold the encoder's weights in 4 bits: NormalFloat (nf4), as in QLoRA");
  command->add_flag(
      "--float-activations", o.float_activations,
      "With --load-in-8bit or --load-in-4bit: quantize only the weights, and multiply in F32 on every machine");
}

DType coded_weights(const RunOptions& options) {
  if (options.load_in_8bit && options.load_in_4bit) {
    throw UsageError({.what = "8-bit and 4-bit weights are both requested",
                      .where = "--load-in-8bit, --load-in-4bit",
                      .found = "both",
                      .allowed = "only one of them"});
  }
  return options.load_in_8bit ? DType::kQ8 : options.load_in_4bit ? DType::kNF4 : DType::kF32;
}

void RunOptions::resolve_parts() {
  const std::pair<const char*, bool> needing_rank[] = {{"--lora-alpha", parts.lora_alpha > 0},
                                                       {"--lora-dropout", parts.lora_dropout > 0},
                                                       {"--lora-target-modules", !lora_targets.empty()},
                                                       {"--exclude-modules", !lora_excluded.empty()},
                                                       {"--layers-to-transform", !lora_layers.empty()},
                                                       {"--use-rslora", parts.lora_rslora},
                                                       {"--use-dora", parts.lora_dora},
                                                       {"--modules-to-save", !saved_modules.empty()},
                                                       {"--rank-pattern", !rank_patterns.empty()},
                                                       {"--alpha-pattern", !alpha_patterns.empty()}};
  for (const auto& [option, asked] : needing_rank) {
    if (!asked || parts.lora_rank > 0) continue;
    throw UsageError({.what = "an adapter option needs --lora-rank",
                      .where = option,
                      .found = "no --lora-rank",
                      .allowed = "--lora-rank of 1 or more",
                      .remedy = "pass --lora-rank 8, or omit the option"});
  }
  parts.frozen_weights = coded_weights(*this);
  parts.lora_targets = names_in(lora_targets);
  parts.lora_excluded = names_in(lora_excluded);
  parts.saved_modules = names_in(saved_modules);
  parts.lora_layers = layers_in(lora_layers);
  parts.rank_pattern = patterns_in("--rank-pattern", rank_patterns);
  parts.alpha_pattern = patterns_in("--alpha-pattern", alpha_patterns);
  parts.freeze.clear();
  for (const std::string& pattern : freeze) {
    for (std::string& name : names_in(pattern)) parts.freeze.push_back(std::move(name));
  }
}

}  // namespace plimsoll
