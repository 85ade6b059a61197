// ModelDefinition: what the engine knows of a model. A family's encoder and a task's head say which parameters they
// have, which arrays they read for each micro-batch, and build the graph; nothing above names either.
//
//   const ModelDefinition& model = built;                                    // layoutlmv3(config)
//   const std::vector<ParameterSpec> parameters = model.specs(options);
//   const ModelGraph graph = model.build({.samples = 2, .text_rows = 1024}, true, options, DType::kF32);
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "model/lora.h"
#include "model/parameter_spec.h"

namespace plimsoll {

struct ModelCapacity {
  std::int64_t samples = 1;    // B
  std::int64_t text_rows = 0;  // Nt
};

// An array that a graph reads anew for each micro-batch, by the name that the batch has it under (data/batch.h).
struct InputSpec {
  // What the array holds in a micro-batch that uses every row, where its values do not matter: they are measured with.
  enum class Full : std::uint8_t {
    kZeros,
    kOnes,
    kCount,    // one element: `count`
    kOffsets,  // 0, then `count` in each element: the first sample has every row
  };
  std::string name;
  TensorType type;
  Full full = Full::kZeros;
  std::int64_t count = 0;
};

// The picture that an encoder sees of a page; none: `size` is 0.
struct ImageForm {
  std::int64_t size = 0;  // pixels a side
  std::int64_t patches_per_side = 0;
  std::int64_t channels = 3;
};

// What data have to know of an encoder: how large its tables are, and what it sees.
struct EncoderFacts {
  std::int64_t hidden_size = 0;  // D
  std::int64_t vocab_size = 0;
  std::int64_t pad_token_id = 0;
  std::int64_t positions = 0;       // rows of the table of positions: max_position_embeddings
  std::int64_t first_position = 0;  // of a page's first token; RoBERTa's begin behind the padding token's
  std::int64_t coordinates = 0;     // rows of the tables of boxes; 0: no boxes are read
  std::int64_t token_types = 0;
  ImageForm image;

  // Text tokens that the table of positions holds.
  std::int64_t max_text_tokens() const { return positions - first_position; }
};

// The encoder's last hidden states, in its own type, and where a head finds its rows.
struct Encoded {
  ValueId hidden = kNoValue;      // [N, D]
  ValueId row_source = kNoValue;  // as the inputs of these names; kNoValue: every row is a text row
  ValueId text_row_index = kNoValue;
  ValueId text_rows = kNoValue;      // how many text rows are used
  ValueId text_row_keys = kNoValue;  // of dropout
};

class ModelBuilder;

// The part of a model that a family has, whatever it is trained for. An object never changes.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // The name that `transformers` gives the encoder within a model with a head, and that begins its parameters' names:
  // "layoutlmv3".
  virtual std::string_view prefix() const = 0;
  virtual EncoderFacts facts() const = 0;
  // Parameters in the order in which `transformers` lists them.
  virtual std::vector<ParameterSpec> specs(const ModelOptions& options) const = 0;
  // Every linear map of the layers, layer by layer: what may have an adapter.
  virtual std::vector<LinearMap> linear_maps() const = 0;
  virtual std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType wide_type) const = 0;
  // Rows of the encoder that a micro-batch has at most: N.
  virtual std::int64_t rows(const ModelCapacity& capacity) const = 0;
  virtual Encoded encode(ModelBuilder& builder) const = 0;
  // The nodes that end the layers: the checkpoints of gradient checkpointing.
  virtual std::set<std::string> layer_outputs() const = 0;
};

struct HeadValues {
  ValueId loss = kNoValue;    // f32[1], loss_scale times the sum over what is labelled
  ValueId logits = kNoValue;  // f32
};

// The part of a model that a task has.
class Head {
 public:
  virtual ~Head() = default;
  virtual std::vector<ParameterSpec> specs(std::int64_t hidden_size) const = 0;
  virtual std::vector<InputSpec> inputs(const ModelCapacity& capacity) const = 0;
  virtual HeadValues append(ModelBuilder& builder, const Encoded& encoded) const = 0;
};

struct ModelGraph {
  Graph graph;
  ValueId loss = kNoValue, logits = kNoValue;  // HeadValues
  std::vector<ValueId> trained;                // parameters that train, in the order of ModelDefinition::specs
};

// The scalars of a micro-batch that every model's graph reads beside its inputs.
inline constexpr const char kDropoutKeyInput[] = "dropout_key", kLossScaleInput[] = "loss_scale";

class ModelDefinition {
 public:
  ModelDefinition() = default;  // of no model; only to be assigned to
  ModelDefinition(std::shared_ptr<const Encoder> encoder, std::shared_ptr<const Head> head);

  const Encoder& encoder() const { return *encoder_; }
  // Every parameter: the encoder's, the head's, then the adapters'.
  std::vector<ParameterSpec> specs(const ModelOptions& options = {}) const;
  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType dtype) const;
  // The forward graph. `dtype`: of the encoder's activations. With a half, embeddings, the head and the loss stay F32:
  // they are a small part of the work, and the loss is where precision counts. `dropout`: with dropout at the config's
  // rates (training) or without (evaluation, checking gradients). The word embedding's gradient comes as rows.
  ModelGraph build(const ModelCapacity& capacity, bool dropout, const ModelOptions& options = {},
                   DType dtype = DType::kF32) const;

 private:
  std::shared_ptr<const Encoder> encoder_;
  std::shared_ptr<const Head> head_;
};

}  // namespace plimsoll
