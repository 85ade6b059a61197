// LayoutLMv3 for token classification as a graph, and its parameters under their Hugging Face names.
//
// Letters: B samples, Nt packed text rows, V visual tokens a sample, N = Nt + B V rows, D hidden, H heads, F
// intermediate, C labels. Inputs have the names and shapes of data/batch.h's arrays.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "model/config.h"
#include "model/lora.h"

namespace plimsoll {

struct ParameterSpec {
  // The part of the model that a parameter belongs to. Which type it has in memory, what an optimizer may do with it
  // and which file holds it depend on the part, never on the name.
  enum class Part : std::uint8_t {
    kOther,          // norms, biases, the image's projection, tables of attention
    kWordEmbedding,  // by far the largest table; its gradient comes as rows
    kEmbedding,      // the other tables that tokens or boxes are looked up in, an nn.Embedding of `transformers`
    kEncoderMatrix,  // a weight matrix of an encoder's layer
    kHead,           // made new where the labels ask for it, and trained beside adapters
    kAdapter         // model/lora.h; not part of the base model
  };
  // kNormalPaddingRow: row pad_token_id is zero. kKaimingUniform: within 1 / sqrt(columns), as nn.Linear begins.
  enum class Init : std::uint8_t { kNormal, kZeros, kOnes, kNormalPaddingRow, kKaimingUniform };
  std::string name;  // in the graph and in files: "layoutlmv3.encoder.layer.0.output.dense.weight"
  Shape shape;       // in the graph
  Shape file_shape;  // in weight files; the same elements in the same order
  Init init = Init::kNormal;
  Part part = Part::kOther;
  bool trains = true;  // the relative position tables do not, as in `transformers`; nor does what is frozen

  bool is_head() const { return part == Part::kHead; }
  bool is_adapter() const { return part == Part::kAdapter; }
  bool is_embedding() const { return part == Part::kEmbedding || part == Part::kWordEmbedding; }
};

struct ModelOptions {
  // False (as in `transformers`): the relative position tables stay as they are. True (as in unilm): they train.
  bool train_relative_position_tables = false;
  // Parameters that match one of these do not train (model/trained_parts.h).
  std::vector<std::string> freeze{};
  // With adapters, they and the classification head train, all else is frozen.
  LoraOptions lora{};
  // Q8 or NF4: weight matrices of the encoder that do not train are held so, and a word embedding that does not in Q8.
  DType frozen_weights = DType::kF32;

  bool trains_all() const { return freeze.empty() && !lora.enabled(); }
};

// Every parameter in the order in which `transformers` lists them, then the adapters'.
std::vector<ParameterSpec> parameter_specs(const LayoutLMv3Config& config, const ModelOptions& options = {});
std::int64_t parameter_count(const std::vector<ParameterSpec>& specs);

struct ModelCapacity {
  std::int64_t samples = 1;    // B
  std::int64_t text_rows = 0;  // Nt
};

struct ModelGraph {
  Graph graph;
  ValueId loss = kNoValue;       // f32[1], loss_scale times the sum over labelled tokens
  ValueId logits = kNoValue;     // f32[Nt, C]
  std::vector<ValueId> trained;  // parameters that train, in the order of parameter_specs
};

// The nodes that end the encoder's layers: the checkpoints of gradient checkpointing.
std::set<std::string> layer_output_nodes(const LayoutLMv3Config& config);

// The type that a parameter has in a graph whose encoder is of `dtype`: frozen, as `options` say; else a weight matrix
// of the encoder BF16 in BF16, all others, adapters among them, wide(dtype). F16 has no weights of its own: F32 cannot
// be put together again from one.
DType parameter_type(const ParameterSpec& spec, DType dtype, const ModelOptions& options);

// The forward graph. `dtype`: of the encoder's activations. With a half, embeddings, the classification head and the
// loss stay F32: they are a small part of the work, and the loss is where precision counts. `dropout`: with dropout at
// the config's rates (training) or without (evaluation, checking gradients). The word embedding's gradient comes as
// rows.
ModelGraph build_layoutlmv3(const LayoutLMv3Config& config, const ModelCapacity& capacity, bool dropout,
                            const ModelOptions& options = {}, DType dtype = DType::kF32);

}  // namespace plimsoll
