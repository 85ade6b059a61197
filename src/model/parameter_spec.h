// ParameterSpec: a model's parameter, in its graph and in weight files; and the options that decide which of them train
// and which type they have in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/lora.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace plimsoll {

struct ParameterSpec {
  // The part of the model that a parameter belongs to. Which type it has in memory, what an optimizer may do with it
  // and which file holds it depend on the part, never on the name.
  enum class Part : std::uint8_t {
    kOther,           // norms, biases, the image's projection
    kWordEmbedding,   // by far the largest table; its gradient comes as rows
    kEmbedding,       // the other tables for tokens or boxes, an nn.Embedding of `transformers`
    kEncoderMatrix,   // a weight matrix of an encoder's layer
    kAttentionTable,  // of biases by distance: a look-up, though an nn.Linear in `transformers`
    kLanguageHead,    // [V, D], published with the encoder and trained or frozen as its embedding is
    kHead,            // made new if the labels require it, and trained beside adapters
    kAdapter,         // model/lora.h; not part of the base model
    kMask             // factors of a map's input columns (ModelOptions::masked_maps); no file has them
  };
  // kNormalPaddingRow: `padding_row` is zero. kKaimingUniform: within 1 / sqrt(columns), like a new nn.Linear.
  // kRowNorms: the norms of the rows of `norms_of`, in memory's order; that parameter must come before this one.
  enum class Init : std::uint8_t { kNormal, kZeros, kOnes, kNormalPaddingRow, kKaimingUniform, kRowNorms };
  std::string name;  // in the graph and in files: "encoder.layer.0.output.dense.weight"
  Shape shape;       // in the graph
  Shape file_shape;  // in weight files; the same elements in the same order, unless `transposed` or with `rows`
  // The graph has only these rows of the file's matrix, ascending; nullptr: it has all (ModelOptions::word_rows).
  std::shared_ptr<const std::vector<std::int32_t>> rows{};
  // A file has the transposed matrix, [columns, rows], as for Conv1D of `transformers` (model/file_values.h).
  bool transposed = false;
  Init init = Init::kNormal;
  Part part = Part::kOther;
  double normal_std = 0.02;      // of kNormal: `initializer_range`
  std::int64_t padding_row = 0;  // of kNormalPaddingRow: pad_token_id
  std::string norms_of{};        // of kRowNorms: a weight's name
  bool in_base = false;          // of a head's: published with the encoder, so that a new head keeps it
  std::int64_t layer = -1;       // of the encoder, from 0; -1: before the layers, or of a head
  bool trains = true;            // the relative position tables do not, as in `transformers`, nor do frozen parameters
  bool saved = false;            // of LoraOptions::saved: trained beside adapters, and in their file
  bool scores_tokens = false;    // a head multiplies rows by it (Head::scoring_weight), whatever else it is

  bool is_head() const { return part == Part::kHead; }
  bool is_adapter() const { return part == Part::kAdapter; }
  bool is_mask() const { return part == Part::kMask; }
  bool in_adapter_file() const { return is_adapter() || is_head() || saved; }
  bool is_embedding() const { return part == Part::kEmbedding || part == Part::kWordEmbedding; }
};

struct ModelOptions {
  // False (as in `transformers`): the relative position tables do not train. True (as in unilm): they train.
  bool train_relative_position_tables = false;
  // Parameters that match one of these do not train (model/trained_parts.h).
  std::vector<std::string> freeze{};
  // With adapters, only they, the classification head and the saved modules train.
  LoraOptions lora{};
  // Q8 or NF4: frozen weight matrices of the encoder are held in these codes, and a frozen word embedding in Q8,
  // because an error there is an error of every layer; in F32 if the file itself is quantized, and has it in floats.
  // F32: nothing is held in codes.
  DType frozen_weights = DType::kF32;
  DType frozen_embedding = DType::kQ8;
  // Weight matrices that are nevertheless not held in codes: those that a file of quantized weights has in floats.
  std::set<std::string> kept_in_floats{};
  // Products of such weights may round activations to 8 bits too (transform/int8_products.h). Only for models in which
  // nothing trains.
  bool rounds_activations = false;
  // Linear maps of the encoder whose input is multiplied, column by column, by factors that begin as 1: the parameters
  // mask_name(map) [in]. With them, nothing else trains. Their gradients say how each column affects the loss.
  std::set<std::string> masked_maps{};

  // The tokens whose rows of the word embedding are in memory, ascending: those that the data has, so that no page
  // looks up another (request/word_rows.h). nullptr: all.
  std::shared_ptr<const std::vector<std::int32_t>> word_rows{};

  bool trains_all() const { return freeze.empty() && !lora.enabled() && masked_maps.empty(); }
};

// Returns the place of a token among ModelOptions::word_rows; nothing for a token that is not there.
std::optional<std::int32_t> word_row(std::span<const std::int32_t> word_rows, std::int32_t token);

inline std::string mask_name(const std::string& map) { return map + ".input_mask"; }

// Counts those of the file, of which memory may have a part.
std::int64_t parameter_count(const std::vector<ParameterSpec>& specs);

// Returns the type of a parameter in a graph whose encoder is of `dtype`. A frozen one has the type that `options` say;
// weight matrices of the encoder, and those that score tokens, are BF16 if `dtype` is BF16; all others, adapters
// included, are wide(dtype). No weights are F16: F32 cannot be restored from it.
DType parameter_type(const ParameterSpec& spec, DType dtype, const ModelOptions& options);

}  // namespace plimsoll
