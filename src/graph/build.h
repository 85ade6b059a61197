// Typed helpers that append one node each, so that the model and the gradient rules are easier to read. `rows` is the
// i32[1] value that counts the real rows (kNoValue: all). Shapes: see the catalogue in graph/op.h.
#pragma once

#include <string>

#include "graph/graph.h"

namespace plimsoll {

// Appends a node with one output and returns it; for an op with several outputs, use add_node's list.
ValueId add_single(Graph& graph, Node node);

struct LayerNormValues {
  ValueId y, normalized, rstd;
};

// The host inputs that say where the samples of a packed batch begin; see data/batch.h for the arrays of the same
// names. A model without one of the biases leaves out its table; a model without any leaves out the coordinates.
struct AttentionContext {
  ValueId sample_offsets, key_mask, row_keys, dropout_key;
  ValueId relative_coordinates = kNoValue, position_table = kNoValue, x_table = kNoValue, y_table = kNoValue;
  ValueId biases = kNoValue;  // made by attention_bias from the tables
};

ValueId embedding(Graph& graph, std::string name, ValueId table, ValueId ids, EmbeddingAttributes attributes, ValueId rows);
struct SpatialTables {
  ValueId x, y, h, w;
};
// Returns the table rows of a box's corners and sizes, side by side or, with `sums`, added up.
ValueId spatial_embedding(Graph& graph, std::string name, const SpatialTables& tables, ValueId bbox, bool sums, ValueId rows);
ValueId add(Graph& graph, std::string name, ValueId a, ValueId b, ValueId rows);
ValueId linear(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId bias, ValueId rows);
// Computes addend + x weight^T, in addend's bytes if addend dies here.
ValueId linear_add(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId addend, ValueId rows);
// Returns x itself if the factor is 1.
ValueId scale(Graph& graph, std::string name, ValueId x, double factor, ValueId rows);
ValueId multiply(Graph& graph, std::string name, ValueId a, ValueId b, ValueId rows);
// Computes x * gamma + beta, by columns; beta may be kNoValue.
ValueId affine(Graph& graph, std::string name, ValueId x, ValueId gamma, ValueId beta, ValueId rows);
// Computes 1 / the norm of each row of weight + factor b a.
ValueId inverse_row_norms(Graph& graph, std::string name, ValueId weight, ValueId a, ValueId b, double factor);
// `second` may be kNoValue, for zeros. The sizes and `second` of the attributes are set from the values' widths, except
// second_size if there is no second.
ValueId concat_heads(Graph& graph, std::string name, ValueId first, ValueId second, HeadsAttributes attributes, ValueId rows);
struct HeadsValues {
  ValueId first, second;  // second: kNoValue if the attributes have none
};
HeadsValues split_heads(Graph& graph, std::string name, ValueId x, HeadsAttributes attributes, ValueId rows);
// Normalizes whole rows, or each head by itself if gamma is as wide as a head.
ValueId rms_norm(Graph& graph, std::string name, ValueId x, ValueId gamma, double eps, ValueId rows);
ValueId rotary_table(Graph& graph, std::string name, ValueId positions, ValueId frequencies, ValueId rows);
// Turns the heads of x by the angles of the table.
ValueId rotary(Graph& graph, std::string name, ValueId x, ValueId table, ValueId rows);
ValueId silu_multiply(Graph& graph, std::string name, ValueId gate, ValueId x, ValueId rows);
LayerNormValues layer_norm(Graph& graph, std::string name, ValueId x, ValueId gamma, ValueId beta, double eps, ValueId rows);
// Returns x itself if p is 0.
ValueId dropout(Graph& graph, std::string name, ValueId x, ValueId row_keys, ValueId dropout_key, DropoutAttributes attributes,
                ValueId rows);
// Returns x itself if it already has that type.
ValueId cast(Graph& graph, std::string name, ValueId x, DType to, ValueId rows);
// The context says which biases there are, whatever `attributes` say. Returns the output; the next value is
// log_sum_exp: for each head a float and its rounding error, so that a large score minus it keeps the bits by which
// scores differ.
ValueId attention(Graph& graph, std::string name, ValueId q, ValueId k, ValueId v, const AttentionContext& context,
                  AttentionAttributes attributes, ValueId rows);
// Returns the biases of attention with that context, which has tables, and those attributes. `to` is the type of its
// rows.
ValueId attention_bias(Graph& graph, std::string name, const AttentionContext& context, AttentionAttributes attributes,
                       DType to, ValueId rows);

}  // namespace plimsoll
