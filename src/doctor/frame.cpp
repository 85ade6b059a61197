#include "doctor/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

constexpr std::string_view kBar = "│", kArrow = "❱";

// The text without blanks, and without rich's bars and arrows.
std::string_view without_frame(std::string_view text) {
  for (bool again = true; again;) {
    again = false;
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    for (const std::string_view mark : {kBar, kArrow}) {
      if (!text.starts_with(mark)) continue;
      text.remove_prefix(mark.size());
      again = true;
    }
  }
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.ends_with(kBar)) text.remove_suffix(kBar.size());
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::uint64_t number_at(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Returns train for "Trainer.train(self, args)", <listcomp> for "<listcomp>(.0)".
std::string function_of(std::string_view text) {
  text = text.substr(0, text.find('('));
  if (text.starts_with('<')) return std::string(text.substr(0, text.find('>') + 1));
  if (const std::size_t dot = text.rfind('.'); dot != std::string_view::npos) text.remove_prefix(dot + 1);
  return std::string(text.substr(0, text.find(' ')));
}

Frame make_frame(std::string_view path, std::uint64_t line, std::string_view function) {
  Frame frame{{}, to_small_letters(path), line, function_of(function), false};
  std::replace(frame.path.begin(), frame.path.end(), '\\', '/');
  if (frame.path.find("ipython-input") != std::string::npos || frame.path.find("ipykernel") != std::string::npos ||
      frame.path.starts_with("cell in") || frame.path.starts_with("input in")) {
    frame.file = "a notebook's cell";
    return frame;
  }
  frame.file = path.substr(std::min(path.find_last_of("/\\") + 1, path.size()));
  for (const std::string_view part :
       {"site-packages/", "dist-packages/", "/lib/python3", "/lib64/python3", "<frozen", "<string>", "<__array",
        "/transformers/src/transformers/", "/python3.", "/anaconda3/lib/", "/miniconda3/lib/"})
    frame.library = frame.library || frame.path.find(part) != std::string::npos;
  // Windows installs Python as "C:\\Python310\\lib\\json\\decoder.py".
  if (const std::size_t python = frame.path.find("/python3"); python != std::string::npos) {
    const std::size_t slash = frame.path.find('/', python + 1);
    frame.library = frame.library || (slash != std::string::npos && frame.path.compare(slash, 5, "/lib/") == 0);
  }
  return frame;
}

// The layer that files and functions belong to. `file` is a part of the path, in small letters; `function` is the whole
// name, or its beginning if it ends with '*'; empty: any.
struct Place {
  std::string_view file, function;
  Layer layer;
};
constexpr Place kPlaces[] = {
    // A data loader's collator and data set, whatever they call.
    {"", "collate*", Layer::kCollator},
    {"", "default_collate*", Layer::kCollator},
    {"_utils/collate.py", "", Layer::kCollator},
    {"data/data_collator.py", "", Layer::kCollator},
    {"_collator", "", Layer::kCollator},
    {"collator", "__call__", Layer::kCollator},
    {"", "compute_metrics*", Layer::kMetric},
    {"", "align_predictions", Layer::kMetric},
    {"sklearn/metrics", "", Layer::kMetric},
    {"seqeval/", "", Layer::kMetric},
    {"evaluate/module.py", "", Layer::kMetric},
    {"datasets/metric.py", "", Layer::kMetric},
    {"torchmetrics/", "", Layer::kMetric},
    {"/metrics/evaluate_modules", "", Layer::kMetric},
    {"tokenizer_config", "", Layer::kLoading},
    {"", "from_pretrained", Layer::kLoading},
    {"", "_from_pretrained", Layer::kLoading},
    {"", "load_state_dict", Layer::kLoading},
    {"", "load_checkpoint*", Layer::kLoading},
    {"", "_load_from_checkpoint", Layer::kLoading},
    {"", "load_from_checkpoint", Layer::kLoading},
    {"", "_load_optimizer*", Layer::kLoading},
    {"torch/serialization.py", "load*", Layer::kLoading},
    {"torch/serialization.py", "_load*", Layer::kLoading},
    {"safetensors/", "load*", Layer::kLoading},
    {"huggingface_hub/", "", Layer::kLoading},
    {"datasets/load.py", "", Layer::kLoading},
    {"datasets/builder.py", "", Layer::kLoading},
    {"transformers/utils/hub.py", "", Layer::kLoading},
    {"models/auto/", "", Layer::kLoading},
    {"", "save_pretrained", Layer::kSaving},
    {"", "save_checkpoint", Layer::kSaving},
    {"", "_save_checkpoint", Layer::kSaving},
    {"", "save_model", Layer::kSaving},
    {"torch/serialization.py", "save*", Layer::kSaving},
    {"torch/serialization.py", "_save*", Layer::kSaving},
    {"safetensors/", "save*", Layer::kSaving},
    {"tokenization_", "", Layer::kTokenizer},
    {"sentencepiece", "", Layer::kTokenizer},
    {"image_processing_", "", Layer::kProcessor},
    {"feature_extraction_", "", Layer::kProcessor},
    {"processing_", "", Layer::kProcessor},
    {"image_transforms.py", "", Layer::kProcessor},
    {"image_utils.py", "", Layer::kProcessor},
    {"torchvision/transforms", "", Layer::kProcessor},
    {"albumentations/", "", Layer::kProcessor},
    {"", "__getitem__", Layer::kDataSet},
    {"", "__getitems__", Layer::kDataSet},
    {"torch/utils/data/", "", Layer::kDataSet},
    {"datasets/arrow_dataset.py", "", Layer::kDataSet},
    {"", "read_examples*", Layer::kDataSet},
    {"", "load_and_cache_examples", Layer::kDataSet},
    {"datasets/iterable_dataset.py", "", Layer::kDataSet},
    {"datasets/dataset_dict.py", "", Layer::kDataSet},
    {"datasets/features/", "", Layer::kDataSet},
    {"datasets/arrow_writer.py", "", Layer::kDataSet},
    {"datasets/table.py", "", Layer::kDataSet},
    {"datasets/formatting/", "", Layer::kDataSet},
    {"torch/nn/functional.py", "cross_entropy", Layer::kLoss},
    {"torch/nn/functional.py", "nll_loss", Layer::kLoss},
    {"torch/nn/functional.py", "binary_cross_entropy*", Layer::kLoss},
    {"torch/nn/functional.py", "mse_loss", Layer::kLoss},
    {"nn/modules/loss.py", "", Layer::kLoss},
    {"transformers/loss/", "", Layer::kLoss},
    {"", "loss_fn", Layer::kLoss},
    {"torch/_tensor.py", "backward", Layer::kBackward},
    {"torch/tensor.py", "backward", Layer::kBackward},
    {"torch/autograd/", "", Layer::kBackward},
    {"torch/utils/checkpoint.py", "backward", Layer::kBackward},
    {"torch/optim/", "", Layer::kOptimizer},
    {"torch/cuda/amp/grad_scaler.py", "", Layer::kOptimizer},
    {"torch/amp/grad_scaler.py", "", Layer::kOptimizer},
    {"bitsandbytes/optim", "", Layer::kOptimizer},
    {"bitsandbytes/", "", Layer::kQuantization},
    {"transformers/quantizers/", "", Layer::kQuantization},
    {"auto_gptq/", "", Layer::kQuantization},
    {"peft/", "", Layer::kAdapters},
    {"torch/_dynamo/", "", Layer::kCompilation},
    {"torch/_inductor/", "", Layer::kCompilation},
    {"triton/", "", Layer::kCompilation},
    {"torch/utils/cpp_extension.py", "", Layer::kCompilation},
    {"wandb/", "", Layer::kTracker},
    {"mlflow/", "", Layer::kTracker},
    {"comet_ml/", "", Layer::kTracker},
    {"tensorboard/", "", Layer::kTracker},
    {"torch/distributed/", "", Layer::kDistributed},
    {"deepspeed/", "", Layer::kDistributed},
    {"torch/nn/parallel/", "", Layer::kDistributed},
    {"", "forward", Layer::kModel},
    {"modeling_", "", Layer::kModel},
    {"torch/nn/modules/", "", Layer::kModel},
    {"torch/nn/functional.py", "", Layer::kModel},
    {"detectron2/data", "", Layer::kDataSet},
    {"detectron2/checkpoint", "", Layer::kLoading},
    {"detectron2/config", "", Layer::kArguments},
    {"detectron2/evaluation", "", Layer::kMetric},
    {"detectron2/engine", "", Layer::kTrainer},
    {"detectron2/", "", Layer::kModel},
    {"transformers/generation/configuration", "", Layer::kArguments},
    {"transformers/generation/", "", Layer::kModel},
    {"torch/utils/checkpoint.py", "", Layer::kBackward},
    {"argparse.py", "", Layer::kArguments},
    {"hf_argparser.py", "", Layer::kArguments},
    {"training_args", "", Layer::kArguments},
    {"hydra/", "", Layer::kArguments},
    {"omegaconf/", "", Layer::kArguments},
    {"configuration_", "", Layer::kArguments},
    {"click/", "", Layer::kArguments},
    {"<frozen importlib", "", Layer::kImport},
    {"transformers/utils/import_utils.py", "", Layer::kImport},
    {"importlib/__init__.py", "", Layer::kImport},
    {"", "tokenize*", Layer::kPreparation},
    {"", "preprocess*", Layer::kPreparation},
    {"", "prepare_*", Layer::kPreparation},
    {"", "encode_*", Layer::kPreparation},
    {"", "_generate_examples", Layer::kPreparation},
    {"", "compute_loss", Layer::kLoss},
    {"transformers/trainer", "", Layer::kTrainer},
    {"pytorch_lightning/", "", Layer::kTrainer},
    {"lightning/", "", Layer::kTrainer},
    {"trl/", "", Layer::kTrainer},
    {"accelerate/", "", Layer::kTrainer},
    {"fastai/", "", Layer::kTrainer},
    {"keras/", "", Layer::kTrainer},
};

// True for a layer that only calls others: those say more.
bool is_weak(Layer layer) { return layer == Layer::kUnknown || layer == Layer::kOwnCode; }

Layer layer_of(const Frame& frame) {
  for (const Place& place : kPlaces) {
    if (!place.file.empty() && frame.path.find(place.file) == std::string::npos) continue;
    const bool begins = place.function.ends_with('*');
    if (begins && !frame.function.starts_with(place.function.substr(0, place.function.size() - 1))) continue;
    if (!begins && !place.function.empty() && frame.function != place.function) continue;
    // pandas, NumPy and packages' dictionaries have their own __getitem__.
    if (place.function == "__getitem__" && frame.library && frame.path.find("data") == std::string::npos) continue;
    if (place.function == "__getitem__" && frame.path.find("pandas/") != std::string::npos) continue;
    return place.layer;
  }
  return frame.library ? Layer::kUnknown : Layer::kOwnCode;
}

}  // namespace

