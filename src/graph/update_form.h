// UpdateForm: the order of inputs of a node that updates a parameter (adamw, adafactor, and both by rows).
//
//   parameter parts | state parts | gradient: 1 tensor, or ids, count, rows | learning_rate, step, clip
//
// Parameter parts: one tensor, or its bfloat16 half and the remaining I16 half (tensor/split_float.h). State parts: for
// AdamW the two moments, each one tensor, or U8 codes and the blocks' largest magnitudes (tensor/dynamic_code.h); for
// Adafactor the row and column means, or one tensor for a vector. Output i is input i, updated.
//
// Adafactor's means determine how a parameter is factored: row means [.., M] and column means [.., K] stand for a stack
// of matrices [.., M, K] with the parameter's elements in order, whatever the parameter's own shape is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/graph.h"

namespace plimsoll {

constexpr bool is_parameter_update(Op op) {
  return op == Op::kAdamW || op == Op::kAdamWRows || op == Op::kAdafactor || op == Op::kAdafactorRows;
}

struct UpdateForm {
  std::size_t parameter_parts = 1;  // 2: split
  std::size_t state_parts = 2;
  bool by_rows = false;
  bool coded = false;  // 8-bit moments

  bool split() const { return parameter_parts == 2; }
  // Positions among the node's inputs.
  std::size_t states() const { return parameter_parts; }
  std::size_t gradient() const { return parameter_parts + state_parts; }         // or the ids of its rows
  std::size_t gradient_values() const { return gradient() + (by_rows ? 2 : 0); }  // or the rows
  std::size_t scalars() const { return gradient_values() + 1; }                   // learning_rate, step, clip
};

// Throws InternalError for any other op, or if inputs are missing; the shape rule checks the rest.
UpdateForm update_form(const Graph& graph, const Node& node);

// The matrices that an adafactor node updates: those of its states, or one row for a vector.
struct MatrixStack {
  std::int64_t matrices = 0, rows = 0, columns = 0;  // rows and columns of one matrix
};
MatrixStack matrix_stack(const Graph& graph, const Node& node);

// The shapes of Adafactor's states for a tensor of rank 2 or more, without the last, or the second last, dimension.
Shape row_mean_shape(const Shape& shape);
Shape column_mean_shape(const Shape& shape);

}  // namespace plimsoll
