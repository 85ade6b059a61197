// A run whose plan takes milliseconds: one layer of 48, images of 32 x 32.
#pragma once

#include "base/bytes.h"
#include "fit/fit.h"
#include "support/layoutlmv3_model.h"
#include "support/sanitizer.h"

namespace plimsoll::test {

inline LabelledConfig small_config() {
  LabelledConfig config = layoutlmv3_preset("layoutlmv3-tiny");
  config.vocab_size = 300;
  config.hidden_size = 48;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 3;
  config.intermediate_size = 96;
  config.coordinate_size = config.shape_size = 8;
  config.input_size = 32;
  config.labels = {"O", "B-TOTAL", "I-TOTAL"};
  return config;
}

inline LabelledConfig small_config(std::int64_t layers) {
  LabelledConfig config = small_config();
  config.num_hidden_layers = layers;
  return config;
}

// One that is wide and deep.
inline LabelledConfig wide_config() {
  LabelledConfig config = small_config(6);
  config.hidden_size = 480;
  config.coordinate_size = config.shape_size = 80;
  config.intermediate_size = 1920;
  return config;
}

inline void use_model(FitRequest& request, const LabelledConfig& config) {
  request.step.definition = layoutlmv3(config);
  request.smaller_models.clear();
  for (const char* name : {"layoutlmv3-base", "layoutlmv3-small", "layoutlmv3-tiny"}) {
    LabelledConfig smaller = layoutlmv3_preset(name);
    if (smaller.hidden_size * smaller.num_hidden_layers >= config.hidden_size * config.num_hidden_layers) continue;
    smaller.labels = config.labels;
    request.smaller_models.push_back({.name = name, .definition = layoutlmv3(smaller)});
  }
}

// The loader's claimed memory outweighs everything else, so that the choice does not depend on the process's own size.
inline constexpr std::size_t kLoaderBytesPerSample = 256 * kMiB;

inline FitRequest small_request(std::int64_t batch) {
  FitRequest request;
  use_model(request, small_config());
  request.train_batch_size = batch;
  request.text_rows = [](std::int64_t micro) { return 20 * micro; };
  request.evaluation_text_rows = [](std::int64_t micro) { return 30 * micro; };
  request.update_text_rows = 20 * batch;
  request.loader_bytes = [](const ModelCapacity& capacity) {
    return static_cast<std::size_t>(capacity.samples) * kLoaderBytesPerSample;
  };
  return request;
}

// The same with a deeper model, `rows` text rows a sample, and no loader. Activations of so many rows outweigh everything
// else, including variations of the process's size.
inline FitRequest deep_request(std::int64_t batch, std::int64_t rows = 20'000) {
  FitRequest request = small_request(batch);
  use_model(request, small_config(4));
  request.text_rows = [rows](std::int64_t micro) { return rows * micro; };
  request.update_text_rows = rows * batch;
  request.loader_bytes = nullptr;
  return request;
}

}  // namespace plimsoll::test
