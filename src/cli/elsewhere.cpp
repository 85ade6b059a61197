#include "cli/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/error.h"
#include "base/log.h"

namespace plimsoll {
namespace {

using Effect = ElsewhereOption::Effect;

constexpr std::string_view kOwnExchange = "what processes exchange is planned, and the first one writes";
constexpr std::string_view kLoaderThreads = "pages are loaded by threads that last as long as the run";
constexpr std::string_view kOwnMetrics = "metrics are the task's own, over whole pages";
constexpr std::string_view kOwnKernels = "kernels are Plimsoll's own";
constexpr std::string_view kLogsAlone = "it changes logs alone; --json has all that there is to log";
constexpr std::string_view kForPush = "nothing is uploaded";
constexpr std::string_view kForTrackers =
    "it is for experiment trackers, which the Python package's callbacks report to (docs/python.md)";
constexpr std::string_view kByLauncher =
    "omit it: mpirun or srun starts several processes, and --zero-stage says what each keeps (docs/scale.md)";
constexpr std::string_view kNoHub = "omit it: Plimsoll neither downloads nor uploads anything";
constexpr std::string_view kPlannedEvaluation = "the planner chooses how many pages are evaluated at once";
constexpr std::string_view kFullEvaluation = "omit it: evaluation runs in the precision of training";
constexpr std::string_view kLoraForm = "omit it: adapters are LoRA, rsLoRA or DoRA of linear layers, without bias";
constexpr std::string_view kFourBits =
    "omit it: --load-in-4bit is NormalFloat (nf4) in blocks of 64, with F32 scales and F32 arithmetic";
constexpr std::string_view kDoubleQuant =
    "omit it: a model in which scales are quantized too is written by plimsoll quantize, which has this option";
constexpr std::string_view kEightBits =
    "omit it: --load-in-8bit quantizes blocks of 64 weights, without outlier columns";
constexpr std::string_view kColumns =
    "rename the keys of the data: image, words, boxes, labels (bboxes, tokens and ner_tags are read too)";
constexpr std::string_view kFewerPages = "write a file with fewer pages: head -n 100 pages.jsonl > few.jsonl";
constexpr std::string_view kDataSet =
    "download it (hf download NAME --repo-type dataset --local-dir DIR), convert it (tools/convert_dataset.py --output "
    "pages DIR), and pass the JSONL file to --data";

constexpr ElsewhereOption kOptions[] = {
    // Usual short forms.
    {"--lr", "--learning-rate", {}},
    {"--lora", "--lora-rank", {}},
    {"--use-lora", "--lora-rank", {}},
    {"--freeze-layers", "--freeze", {}},
    {"--padding", "--pad-to-max-length", {}},
    {"--epoch", "--num-train-epochs", {}},
    {"--epochs", "--num-train-epochs", {}},
    {"--num-epochs", "--num-train-epochs", {}},
    {"--batch-size", "--train-batch-size --per-device-eval-batch-size", {}},
    {"--memory", "--budget", {}},
    {"--memory-budget", "--budget", {}},
    {"--max-memory", "--budget", {}},
    {"--steps", "--max-steps", {}},
    {"--scheduler", "--lr-scheduler-type", {}},
    {"--lr-scheduler", "--lr-scheduler-type", {}},
    {"--optimizer", "--optim", {}},
    {"--resume", "--resume-from-checkpoint", {}},
    {"--workers", "--dataloader-num-workers", {}},
    {"--num-workers", "--dataloader-num-workers", {}},
    {"--output", "--output-dir", {}},
    {"--output-dir", "--output", {}},
    {"--output-file", "--output", {}},
    {"--dataset", "--data", {}},
    {"--train", "--data", {}},
    {"--train-data", "--data", {}},
    {"--test", "--data", {}},
    {"--eval", "--eval-data --data", {}},
    {"--validation", "--eval-data --data", {}},
    {"--input", "--data", {}},
    {"--data", "--input", {}},
    {"--test-data", "--data", {}},
    {"--num-threads", "--threads", {}},
    // TrainingArguments of transformers 5.17. Options with the same name and the same meaning here are not listed.
    {"--accelerator-config",
     {},
     "pages are dealt so that processes have equal work",
     Effect::kAny,
     R"({"dispatch_batches":null,"even_batches":true,"gradient_accumulation_kwargs":null,"non_blocking":false,)"
     R"("split_batches":false,"use_seedable_sampler":true})"},
    {"--auto-find-batch-size", {}, "the planner always splits an update to fit the budget", Effect::kAny},
    {"--average-tokens-across-devices", {}, "losses are divided by the tokens of all processes", Effect::kAny, "true"},
    {"--batch-eval-metrics", {}, kOwnMetrics, Effect::kAny},
    {"--bf16-full-eval", {}, kFullEvaluation, Effect::kUsual},
    {"--dataloader-in-order", {}, "batches always come in order", Effect::kAny, "true"},
    {"--dataloader-multiprocessing-context", {}, kLoaderThreads, Effect::kAny},
    {"--dataloader-persistent-workers", {}, kLoaderThreads, Effect::kAny},
    {"--dataloader-pin-memory", {}, "buffers are planned, and pinned where the device needs it", Effect::kAny, "true"},
    {"--dataloader-prefetch-factor", {}, "the plan says how many batches are loaded ahead", Effect::kAny},
    {"--ddp-backend", {}, kOwnExchange, Effect::kAny},
    {"--ddp-broadcast-buffers", {}, kOwnExchange, Effect::kAny},
    {"--ddp-find-unused-parameters", {}, kOwnExchange, Effect::kAny},
    {"--ddp-static-graph", {}, kOwnExchange, Effect::kAny},
    {"--ddp-timeout", {}, "--timeout says when a process that says nothing counts as failed", Effect::kAny, "1800"},
    {"--debug", {}, "omit it: --detect-anomaly looks for NaN and infinities in every op", Effect::kUsual},
    {"--deepspeed",
     {},
     "omit it: --zero-stage says what each of several processes keeps, --offload DIR moves states, activations and "
     "weights to "
     "disk",
     Effect::kUsual},
    {"--disable-tqdm", {}, "the progress bar is shown only on a terminal, and not with --json", Effect::kAny},
    {"--do-eval", {}, "train evaluates on --eval-data, and plimsoll eval is a separate command", Effect::kAny},
    {"--do-predict", {}, "plimsoll predict is a separate command", Effect::kAny},
    {"--do-train", {}, "the command says what is done", Effect::kAny},
    {"--enable-jit-checkpoint", {}, "SIGTERM always saves a checkpoint", Effect::kAny},
    {"--eval-accumulation-steps", {}, kPlannedEvaluation, Effect::kAny},
    {"--eval-do-concat-batches", {}, kOwnMetrics, Effect::kAny, "true"},
    {"--eval-use-gather-object", {}, kOwnExchange, Effect::kAny},
    {"--fp16-full-eval", {}, kFullEvaluation, Effect::kUsual},
    {"--fsdp", {}, "omit it: --zero-stage says what each of several processes keeps", Effect::kUsual},
    {"--fsdp-config", {}, "it is for --fsdp alone", Effect::kAny},
    {"--full-determinism", {}, "runs always repeat bit for bit", Effect::kAny},
    {"--gradient-checkpointing-kwargs",
     {},
     "recomputed activations are the same bits, however they are recomputed",
     Effect::kAny},
    {"--hub-always-push", {}, kForPush, Effect::kAny},
    {"--hub-model-id", {}, kForPush, Effect::kAny},
    {"--hub-private-repo", {}, kForPush, Effect::kAny},
    {"--hub-revision", {}, kForPush, Effect::kAny},
    {"--hub-strategy", {}, kForPush, Effect::kAny, "every_save"},
    {"--hub-token", {}, kForPush, Effect::kAny, "<hub_token>"},
    {"--ignore-data-skip",
     {},
     "omit it: a resumed run continues within an epoch, without reading the data again",
     Effect::kUsual},
    {"--include-for-metrics", {}, kOwnMetrics, Effect::kAny},
    {"--include-num-input-tokens-seen", {}, kLogsAlone, Effect::kAny},
    {"--label-names",
     {},
     "omit it: the names of labels are --labels, their key in the data is labels or ner_tags",
     Effect::kUsual,
     "labels"},
    {"--length-column-name", {}, "omit it: lengths are counted in tokens", Effect::kUsual, "length"},
    {"--liger-kernel-config", {}, kOwnKernels, Effect::kAny},
    {"--local-rank", {}, kByLauncher, Effect::kUsual},
    {"--log-level", {}, kLogsAlone, Effect::kAny, "passive"},
    {"--log-level-replica", {}, kLogsAlone, Effect::kAny, "warning"},
    {"--log-on-each-node", {}, kOwnExchange, Effect::kAny, "true"},
    {"--logging-nan-inf-filter",
     {},
     "logs say what happened; --on-nonfinite says what to do about it",
     Effect::kAny,
     "true"},
    {"--neftune-noise-alpha", {}, "omit it: embeddings get no noise beside dropout", Effect::kUsual},
    {"--optim-args", {}, "omit it: AdamW has --adam-beta1, --adam-beta2 and --adam-epsilon", Effect::kUsual},
    {"--optim-target-modules", {}, "omit it: it is for GaLore and APOLLO, which Plimsoll lacks", Effect::kUsual},
    {"--parallelism-config", {}, kByLauncher, Effect::kUsual},
    {"--per-device-eval-batch-size", {}, kPlannedEvaluation, Effect::kAny, "8"},
    {"--prediction-loss-only", {}, "metrics cost nothing beside the loss, and are always computed", Effect::kAny},
    {"--project", {}, kForTrackers, Effect::kAny, "huggingface"},
    {"--push-to-hub", {}, kNoHub, Effect::kUsual},
    {"--remove-unused-columns", {}, "unknown keys of the data are ignored", Effect::kAny, "true"},
    {"--restore-callback-states-from-checkpoint",
     {},
     "callbacks run in the Python package, and keep their own state",
     Effect::kAny},
    {"--run-name", {}, kForTrackers, Effect::kAny},
    {"--save-on-each-node", {}, kOwnExchange, Effect::kAny},
    {"--skip-memory-metrics", {}, "memory is always measured, and compared with the plan", Effect::kAny, "true"},
    {"--tf32", {}, "omit it: F32 products are exact; pass --bf16 for faster ones", Effect::kUsual},
    {"--torch-compile", {}, "every step runs as a fixed plan", Effect::kAny},
    {"--torch-compile-backend", {}, "every step runs as a fixed plan", Effect::kAny},
    {"--torch-compile-mode", {}, "every step runs as a fixed plan", Effect::kAny},
    {"--torch-empty-cache-steps", {}, "nothing is allocated while training runs", Effect::kAny},
    {"--trackio-bucket-id", {}, kForTrackers, Effect::kAny},
    {"--trackio-space-id", {}, kForTrackers, Effect::kAny},
    {"--trackio-static-space-id", {}, kForTrackers, Effect::kAny},
    {"--use-cache", {}, "an encoder has no cache of keys and values", Effect::kAny},
    {"--use-cpu", {}, "--device is cpu unless --device cuda is given", Effect::kAny},
    {"--use-liger-kernel", {}, kOwnKernels, Effect::kAny},
    // From older versions of transformers.
    {"--adafactor", {}, "pass --optim adafactor", Effect::kUsual},
    {"--evaluation-strategy", "--eval-strategy", {}},
    {"--fp32", {}, "omit it: F32 is the precision unless --bf16 or --fp16 is given"},
    {"--fp16-backend", {}, "pass --fp16 or --bf16 alone", Effect::kUsual, "auto"},
    {"--fp16-opt-level", {}, "pass --fp16 or --bf16 alone", Effect::kUsual, "O1"},
    {"--fsdp-min-num-params", {}, kByLauncher, Effect::kUsual},
    {"--group-by-length", {}, "pass --train-sampling-strategy group_by_length", Effect::kUsual},
    {"--half-precision-backend", {}, "pass --fp16 or --bf16 alone", Effect::kUsual, "auto"},
    {"--include-inputs-for-metrics", {}, kOwnMetrics, Effect::kAny},
    {"--include-tokens-per-second", {}, kLogsAlone, Effect::kAny},
    {"--jit-mode-eval", {}, kOwnKernels, Effect::kAny},
    {"--mp-parameters", {}, kByLauncher, Effect::kUsual},
    {"--no-cuda", {}, "--device is cpu unless --device cuda is given", Effect::kAny},
    {"--overwrite-cache", {}, "omit it: --cache is rebuilt when data or options change"},
    {"--past-index", {}, {}, Effect::kUsual},
    {"--per-gpu-eval-batch-size", "--per-device-eval-batch-size", {}},
    {"--per-gpu-train-batch-size", "--per-device-train-batch-size", {}},
    {"--push-to-hub-model-id", {}, kForPush, Effect::kAny},
    {"--push-to-hub-organization", {}, kForPush, Effect::kAny},
    {"--push-to-hub-token", {}, kForPush, Effect::kAny},
    {"--ray-scope", {}, {}, Effect::kAny, "last"},
    {"--save-safetensors", {}, "models are always saved as safetensors", Effect::kAny, "true"},
    {"--sharded-ddp", {}, kByLauncher, Effect::kUsual},
    {"--torchdynamo", {}, "every step runs as a fixed plan", Effect::kAny},
    {"--tpu-metrics-debug", {}, kOwnExchange, Effect::kAny},
    {"--tpu-num-cores", {}, kOwnExchange, Effect::kAny},
    {"--use-ipex", {}, kOwnKernels, Effect::kAny},
    {"--use-legacy-prediction-loop", {}, kOwnMetrics, Effect::kAny},
    {"--use-mps-device", {}, "omit it: --device is cpu or cuda", Effect::kUsual},
    // The run_*.py scripts.
    {"--cache-dir", {}, kNoHub},
    {"--config-name", {}, "omit it: config.json is in the directory passed to --model"},
    {"--dataset-config-name", {}, kDataSet},
    {"--dataset-name", {}, kDataSet},
    {"--doc-stride", "--stride", {}},
    {"--ignore-mismatched-sizes", {}, "omit it: other labels always get a new head (--labels)"},
    {"--label-all-tokens", {}, "omit it: only a word's first token is labelled"},
    {"--label-column-name", {}, kColumns},
    {"--max-eval-samples", {}, kFewerPages},
    {"--max-predict-samples", {}, kFewerPages},
    {"--max-seq-length", "--max-length", {}},
    {"--max-train-samples", {}, kFewerPages},
    {"--model-name", "--model", {}},
    {"--model-name-or-path", "--model", {}},
    {"--model-revision", {}, kNoHub},
    {"--preprocessing-num-workers", "--dataloader-num-workers", {}},
    {"--return-entity-level-metrics", {}, "omit it: scores of each label are always printed"},
    {"--segment-level-layout", "--segment-boxes", {}},
    {"--task-name", {}, {}},
    {"--test-file", "--data", {}},
    {"--text-column-name", {}, kColumns},
    {"--token", {}, kNoHub},
    {"--tokenizer-name", "--tokenizer", {}},
    {"--train-file", "--data", {}},
    {"--trust-remote-code", {}, "omit it: Plimsoll never runs code from a model's directory"},
    {"--use-auth-token", {}, kNoHub},
    {"--validation-file", "--eval-data --data", {}},
    // TRL's SFTConfig.
    {"--assistant-only-loss",
     {},
     "omit it: of a conversation the assistant's turns are learnt, and nothing else",
     Effect::kUsual,
     "true"},
    {"--completion-only-loss",
     {},
     "omit it: of a prompt and its completion the completion is learnt, and nothing else",
     Effect::kUsual,
     "true"},
    {"--activation-offloading", {}, "omit it: the plan recomputes what the budget has no room for", Effect::kUsual},
    {"--chat-template-path",
     {},
     "put the template beside the model's tokenizer, as chat_template.jinja",
     Effect::kUsual},
    {"--dataset-kwargs", {}, "omit it: data are read as docs/data.md says", Effect::kUsual},
    {"--dataset-num-proc", {}, "pages are read by --dataloader-num-workers threads", Effect::kAny},
    {"--dataset-text-field", {}, "rename the key to `text` in the data", Effect::kUsual, "text"},
    {"--eos-token", {}, "set eos_token in the model's tokenizer_config.json", Effect::kUsual},
    {"--eval-packing", {}, "micro-batches hold the tokens of their texts and no padding", Effect::kAny},
    {"--loss-type",
     {},
     "omit it: the loss is the cross entropy, over the vocabulary in parts",
     Effect::kUsual,
     "nll chunked_nll"},
    {"--model-init-kwargs", {}, "omit it: config.json says what the model is", Effect::kUsual},
    {"--packing", {}, "omit it: micro-batches hold the tokens of their texts and no padding", Effect::kUsual},
    {"--packing-strategy", {}, "it is for --packing alone", Effect::kAny},
    {"--pad-to-multiple-of", {}, "nothing is padded", Effect::kAny},
    {"--pad-token", {}, "nothing is padded", Effect::kAny},
    {"--padding-free", {}, "nothing is padded", Effect::kAny},
    {"--router-aux-loss-coef", {}, "it is for mixtures of experts, of which no family is one", Effect::kAny},
    {"--shuffle-dataset", {}, "each epoch has an order of its own", Effect::kAny},
    {"--truncation-mode", "--truncate", {}, Effect::kUsual, "keep_start"},
    // Arguments of Trainer and SFTTrainer.
    {"--compute-metrics", {}, "omit it: each task has its metrics (docs/predictions.md); predict writes what others need"},
    {"--data-collator", {}, "omit it: pages become batches without padding"},
    {"--eval-dataset", "--eval-data", {}},
    {"--model-init", "--model", {}},
    {"--peft-config", {}, "pass its fields: --lora-rank for r, --lora-alpha, --lora-dropout, --lora-target-modules"},
    {"--processing-class", "--tokenizer", {}},
    {"--quantization-config", {}, "pass --load-in-4bit or --load-in-8bit"},
    {"--teacher-model", "--distil-from", {}},
    {"--teacher-model-name-or-path", "--distil-from", {}},
    {"--train-dataset", "--data", {}},
    // PEFT and bitsandbytes.
    {"--alora-invocation-tokens", {}, kLoraForm, Effect::kUsual},
    {"--arrow-config", {}, kLoraForm, Effect::kUsual},
    {"--auto-mapping", {}, "it is written into adapter_config.json as the model has it", Effect::kAny},
    {"--base-model-name-or-path", "--model", {}},
    {"--bias", {}, kLoraForm, Effect::kUsual},
    {"--bnb-4bit-compute-dtype", {}, kFourBits},
    {"--bnb-4bit-quant-storage", {}, kFourBits},
    {"--bnb-4bit-quant-type", {}, kFourBits},
    {"--bnb-4bit-use-double-quant", {}, kDoubleQuant},
    {"--corda-config", {}, kLoraForm, Effect::kUsual},
    {"--ensure-weight-tying", {}, "an embedding that is the head, too, is refused in --modules-to-save", Effect::kAny},
    {"--eva-config", {}, kLoraForm, Effect::kUsual},
    {"--fan-in-fan-out", {}, "it is written into adapter_config.json as the model has it", Effect::kAny},
    {"--inference-mode", {}, "train trains, and predict does not", Effect::kAny},
    {"--init-lora-weights", {}, kLoraForm, Effect::kUsual, "true"},
    {"--kasa-config", {}, kLoraForm, Effect::kUsual},
    {"--layer-replication", {}, kLoraForm, Effect::kUsual},
    {"--layers-pattern",
     {},
     "omit it: --layers-to-transform counts the encoder's layers, which are called layer",
     Effect::kUsual,
     "layer"},
    {"--llm-int8-enable-fp32-cpu-offload", {}, kEightBits},
    {"--llm-int8-has-fp16-weight", {}, kEightBits},
    {"--llm-int8-skip-modules", {}, kEightBits},
    {"--llm-int8-threshold", {}, kEightBits},
    {"--loftq-config", {}, kLoraForm, Effect::kUsual},
    {"--lora-bias", {}, kLoraForm, Effect::kUsual},
    {"--lora-ga-config", {}, kLoraForm, Effect::kUsual},
    {"--lora-r", "--lora-rank", {}},
    {"--megatron-config", {}, kByLauncher, Effect::kUsual},
    {"--megatron-core", {}, "it is for --megatron-config alone", Effect::kAny, "megatron.core"},
    {"--monteclora-config", {}, kLoraForm, Effect::kUsual},
    {"--peft-type", {}, "omit it: adapters are LoRA", Effect::kUsual, "LORA"},
    {"--peft-version", {}, "files have the form that PEFT 0.21 reads", Effect::kAny},
    {"--qalora-group-size", {}, "it is for --use-qalora alone", Effect::kAny},
    {"--r", "--lora-rank", {}},
    {"--revision", {}, kForPush, Effect::kAny},
    {"--runtime-config", {}, "it says how PEFT computes, not what", Effect::kAny},
    {"--target-modules", "--lora-target-modules", {}},
    {"--target-parameters", {}, kLoraForm, Effect::kUsual},
    {"--task-type", "--task", {}},
    {"--trainable-token-indices", {}, kLoraForm, Effect::kUsual},
    {"--use-bdlora", {}, kLoraForm, Effect::kUsual},
    {"--use-peft", "--lora-rank", {}},
    {"--use-qalora", {}, kLoraForm, Effect::kUsual},
    {"--velora-config", {}, kLoraForm, Effect::kUsual},
};

// Returns "False", "NONE" and "[]" as "false", "none" and "".
std::string plain(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c != '"' && c != '[' && c != ']' && c != '{' && c != '}' && c != ' ')
      text += static_cast<char>(std::tolower(c));
  }
  return text;
}

}  // namespace

