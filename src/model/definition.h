// ModelDefinition: what the engine knows about a model. A family's encoder and a task's head say which parameters they
// have, which arrays they read for each micro-batch, and build the graph; nothing above names either.
//
//   const ModelDefinition model(encoder, head);
//   const std::vector<ParameterSpec> parameters = model.specs(options);
//   const ModelGraph graph = model.build({.samples = 2, .text_rows = 1024}, true, options, DType::kF32);
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "model/lora.h"
#include "model/parameter_spec.h"
#include "tensor/input_spec.h"

namespace plimsoll {

struct ModelCapacity {
  std::int64_t samples = 1;    // examples of the data; B, what the encoder reads at once, is larger for pairs of pages
  std::int64_t text_rows = 0;  // Nt
};

// What the data code has to know about an encoder: the sizes of its tables, and what it reads.
struct EncoderFacts {
  std::int64_t hidden_size = 0;  // D
  std::int64_t vocab_size = 0;
  TokenForm token;             // its pad_id is the config's pad_token_id
  std::int64_t positions = 0;  // how many a text may have: rows of their table, if there is one
  std::string_view limited_by = "max_position_embeddings";  // the config's key for it
  std::int64_t coordinates = 0;                             // rows of the tables for boxes; 0: it reads no boxes
  std::int64_t token_types = 0;
  ImageForm image;

  // Returns how many tokens a text may have.
  std::int64_t max_text_tokens() const { return positions - token.first_position; }
};

// The encoder's last hidden states, in its own type, and where a head finds its rows.
struct Encoded {
  ValueId hidden = kNoValue;      // [N, D]
  ValueId row_source = kNoValue;  // as the inputs of these names; kNoValue: every row is a text row
  ValueId text_row_index = kNoValue;
  ValueId text_rows = kNoValue;      // how many text rows are used
  ValueId text_row_keys = kNoValue;  // of dropout
  ValueId sample_rows = kNoValue;    // [B, D], if known without the others (model/grad_cache.h)
};

class ModelBuilder;

// How a family's head computes logits from the encoder's states, as in `transformers`.
struct ClassifierForm {
  std::string name = "classifier";  // the module
  // The module of a dense layer and tanh before everything else, which is published with the encoder; empty: none.
  std::string pooler{};
  double dropout = 0;        // of the states
  bool mlp = false;          // dropout, dense, tanh, dropout, out_proj instead of one linear map
  double inner_dropout = 0;  // within the mlp
  bool bias = true;          // of the last linear map
  bool last_row = false;     // the last row represents a sample, not the first: a decoder's first row sees only itself
  double initializer_range = 0.02;
};

// How a family computes logits over its vocabulary: x W^T.
struct LanguageHeadForm {
  std::string weight{};  // the parameter's name, [V, D]
  bool tied = false;     // it is the word embedding
  double initializer_range = 0.02;
};

// Units of a layer that pruning may leave out: heads of attention, or columns of a feed-forward network. A unit is
// some neighbouring rows of the maps that produce it, and the same columns of the map that consumes it.
struct PrunableUnits {
  enum class Kind : std::uint8_t { kHeads, kColumns };
  struct Stream {
    std::vector<std::string> producers;  // "….attention.self.query", …
    std::string consumer;                // "….attention.output.dense"
    std::int64_t width = 1;              // rows of a producer, and columns of the consumer, that are one unit
  };
  // A table of biases with a row for each head. All layers share it until pruning gives each layer its own.
  struct Table {
    std::string shared, own;
  };
  Kind kind = Kind::kHeads;
  std::int64_t layer = 0;
  std::int64_t units = 0;
  std::vector<Stream> streams;
  std::string key;            // of their number in an entry of config.json's `pruned_layers`
  std::int64_t shrink = 1;    // of columns: config.json's intermediate_size is this many times their number
  std::vector<Table> tables;  // of heads
  bool used = true;           // false: the graph does not compute them, though files have them
};

// The part of a model that its family determines, whatever the model is trained for. Objects are immutable.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Return its `model_type` in config.json; the prefix of its classes' names in `transformers`; and the name of the
  // encoder within a model with a head in `transformers`, which begins its parameters' names.
  virtual std::string_view model_type() const = 0;
  virtual std::string_view class_name() const = 0;
  virtual std::string_view prefix() const = 0;
  // Returns its class in `transformers` with the head of that name: usually its name, "For" and the head's name.
  virtual std::string model_class(std::string_view head) const;
  // Returns the key of config.json that has the number of layers.
  virtual std::string_view layers_key() const { return "num_hidden_layers"; }
  // Writes the family's keys to config.json's object.
  virtual void write_config(nlohmann::json& object) const = 0;
  // Say how the family builds the three heads that `transformers` has for it: one labels each text row, one labels the
  // first row of each sample, and one gives each row two numbers.
  virtual ClassifierForm token_classifier(std::int64_t labels) const = 0;
  virtual ClassifierForm sequence_classifier() const = 0;
  virtual ClassifierForm span_classifier() const = 0;
  // Returns the head that predicts the next token. Throws UsageError for a family without one, which is the default.
  virtual LanguageHeadForm language_head() const;
  virtual EncoderFacts facts() const = 0;
  // Returns the parameters in the order in which `transformers` lists them.
  virtual std::vector<ParameterSpec> specs(const ModelOptions& options) const = 0;
  // Returns every linear map of the layers, layer by layer: the maps that may have an adapter.
  virtual std::vector<LinearMap> linear_maps() const = 0;
  // Returns the units of the layers that may be pruned, layer by layer.
  virtual std::vector<PrunableUnits> prunable() const = 0;
  virtual std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType wide_type) const = 0;
  // Returns N, the most rows of the encoder in a micro-batch.
  virtual std::int64_t rows(const ModelCapacity& capacity) const = 0;
  virtual Encoded encode(ModelBuilder& builder) const = 0;
  // Returns the nodes that end the layers: the checkpoints of gradient checkpointing.
  virtual std::set<std::string> layer_outputs() const = 0;
};

