// LiLT (Wang et al. 2022): RoBERTa beside a narrow stream of boxes. Each stream has its own weights, and they share
// their attention: the scores of both are added up.
//
// Letters: B samples, N packed rows, all of text. Inputs have the names and shapes of data/batch.h's arrays.
//
// A layer's scores are q k^T / sqrt(a) + p l^T / sqrt(b), with text's queries q and keys k of a columns per head, and
// layout's p and l of b columns per head. That is one attention over a + b columns per head, whose queries are those of
// both streams side by side, scaled so that attention's own 1 / sqrt(a + b) cancels (kConcatHeads); its output is split
// again. So the streams also share the mask of attention's dropout, while `transformers` draws one for each. In the
// last layer, the layout's stream is not read: it is not computed, and as in `transformers` its parameters get no
// gradient and do not change.
//
//   const LiltConfig config = read_lilt(ConfigReader(object, "model/config.json"));
//   const std::shared_ptr<const Encoder> encoder = lilt_encoder(config);
#pragma once

#include <cstdint>
#include <memory>

#include "families/parts/bert_config.h"
#include "model/definition.h"

namespace plimsoll {

// The values of config.json, by their names there.
struct LiltConfig : BertValues {
  std::int64_t channel_shrink_ratio = 4;
  std::int64_t max_2d_position_embeddings = 1024;

  // Returns the width of the layout's stream.
  std::int64_t layout_size() const { return hidden_size / channel_shrink_ratio; }
  std::int64_t layout_head_size() const { return layout_size() / num_attention_heads; }
  std::int64_t layout_intermediate_size() const { return intermediate_size / channel_shrink_ratio; }
};

// Throws DataError naming the key for a value that is missing, makes no sense or exceeds what kernels support.
LiltConfig read_lilt(const ConfigReader& reader);
void write_lilt(const LiltConfig& config, nlohmann::json& object);

std::shared_ptr<const Encoder> lilt_encoder(const LiltConfig& config);

}  // namespace plimsoll
