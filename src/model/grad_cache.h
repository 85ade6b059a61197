// GradCache: splits a model that compares pages into two parts that share a table of embeddings, so that the pages of
// an update need not be in memory together (Gao, Zhang, Han, Callan 2021, "Scaling Deep Contrastive Learning Batch Size
// under Memory Limited Setup").
//
// An update has three steps. First, each chunk of pages is embedded, without keeping activations, and its rows are put
// into the table. Then the head reads the table and computes the loss and the gradients of its own parameters, and the
// gradients of the embeddings replace the table's content. Last, each chunk is embedded once more and goes backward
// from its rows of these gradients. Dropout is a function of counters, so both times give the same bits, and the
// gradients are those of the whole update up to the order of sums over chunks.
//
//   const ModelDefinition embeds = embedding_part(model, EmbeddingPass::kPut, update_samples);
//   const ModelDefinition compares = comparison_part(model);
#pragma once

#include <cstdint>

#include "model/definition.h"

namespace plimsoll {

// The table, a state f32[R, D] for R samples per update, and an input i32[1], the first row of a chunk in it.
inline constexpr const char* kEmbeddingTable = "update.embeddings";
inline constexpr const char* kFirstSampleInput = "first_sample";

enum class EmbeddingPass : std::uint8_t {
  kPut,  // puts the embeddings of a chunk into the table; there is no loss
  kBack  // the loss's gradient is the table's rows; the loss itself is meaningless
};

// Returns whether a model can be computed this way: its head reads only the first row of each sample.
bool has_grad_cache(const ModelDefinition& model);

// Returns the encoder as a model. The samples of its capacity are single pages, whatever an example is;
// `update_samples` is R.
ModelDefinition embedding_part(const ModelDefinition& model, EmbeddingPass pass, std::int64_t update_samples);

// Returns the head as a model whose encoder is the table; its capacity's samples are the examples of an update. All
// parameters are declared, as in the whole model, and dropout's sites have the same numbers.
ModelDefinition comparison_part(const ModelDefinition& model);

}  // namespace plimsoll
