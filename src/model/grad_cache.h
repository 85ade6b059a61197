// GradCache: a model that compares pages, in two parts that share a table of embeddings, so that the pages of an update
// need not be in memory together (Gao, Zhang, Han, Callan 2021, "Scaling Deep Contrastive Learning Batch Size under
// Memory Limited Setup").
//
// An update runs three parts. Each chunk of pages is embedded, without a graph to go back through, and its rows are put
// into the table. The head reads the table, gives the loss and the gradients of its own parameters, and the gradients
// of the embeddings take the table's bytes. Each chunk is embedded once more and goes backward from its rows of them.
// Dropout is a function of counters, so the second time gives the first one's bits, and the gradients are those of the
// whole update up to the order of sums over chunks.
//
//   const ModelDefinition embeds = embedding_part(model, EmbeddingPass::kPut, update_samples);
//   const ModelDefinition compares = comparison_part(model);
#pragma once

#include <cstdint>

#include "model/definition.h"

namespace plimsoll {

// The table, a state f32[R, D] of R samples an update, and the first of its rows that a chunk has, an input i32[1].
inline constexpr const char* kEmbeddingTable = "update.embeddings";
inline constexpr const char* kFirstSampleInput = "first_sample";

enum class EmbeddingPass : std::uint8_t {
  kPut,  // puts the embeddings of a chunk into the table; there is no loss
  kBack  // the loss's gradient is the table's rows; the loss itself means nothing
};

// Whether a model can be computed so: its head reads the first row of each sample, and nothing else of the encoder.
bool has_grad_cache(const ModelDefinition& model);

// The encoder, of whose capacity the samples are single pages, whatever an example is; `update_samples` is R.
ModelDefinition embedding_part(const ModelDefinition& model, EmbeddingPass pass, std::int64_t update_samples);

// The head, whose encoder is the table; its capacity's samples are the examples of an update. All parameters are
// declared, as in the whole model, and dropout's sites have the same numbers.
ModelDefinition comparison_part(const ModelDefinition& model);

}  // namespace plimsoll
