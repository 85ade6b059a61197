#include "compress/quantize.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "compress/copied_tensor.h"
#include "formats/quantized_writer.h"
#include "model/file_values.h"
#include "tensor/block_code.h"
#include "tensor/numpy_name.h"

namespace plimsoll {
namespace {

constexpr std::string_view kWeight = ".weight";

// Returns the matrix's declaration in the new file: in the order of memory, with its old type.
TensorDeclaration declaration(const TensorEntry& entry, const ParameterSpec& spec) {
  return {entry.name, {entry.type.dtype, spec.shape}};
}

}  // namespace

QuantizedModel::QuantizedModel(const ModelBundle& bundle, bool use_double_quant)
    : bundle_(bundle), use_double_quant_(use_double_quant) {
  check(bundle.weights != nullptr && !bundle.quantized && !bundle.options.lora.enabled(),
        "there are weights to quantize");
  for (const ParameterSpec& spec : bundle.specs()) {
    if (spec.part != ParameterSpec::Part::kEncoderMatrix) continue;
    if (!spec.name.ends_with(kWeight) || spec.file_shape.rank() != 2) continue;  // no linear layer of `transformers`
    const auto name = name_in_weights(bundle.source(0), spec.name);
    if (!name) continue;
    if (spec.shape[1] % kCodeBlock == 0) {
      matrices_.emplace(*name, spec);
    } else {
      kept_.push_back(*name);
    }
  }
}

std::uint64_t QuantizedModel::bytes_before() const {
  std::uint64_t bytes = 0;
  for (const TensorEntry& entry : bundle_.weights->entries()) bytes += entry.type.bytes();
  return bytes;
}

std::vector<TensorDeclaration> QuantizedModel::declarations(const TensorEntry& entry) const {
  const auto matrix = matrices_.find(entry.name);
  if (matrix == matrices_.end()) return {{entry.name, entry.type}};
  return QuantizedWriter(declaration(entry, matrix->second), use_double_quant_).declarations();
}

std::uint64_t QuantizedModel::bytes() const {
  std::uint64_t bytes = 0;
  for (const TensorEntry& entry : bundle_.weights->entries()) {
    for (const TensorDeclaration& tensor : declarations(entry)) bytes += tensor.type.bytes();
  }
  return bytes;
}

nlohmann::json QuantizedModel::config() const {
  nlohmann::json config = config_json(bundle_.config);
  // Linear layers whose weights stay in floats; names of other modules do no harm. A tied head has no tensor.
  std::set<std::string> in_floats = {"lm_head"};
  DType type = DType::kF32;
  for (const TensorEntry& entry : bundle_.weights->entries()) {
    if (matrices_.contains(entry.name)) {
      type = entry.type.dtype;
    } else if (entry.name.ends_with(kWeight) && entry.type.shape.rank() == 2) {
      in_floats.insert(entry.name.substr(0, entry.name.size() - kWeight.size()));
    }
  }
  config["dtype"] = numpy_name(type);
  config["quantization_config"] = {{"quant_method", "bitsandbytes"},
                                   {"load_in_4bit", true},
                                   {"load_in_8bit", false},
                                   {"bnb_4bit_quant_type", "nf4"},
                                   {"bnb_4bit_use_double_quant", use_double_quant_},
                                   {"bnb_4bit_compute_dtype", numpy_name(type)},
                                   {"bnb_4bit_quant_storage", "uint8"},
                                   {"llm_int8_skip_modules", in_floats}};
  return config;
}

FileSums QuantizedModel::save(const std::filesystem::path& directory) const {
  FileSums sums = save_model_parts(directory, bundle_);
  sums["config.json"] = write_text_file(directory / "config.json", config().dump(2) + "\n");
  const WeightsFile& weights = *bundle_.weights;
  std::vector<TensorDeclaration> tensors;
  for (const TensorEntry& entry : weights.entries())
    std::ranges::move(declarations(entry), std::back_inserter(tensors));
  SafetensorsWriter writer(directory / "model.safetensors", std::move(tensors));
  TensorCopier copier(weights, writer);
  std::vector<std::byte> staging(1 << 16);
  for (const TensorEntry& entry : weights.entries()) {
    const auto matrix = matrices_.find(entry.name);
    if (matrix == matrices_.end()) {
      copier.check_numbers(entry);
      copier.copy(entry);
      continue;
    }
    const ParameterSpec& spec = matrix->second;
    QuantizedWriter(declaration(entry, spec), use_double_quant_)
        .write(writer, [&](std::int64_t first, std::span<float> values) {
          read_values(weights, entry.name, spec, first, values, staging);
          refuse_non_finite(weights, entry.name, first, values);
        });
  }
  sums["model.safetensors"] = writer.finish();
  return sums;
}

}  // namespace plimsoll