std::optional<Frame> read_frame(std::string_view text) {
  text = without_frame(text);
  // A time stamp may precede it, as in containers' logs.
  if (const std::size_t at = text.find(" File \""); at != std::string_view::npos && at < 48) text.remove_prefix(at + 1);
  if (text.starts_with("File \"")) {
    text.remove_prefix(6);
    const std::size_t end = text.find('"');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = text.substr(end + 1);
    if (!rest.starts_with(", line ")) return {};
    const std::size_t in = rest.find(", in ");
    return make_frame(text.substr(0, end), number_at(rest.substr(7)),
                      in == std::string_view::npos ? "" : rest.substr(in + 5));
  }
  // "Cell In[5], line 3", "Input In [5], in <cell line: 3>()".
  if (text.starts_with("Cell In") || text.starts_with("Input In")) {
    const std::size_t line = text.find("line ");
    return make_frame(text, line == std::string_view::npos ? 0 : number_at(text.substr(line + 5)), "<module>");
  }
  if (text.starts_with("File ")) text.remove_prefix(5);
  // "File [PATH:LINE](file:///…), in FUNCTION(ARGUMENTS)", for a notebook in VS Code.
  if (const std::size_t link = text.find("]("); text.starts_with('[') && link != std::string_view::npos) {
    const std::size_t end = text.find("), in ", link);
    if (end == std::string_view::npos) return {};
    std::string_view path = text.substr(1, link - 1);
    const std::size_t colon = path.rfind(':');
    const std::uint64_t line = colon == std::string_view::npos ? 0 : number_at(path.substr(colon + 1));
    return make_frame(line > 0 ? path.substr(0, colon) : path, line, text.substr(end + 6));
  }
  const std::size_t in = text.find(" in ");
  if (in == std::string_view::npos || in == 0) return {};
  // "PATH in FUNCTION(ARGUMENTS)", "PATH:LINE, in FUNCTION(ARGUMENTS)", "PATH:LINE in FUNCTION".
  std::string_view path = text.substr(0, in);
  if (path.ends_with(',')) path.remove_suffix(1);
  std::uint64_t line = 0;
  if (const std::size_t colon = path.rfind(':'); colon != std::string_view::npos && colon + 1 < path.size()) {
    if (path.substr(colon + 1).find_first_not_of("0123456789") == std::string_view::npos) {
      line = number_at(path.substr(colon + 1));
      path = path.substr(0, colon);
    }
  }
  const bool is_cell = path.starts_with("<ipython-input");
  const bool is_path = path.ends_with(".py") || path.ends_with(".pyx") || path.starts_with("<frozen");
  if (!is_cell && (!is_path || path.find(' ') < path.find('/'))) return {};
  return make_frame(path, line, text.substr(in + 4));
}

