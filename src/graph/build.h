// Typed helpers that append one node each; the model and the gradient rules read better through them.
// `rows` is the i32[1] value that counts the real rows (kNoValue: all). Shapes: see the catalogue in graph/op.h.
#pragma once

#include <string>

#include "graph/graph.h"

namespace plimsoll {

// Appends a node with one output and returns it; where an op has several, add_node's list is used directly.
ValueId add_single(Graph& graph, Node node);

struct LayerNormValues {
  ValueId y, normalized, rstd;
};

// The host inputs that say where a packed batch's samples lie; see data/batch.h for the arrays of the same names.
struct AttentionContext {
  ValueId sample_offsets, relative_coordinates, key_mask, position_table, x_table, y_table, row_keys, dropout_key;
};

ValueId embedding(Graph& graph, std::string name, ValueId table, ValueId ids, EmbeddingAttributes attributes, ValueId rows);
ValueId add(Graph& graph, std::string name, ValueId a, ValueId b, ValueId rows);
ValueId linear(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId bias, ValueId rows);
// addend + x weight^T, in addend's bytes where it dies here.
ValueId linear_add(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId addend, ValueId rows);
// Returns x itself where the factor is 1.
ValueId scale(Graph& graph, std::string name, ValueId x, double factor, ValueId rows);
LayerNormValues layer_norm(Graph& graph, std::string name, ValueId x, ValueId gamma, ValueId beta, double eps, ValueId rows);
// Returns x itself where p is 0.
ValueId dropout(Graph& graph, std::string name, ValueId x, ValueId row_keys, ValueId dropout_key, DropoutAttributes attributes,
                ValueId rows);
// Returns x itself where it has that type already.
ValueId cast(Graph& graph, std::string name, ValueId x, DType to, ValueId rows);
// Returns the output; log_sum_exp is the value after it.
ValueId attention(Graph& graph, std::string name, ValueId q, ValueId k, ValueId v, const AttentionContext& context,
                  AttentionAttributes attributes, ValueId rows);

}  // namespace plimsoll