struct HeadValues {
  ValueId loss = kNoValue;    // f32[1], loss_scale times the sum over the labelled items; kNoValue: none
  ValueId logits = kNoValue;  // f32
};

// The part of a model that a task has.
class Head {
 public:
  virtual ~Head() = default;
  virtual std::vector<ParameterSpec> specs(std::int64_t hidden_size) const = 0;
  virtual std::vector<InputSpec> inputs(const ModelCapacity& capacity) const = 0;
  virtual HeadValues append(ModelBuilder& builder, const Encoded& encoded) const = 0;
  // Returns the name of the weight [V, D] whose rows score every token: the word embedding's, or one of its own. Empty:
  // none.
  virtual std::string_view scoring_weight() const { return {}; }
  // Returns how many samples of the encoder an example is: two for a pair of pages, one after the other.
  virtual std::int64_t samples_per_example() const { return 1; }
  // Returns whether the loss compares the examples of an update with one another, so that it is not a sum over
  // micro-batches.
  virtual bool compares_examples() const { return false; }
  // True if it reads only those rows of the encoder that represent samples (model/grad_cache.h).
  virtual bool reads_sample_rows_alone() const { return false; }
};

struct ModelGraph {
  Graph graph;
  ValueId loss = kNoValue, logits = kNoValue;  // HeadValues
  std::vector<ValueId> trained;                // parameters that train, in the order of ModelDefinition::specs
};

class ModelDefinition {
 public:
  ModelDefinition() = default;  // empty; only to be assigned to
  ModelDefinition(std::shared_ptr<const Encoder> encoder, std::shared_ptr<const Head> head);

  const Encoder& encoder() const { return *encoder_; }
  const std::shared_ptr<const Encoder>& shared_encoder() const { return encoder_; }
  const std::shared_ptr<const Head>& shared_head() const { return head_; }
  // Returns every parameter: the encoder's, the head's, then the adapters'.
  std::vector<ParameterSpec> specs(const ModelOptions& options = {}) const;
  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType dtype) const;
  std::int64_t samples_per_example() const { return head_->samples_per_example(); }
  bool compares_examples() const { return head_->compares_examples(); }
  // Return the samples (B) and rows (N) of the encoder.
  std::int64_t samples(const ModelCapacity& capacity) const { return of_encoder(capacity).samples; }
  std::int64_t rows(const ModelCapacity& capacity) const { return encoder_->rows(of_encoder(capacity)); }
  // Builds the forward graph. `dtype` is the type of the encoder's activations. With a half, embeddings, the head and
  // the loss stay F32: they are a small part of the work, and the loss is where precision counts. `dropout`: with
  // dropout at the config's rates (training) or without (evaluation, checking gradients). The word embedding's gradient
  // comes as rows.
  ModelGraph build(const ModelCapacity& capacity, bool dropout, const ModelOptions& options = {},
                   DType dtype = DType::kF32) const;

 private:
  ModelCapacity of_encoder(const ModelCapacity& capacity) const;

  std::shared_ptr<const Encoder> encoder_;
  std::shared_ptr<const Head> head_;
};

// A model by the name that --model takes.
struct NamedModel {
  std::string name;
  ModelDefinition definition;
};

}  // namespace plimsoll
