#include "train/model_bundle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace plimsoll {
namespace {

void check_tokenizer(const ModelBundle& bundle, const std::string& where) {
  const Tokenizer& tokenizer = *bundle.tokenizer;
  if (tokenizer.vocab_size() > bundle.config.vocab_size) {
    throw DataError({.what = "the tokenizer does not match the model: it has ids beyond the word embedding",
                     .where = where,
                     .found = fmt::format("{} token ids", tokenizer.vocab_size()),
                     .allowed = fmt::format("at most vocab_size = {}", bundle.config.vocab_size),
                     .remedy = "use the tokenizer that the model was trained with"});
  }
  if (tokenizer.special().pad != bundle.config.pad_token_id) {
    throw DataError({.what = "the tokenizer does not match the model: their padding tokens differ",
                     .where = where,
                     .found = fmt::format("pad id {} in the tokenizer", tokenizer.special().pad),
                     .allowed = fmt::format("pad_token_id = {} as in config.json", bundle.config.pad_token_id),
                     .remedy = "use the tokenizer that the model was trained with"});
  }
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

ModelBundle open_preset(const std::string& name, const std::string& tokenizer) {
  ModelBundle bundle;
  bundle.config = preset_config(name);
  bundle.origin = name;
  bundle.tokenizer = std::make_shared<Tokenizer>(tokenizer.empty() ? Tokenizer::embedded()
                                                                    : Tokenizer::from_directory(tokenizer));
  // The published shapes keep their 50,265 rows; the small presets are as large as their vocabulary.
  const std::int64_t ids = bundle.tokenizer->vocab_size();
  const bool published = name == "layoutlmv3-base" || name == "layoutlmv3-large";
  bundle.config.vocab_size = published ? std::max(bundle.config.vocab_size, ids) : ids;
  bundle.config.pad_token_id = bundle.tokenizer->special().pad;
  bundle.config.source["bos_token_id"] = bundle.tokenizer->special().bos;
  bundle.config.source["eos_token_id"] = bundle.tokenizer->special().eos;
  return bundle;
}

}  // namespace

WordEncoder ModelBundle::word_encoder() const {
  return {.encode = [words = tokenizer](std::string_view word, std::vector<std::int32_t>& ids) {
            words->encode_word(word, ids);
          },
          .bos_id = tokenizer->special().bos,
          .pad_id = tokenizer->special().pad,
          .eos_id = tokenizer->special().eos};
}

ModelBundle open_model(const std::string& model, const std::string& tokenizer) {
  if (is_preset(model) && !is_directory(model)) return open_preset(model, tokenizer);
  if (!is_directory(model)) {
    throw UsageError({.what = "no such model",
                      .where = "--model",
                      .found = model,
                      .allowed = fmt::format("a Hugging Face model directory, or a preset: {}",
                                             fmt::join(preset_names(), ", "))});
  }
  ModelBundle bundle;
  bundle.origin = model;
  bundle.config = read_config(model);
  bundle.tokenizer = std::make_shared<Tokenizer>(Tokenizer::from_directory(tokenizer.empty() ? model : tokenizer));
  check_tokenizer(bundle, tokenizer.empty() ? model : tokenizer);
  bundle.image = ImageProcessorConfig::from_model(model);
  if (bundle.image.height != bundle.config.input_size || bundle.image.width != bundle.config.input_size) {
    throw DataError({.what = "the image processor does not match the model",
                     .where = model,
                     .found = fmt::format("images of {} x {} pixels", bundle.image.width, bundle.image.height),
                     .allowed = fmt::format("input_size = {} as in config.json", bundle.config.input_size),
                     .remedy = "use the processor files that the model was trained with"});
  }
  bundle.weights = std::make_shared<WeightsFile>(open_weights(model));
  return bundle;
}

ModelBundle open_trained_model(const std::string& model, const std::string& tokenizer) {
  if (is_preset(model) && !is_directory(model)) {
    throw UsageError({.what = "a preset has no trained weights",
                      .where = "--model",
                      .found = model,
                      .allowed = "a model directory: what train wrote into its --output-dir, or a Hugging Face model",
                      .remedy = "train it first: plimsoll train --model " + model + " --data FILE --output-dir DIR"});
  }
  return open_model(model, tokenizer);
}

ModelBundle open_weights_only(const std::string& model) {
  if (is_preset(model) && !is_directory(model)) return open_preset(model, "");
  ModelBundle bundle;
  bundle.origin = model;
  bundle.config = read_config(model);
  bundle.weights = std::make_shared<WeightsFile>(open_weights(model));
  return bundle;
}

void set_labels(ModelBundle& bundle, const LabelSet& labels) {
  if (bundle.config.labels == labels.names()) return;
  if (bundle.weights != nullptr) {
    log_info(fmt::format("new classification head: {} labels ({}) in place of the model's {} ({})", labels.size(),
                         labels.listed(), bundle.config.labels.size(),
                         fmt::join(bundle.config.labels.begin(),
                                   bundle.config.labels.begin() + std::min<std::ptrdiff_t>(3, bundle.config.num_labels()),
                                   ", ")));
  }
  bundle.config.labels = labels.names();
  bundle.fresh_head = true;
}

void check_weights(const ModelBundle& bundle) {
  const ParameterReport report =
      check_parameters(bundle.specs(), {.weights = bundle.weights.get(), .fresh_head = bundle.fresh_head});
  if (!report.fresh.empty() && !bundle.fresh_head) {
    log_info("new classification head: the weights have none");
  }
  if (!report.unused.empty()) {
    log_info(fmt::format("{} tensors of the weights have no place in this model and are left out, '{}' among them",
                         report.unused.size(), report.unused.front()));
  }
}

void load_model(const ModelBundle& bundle, std::uint64_t seed, const ParameterMemory& memory) {
  load_parameters(bundle.config, bundle.specs(),
                  {.weights = bundle.weights.get(), .fresh_head = bundle.fresh_head, .seed = seed}, memory);
}

void save_model(const std::filesystem::path& directory, const ModelBundle& bundle, const ParameterMemory& memory) {
  write_text_file(directory / "config.json", config_json(bundle.config).dump(2) + "\n");
  bundle.tokenizer->save(directory);
  write_text_file(directory / "preprocessor_config.json", bundle.image.to_json());
  save_parameters(directory / "model.safetensors", bundle.specs(), memory);
}

}  // namespace plimsoll
