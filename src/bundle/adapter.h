// Adapter directories as Hugging Face's PEFT writes and reads them: adapter_config.json, and adapter_model.safetensors
// with the adapters' tensors and the classification head that was trained with them
// ("base_model.model.<module>.lora_A.weight", "base_model.model.classifier.…"). The base model is not copied; the
// config names it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bundle/model_bundle.h"

namespace plimsoll {

// Returns whether the directory holds an adapter.
bool is_adapter(const std::filesystem::path& directory);

struct Adapter {
  LoraOptions lora;
  std::string base;              // base_model_name_or_path; may be empty
  std::string base_fingerprint;  // of the base that it was trained on; empty: an adapter that PEFT has written
  std::shared_ptr<const WeightsFile> weights;
};
// Throws DataError for anything but an adapter of an encoder's linear maps, or for one with parts that Plimsoll does
// not know. Shapes are checked when parameters are loaded. `model` is the model that it belongs to.
Adapter open_adapter(const std::filesystem::path& directory, const ModelDefinition& model);

// Returns a fingerprint of the parameters that an adapter needs and does not contain: their names, shapes and first
// values, so that models are told apart without reading them whole. It does not depend on the files' form. Of codes it
// has no values.
std::string fingerprint_of_base(const ModelBundle& bundle);

// Writes both files. bundle.options.lora must be enabled. `original` is as in save_parameters.
FileSums save_adapter(const std::filesystem::path& directory, const ModelBundle& bundle,
                      const ParameterSource& original, const ParameterMemory& memory);

// Writes a model directory whose weights are W + scale B A, with DoRA scaled to each row's magnitude, computed in
// double and rounded to F32, and then to `type`: kF32, kBF16 or kF16. `bundle` must have been opened from an adapter.
// Only one tensor is held at a time, with its adapter. Throws DataError for a weight that is too large for kF16.
FileSums merge_adapter(const std::filesystem::path& directory, const ModelBundle& bundle, DType type = DType::kF32);

}  // namespace plimsoll
