// ModelBundle: all that a model directory holds, opened and checked against itself: config, tokenizer, image processor,
// weights. And its inverse, a directory that `transformers` loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/chat.h"
#include "data/image_processor.h"
#include "data/labels.h"
#include "data/tokenizer.h"
#include "data/windows.h"
#include "families/model_config.h"
#include "formats/checksums.h"
#include "formats/weights.h"
#include "model/parameters.h"
#include "tasks/task.h"
#include "tensor/dtype.h"

namespace plimsoll {

struct ModelBundle {
  ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  // Texts of files that are saved unchanged, by name: a language model's generation options, its chat template.
  std::map<std::string, std::string> companions{};
  std::shared_ptr<const ChatForm> chat{};  // nullptr: the model has no chat template
  ImageProcessorConfig image;
  std::shared_ptr<const WeightsFile> weights;  // nullptr: a preset, from scratch
  bool quantized = false;                      // the file has codes, in which `options` hold the frozen weights
  bool fresh_head = false;                     // the classifier does not fit the labels and is replaced by a new one
  bool fresh_task = false;                     // the head is new, for another task than the model's
  std::string origin;                          // what --model said
  ModelOptions options;                        // what trains; adapters
  std::string base;                            // with adapters: where their base model is
  std::string base_fingerprint{};              // with adapters: fingerprint_of_base (bundle/adapter.h)
  std::shared_ptr<const WeightsFile> adapter;  // nullptr: no adapters, or new ones

  const Task& task() const;
  ModelDefinition definition() const;
  EncoderFacts facts() const { return config.encoder->facts(); }
  std::vector<ParameterSpec> specs() const { return definition().specs(options); }
  // Returns the source of the parameters; those that no file has come from `seed`.
  ParameterSource source(std::uint64_t seed) const {
    return {.weights = weights.get(),
            .prefix = std::string(config.encoder->prefix()),
            .fresh_head = fresh_head,
            .seed = seed,
            .adapter = adapter.get()};
  }
  WordEncoder word_encoder() const;
};

// `model`: a Hugging Face model directory, an adapter's directory (bundle/adapter.h), or a preset's name. `base`: where
// an adapter's base model is, instead of the path that it names. `tokenizer`: a tokenizer.json or a directory that
// replaces the model's own; empty: the model's, or the embedded one for a preset. Throws DataError, or UsageError for a
// name that is none of these.
ModelBundle open_model(const std::string& model, const std::string& tokenizer = "", const std::string& base = "");

// Does the same for evaluation and prediction: throws UsageError for a preset, whose weights would be random.
ModelBundle open_trained_model(const std::string& model, const std::string& tokenizer = "",
                               const std::string& base = "");

// Opens only config and weights, for batches that already are token ids: `tokenizer` stays nullptr.
ModelBundle open_weights_only(const std::string& model, const std::string& base = "");

// Sets the model's task, whose labels must still be set, and its problem type; empty: unchanged. Throws UsageError for
// an unknown task, and for a problem type if the task has none.
void set_task(ModelBundle& bundle, const std::string& name, const std::string& problem_type = "");

// Gives the model these labels. A classifier for other labels is replaced by a new one, and the log says so.
void set_labels(ModelBundle& bundle, const LabelSet& labels);
// Does the same with labels that a user has typed; throws UsageError for a task that has none, whatever its config
// says.
void set_typed_labels(ModelBundle& bundle, const std::string& typed);

// Throws UsageError for a head that its task cannot have: labels for a task without labels, or several for a number.
void check_head(const ModelBundle& bundle);
// Makes the part of these checks that is about LossOptions, which may be known before the labels. Throws UsageError.
void check_loss(const ModelBundle& bundle);

// What to do about a classification head that the weights lack.
enum class MissingHead : std::uint8_t {
  kMadeNew,  // training: it begins with random numbers, and the log says so
  kRefused   // everything else: its results would be random
};
// Reports what is missing or misshapen in the weights before anything is allocated.
void check_weights(const ModelBundle& bundle, MissingHead missing_head = MissingHead::kMadeNew);

// Reads the files of the weights once, and compares them with checksums.json beside them, or with their format's own
// checksums. Throws DataError if one is damaged.
void verify_weights(const ModelBundle& bundle);

// Verifies the weights, then fills the parameters from them, or from `seed`.
void load_model(const ModelBundle& bundle, std::uint64_t seed, const ParameterMemory& memory);

// Writes config.json, model.safetensors, the tokenizer's files and preprocessor_config.json into `directory`, which
// exists. With adapters, they and the head take the weights' place (bundle/adapter.h). `original` is as in
// save_parameters. Returns the files' sums.
FileSums save_model(const std::filesystem::path& directory, const ModelBundle& bundle, const ParameterSource& original,
                    const ParameterMemory& memory);
// Does the same without weights, which config.json says are of `type`.
FileSums save_model_parts(const std::filesystem::path& directory, const ModelBundle& bundle, DType type = DType::kF32);

}  // namespace plimsoll