bool ElsewhereOption::asks_for_nothing(std::string_view value) const {
  constexpr std::string_view kNothing[] = {"", "false", "no", "none", "null", "0", "0.0", "-1"};
  const std::string text = plain(value);
  if (usual == "true") return text.empty() || text == "true" || text == "none" || text == "null";
  if (std::ranges::find(kNothing, text) != std::end(kNothing)) return true;
  for (std::string_view rest = usual; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (text == plain(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

bool passes_over(std::string_view command, std::string_view name, std::string_view value, const std::string& where) {
  if (command != "train" && command != "plan") return false;
  const ElsewhereOption* const option = find_elsewhere(name);
  if (option == nullptr || option->effect == Effect::kRefused) return false;
  if (option->asks_for_nothing(value)) return true;
  if (option->effect == Effect::kAny) {
    log_info(fmt::format("{} {} changes nothing: {}", name, value, option->note));
    return true;
  }
  throw UsageError({.what = fmt::format("Plimsoll has nothing like {}, which would change the run", name),
                    .where = where,
                    .found = fmt::format("{} {}", name, value),
                    .allowed = fmt::format("{} {}, or nothing", name, option->usual.empty() ? "false" : option->usual),
                    .remedy = std::string(option->note)});
}

std::vector<std::string> without_elsewhere(const std::vector<std::string>& arguments, std::string_view command,
                                           const std::function<bool(const std::string& name)>& own) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(0, equals);
    if (!name.starts_with("--") || own(name) || find_elsewhere(name) == nullptr) {
      kept.push_back(argument);
      continue;
    }
    std::size_t last = i;  // the last of its values
    std::string value = equals < argument.size() ? argument.substr(equals + 1) : std::string();
    if (equals == argument.size()) {
      // "-1" is a value.
      const auto is_value = [](const std::string& text) { return !text.starts_with("--"); };
      for (; last + 1 < arguments.size() && is_value(arguments[last + 1]); ++last) {
        value += (value.empty() ? "" : " ") + arguments[last + 1];
      }
      if (last == i) value = "true";
    }
    if (passes_over(command, name, value, "command line")) {
      i = last;
    } else {
      kept.push_back(argument);
    }
  }
  return kept;
}

std::span<const ElsewhereOption> elsewhere_options() { return kOptions; }

const ElsewhereOption* find_elsewhere(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kOptions, [name](const ElsewhereOption& option) { return option.name == name; });
  return found == std::end(kOptions) ? nullptr : found;
}

}  // namespace plimsoll