Layer layer_of(std::span<const Frame> frames) {
  // True for a package's file that another file imports: any failure within it is a failure of the import.
  const auto is_imported = [](const Frame& frame, const Frame& caller) {
    return frame.library && frame.function == "<module>" && caller.path.find("runpy") == std::string::npos;
  };
  Layer weak = Layer::kUnknown;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    const bool imported = frame + 1 != frames.rend() && is_imported(*frame, *(frame + 1));
    const Layer layer = imported ? Layer::kImport : layer_of(*frame);
    if (!is_weak(layer)) return weak == Layer::kOwnCode && layer == Layer::kTrainer ? weak : layer;
    if (weak == Layer::kUnknown) weak = layer;
  }
  return weak;
}

std::string_view layer_words(Layer layer) {
  switch (layer) {
    case Layer::kUnknown:
      return "";
    case Layer::kOwnCode:
      return "in the script's own code";
    case Layer::kPreparation:
      return "in the function that prepares the data";
    case Layer::kDataSet:
      return "in the data set";
    case Layer::kCollator:
      return "in the data collator, which puts samples into a batch";
    case Layer::kTokenizer:
      return "in the tokenizer";
    case Layer::kProcessor:
      return "in the image processor or the processor";
    case Layer::kModel:
      return "in the model";
    case Layer::kLoss:
      return "in the loss";
    case Layer::kBackward:
      return "in backward";
    case Layer::kMetric:
      return "in the metrics";
    case Layer::kOptimizer:
      return "in the optimizer or the scaler";
    case Layer::kTrainer:
      return "in the trainer";
    case Layer::kLoading:
      return "while a model, tokenizer, checkpoint or data set was loaded";
    case Layer::kSaving:
      return "while a checkpoint or model was saved";
    case Layer::kImport:
      return "while a package was imported";
    case Layer::kArguments:
      return "while the run's arguments and configuration were read";
    case Layer::kDistributed:
      return "in the distributed engine (torch.distributed, DDP, FSDP or DeepSpeed)";
    case Layer::kAdapters:
      return "in peft, which adds the adapters";
    case Layer::kQuantization:
      return "in the code that quantises the weights";
    case Layer::kCompilation:
      return "while kernels or the model were compiled";
    case Layer::kTracker:
      return "in the experiment tracker, not in the training itself";
  }
  return "";
}

std::string place_of(std::span<const Frame> frames) {
  const auto name = [](const Frame& frame) {
    std::string out = frame.file;
    if (frame.line > 0) out += fmt::format(", line {}", frame.line);
    if (!frame.function.empty() && frame.function != "<module>") out += ", in " + frame.function;
    return out;
  };
  if (frames.empty()) return {};
  std::string out = name(frames.back());
  if (!frames.back().library) return out;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    if (!frame->library) return out + "; called from " + name(*frame);
  return out;
}

}  // namespace plimsoll::doctor
