#include "cli/elsewhere.h"

#include <algorithm>

namespace plimsoll {
namespace {

constexpr std::string_view kOneDevice = "omit it: Plimsoll trains on one device";
constexpr std::string_view kNoHub = "omit it: Plimsoll neither downloads nor uploads anything";
constexpr std::string_view kNoReports =
    "omit it: losses and scores are in OUTPUT-DIR/metrics.jsonl, and train --json prints them during the run";
constexpr std::string_view kFixedBetas = "omit it: AdamW's betas are 0.9 and 0.999, its epsilon is 1e-8";
constexpr std::string_view kSeparateCommands =
    "omit it: plimsoll train, plimsoll eval and plimsoll predict are separate commands";
constexpr std::string_view kNoPadding = "omit it: batches are packed without padding";
constexpr std::string_view kPlannedEvaluation = "omit it: the planner chooses how many pages are evaluated at once";
constexpr std::string_view kFullEvaluation = "omit it: evaluation runs in the precision of training";
constexpr std::string_view kLoraForm =
    "omit it: adapters are plain LoRA (W + alpha/rank B A), without bias; the head is trained in full";
constexpr std::string_view kFourBits =
    "omit it: --load-in-4bit is NormalFloat (nf4) in blocks of 64, with F32 scales and F32 arithmetic";
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
    {"--test-data", "--data", {}},
    {"--num-threads", "--threads", {}},
    // TrainingArguments. What has the same name and the same meaning here is not listed.
    {"--accelerator-config", {}, kOneDevice},
    {"--adafactor", "--optim", {}},
    {"--adam-beta1", {}, kFixedBetas},
    {"--adam-beta2", {}, kFixedBetas},
    {"--adam-epsilon", {}, kFixedBetas},
    {"--auto-find-batch-size", {}, "omit it: the planner always chooses a batch that fits the budget"},
    {"--average-tokens-across-devices", {}, kOneDevice},
    {"--batch-eval-metrics", {}, {}},
    {"--bf16-full-eval", {}, kFullEvaluation},
    {"--data-seed", "--seed", {}},
    {"--dataloader-drop-last", {}, "omit it: the last update of an epoch has the remaining pages"},
    {"--dataloader-persistent-workers", {}, {}},
    {"--dataloader-pin-memory", {}, {}},
    {"--dataloader-prefetch-factor", {}, {}},
    {"--ddp-backend", {}, kOneDevice},
    {"--ddp-broadcast-buffers", {}, kOneDevice},
    {"--ddp-bucket-cap-mb", {}, kOneDevice},
    {"--ddp-find-unused-parameters", {}, kOneDevice},
    {"--ddp-timeout", {}, kOneDevice},
    {"--debug", {}, "pass --detect-anomaly to look for NaN and infinities in every op"},
    {"--deepspeed", {}, "omit it: --budget sets the memory; offloading to disk is --offload DIR"},
    {"--disable-tqdm", {}, "omit it: the progress bar is shown only on a terminal"},
    {"--do-eval", {}, kSeparateCommands},
    {"--do-predict", {}, kSeparateCommands},
    {"--do-train", {}, kSeparateCommands},
    {"--eval-accumulation-steps", {}, kPlannedEvaluation},
    {"--eval-delay", {}, {}},
    {"--eval-do-concat-batches", {}, {}},
    {"--eval-on-start", {}, "omit it: plimsoll eval scores the model that training starts from"},
    {"--eval-strategy", {}, "omit it: with --eval-data there is an evaluation after each epoch, or every --eval-steps"},
    {"--evaluation-strategy",
     {},
     "omit it: with --eval-data there is an evaluation after each epoch, or every --eval-steps"},
    {"--fp32", {}, "omit it: F32 is the precision unless --bf16 or --fp16 is given"},
    {"--fp16-full-eval", {}, kFullEvaluation},
    {"--fp16-opt-level", {}, "pass --fp16 or --bf16 alone"},
    {"--fsdp", {}, kOneDevice},
    {"--fsdp-config", {}, kOneDevice},
    {"--fsdp-min-num-params", {}, kOneDevice},
    {"--full-determinism", {}, "omit it: runs always repeat bit for bit"},
    {"--gradient-checkpointing-kwargs", "--recompute", {}},
    {"--greater-is-better", {}, "omit it: it follows from --metric-for-best-model"},
    {"--group-by-length", {}, kNoPadding},
    {"--half-precision-backend", {}, "pass --fp16 or --bf16 alone"},
    {"--hub-always-push", {}, kNoHub},
    {"--hub-model-id", {}, kNoHub},
    {"--hub-private-repo", {}, kNoHub},
    {"--hub-revision", {}, kNoHub},
    {"--hub-strategy", {}, kNoHub},
    {"--hub-token", {}, kNoHub},
    {"--ignore-data-skip", {}, "omit it: a resumed run continues within an epoch without reading the data again"},
    {"--include-for-metrics", {}, {}},
    {"--include-inputs-for-metrics", {}, {}},
    {"--include-num-input-tokens-seen", {}, {}},
    {"--include-tokens-per-second", {}, {}},
    {"--jit-mode-eval", {}, {}},
    {"--label-names", {}, "omit it: the names of labels are --labels, their key in the data is labels or ner_tags"},
    {"--label-smoothing-factor", {}, {}},
    {"--length-column-name", {}, kNoPadding},
    {"--liger-kernel-config", {}, {}},
    {"--local-rank", {}, kOneDevice},
    {"--log-level", {}, {}},
    {"--log-level-replica", {}, kOneDevice},
    {"--log-on-each-node", {}, kOneDevice},
    {"--logging-dir", {}, kNoReports},
    {"--logging-first-step", {}, "omit it, or pass --logging-steps 1"},
    {"--logging-nan-inf-filter", {}, "omit it: see --on-nonfinite"},
    {"--logging-strategy", "--logging-steps", {}},
    {"--mp-parameters", {}, kOneDevice},
    {"--neftune-noise-alpha", {}, {}},
    {"--no-cuda", {}, "omit it: --device is cpu unless you pass --device cuda"},
    {"--optim-args", {}, {}},
    {"--optim-target-modules", {}, {}},
    {"--overwrite-cache", {}, "omit it: --cache is rebuilt when data or options change"},
    {"--past-index", {}, {}},
    {"--per-gpu-eval-batch-size", "--per-device-eval-batch-size", {}},
    {"--per-gpu-train-batch-size", "--per-device-train-batch-size", {}},
    {"--prediction-loss-only", {}, {}},
    {"--project", {}, kNoReports},
    {"--push-to-hub", {}, kNoHub},
    {"--push-to-hub-model-id", {}, kNoHub},
    {"--push-to-hub-organization", {}, kNoHub},
    {"--push-to-hub-token", {}, kNoHub},
    {"--ray-scope", {}, {}},
    {"--remove-unused-columns", {}, "omit it: unknown keys of the data are ignored"},
    {"--report-to", {}, kNoReports},
    {"--restore-callback-states-from-checkpoint", {}, {}},
    {"--run-name", {}, kNoReports},
    {"--save-on-each-node", {}, kOneDevice},
    {"--save-only-model", {}, "omit it: a checkpoint always holds everything needed to resume"},
    {"--save-safetensors", {}, "omit it: models are always saved as safetensors"},
    {"--save-strategy", {}, "pass --save-steps N (0: no checkpoint before the end)"},
    {"--sharded-ddp", {}, kOneDevice},
    {"--skip-memory-metrics", {}, {}},
    {"--tf32", {}, "pass --bf16 for faster matrix products"},
    {"--torch-compile", {}, "omit it: every step runs as a fixed plan"},
    {"--torch-compile-backend", {}, "omit it: every step runs as a fixed plan"},
    {"--torch-compile-mode", {}, "omit it: every step runs as a fixed plan"},
    {"--torch-empty-cache-steps", {}, "omit it: nothing is allocated while training runs"},
    {"--torchdynamo", {}, {}},
    {"--tpu-metrics-debug", {}, kOneDevice},
    {"--tpu-num-cores", {}, kOneDevice},
    {"--trackio-space-id", {}, kNoReports},
    {"--use-cpu", {}, "omit it: --device is cpu unless you pass --device cuda"},
    {"--use-ipex", {}, {}},
    {"--use-legacy-prediction-loop", {}, {}},
    {"--use-liger-kernel", {}, {}},
    {"--use-mps-device", {}, "omit it: --device is cpu or cuda"},
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
    // PEFT and bitsandbytes.
    {"--alpha-pattern", {}, kLoraForm},
    {"--bias", {}, kLoraForm},
    {"--bnb-4bit-compute-dtype", {}, kFourBits},
    {"--bnb-4bit-quant-storage", {}, kFourBits},
    {"--bnb-4bit-quant-type", {}, kFourBits},
    {"--bnb-4bit-use-double-quant", {}, kFourBits},
    {"--fan-in-fan-out", {}, {}},
    {"--init-lora-weights", {}, kLoraForm},
    {"--layers-pattern", "--lora-target-modules", {}},
    {"--layers-to-transform", "--lora-target-modules", {}},
    {"--llm-int8-enable-fp32-cpu-offload", {}, kEightBits},
    {"--llm-int8-has-fp16-weight", {}, kEightBits},
    {"--llm-int8-skip-modules", {}, kEightBits},
    {"--llm-int8-threshold", {}, kEightBits},
    {"--lora-bias", {}, kLoraForm},
    {"--lora-r", "--lora-rank", {}},
    {"--modules-to-save", {}, kLoraForm},
    {"--r", "--lora-rank", {}},
    {"--rank-pattern", {}, kLoraForm},
    {"--target-modules", "--lora-target-modules", {}},
    {"--use-dora", {}, kLoraForm},
    {"--use-peft", "--lora-rank", {}},
    {"--use-rslora", {}, kLoraForm},
};

}  // namespace

std::span<const ElsewhereOption> elsewhere_options() { return kOptions; }

const ElsewhereOption* find_elsewhere(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kOptions, [name](const ElsewhereOption& option) { return option.name == name; });
  return found == std::end(kOptions) ? nullptr : found;
}

}  // namespace plimsoll
