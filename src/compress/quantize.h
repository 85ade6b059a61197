// Writes a model's weights in 4 bits, in bitsandbytes' format: the encoder's weight matrices whose rows are whole
// blocks; everything else stays as in its file. `transformers` opens the directory, and so does Plimsoll, which holds
// exactly these weights.
//
//   const QuantizedModel quantized(bundle, true);
//   write_model("smaller", [&](const std::filesystem::path& aside) { return quantized.save(aside); });
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"

namespace plimsoll {

class QuantizedModel {
 public:
  // `bundle` must outlive it, have weights in floats and no adapters. `use_double_quant`: the blocks' factors are
  // quantized, too.
  QuantizedModel(const ModelBundle& bundle, bool use_double_quant);

  std::size_t matrices() const { return matrices_.size(); }
  // Returns the encoder's weight matrices that stay in floats, because their inputs are not a multiple of a block.
  const std::vector<std::string>& kept() const { return kept_; }
  std::uint64_t bytes_before() const;
  std::uint64_t bytes() const;

  // Writes the model directory.
  FileSums save(const std::filesystem::path& directory) const;

 private:
  std::vector<TensorDeclaration> declarations(const TensorEntry& entry) const;
  nlohmann::json config() const;

  const ModelBundle& bundle_;
  bool use_double_quant_ = false;
  std::map<std::string, ParameterSpec> matrices_;  // by their tensors' names
  std::vector<std::string> kept_;
};

}  // namespace plimsoll
