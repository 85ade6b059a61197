// LayerNormForm: the order of inputs and outputs of kLayerNorm and kLayerNormGrad, which depends on what a node has.
//
//   kLayerNorm      x, gamma, beta | residual | row_keys, dropout_key     -> y, normalized, rstd
//   kLayerNormGrad  dy, normalized, rstd, gamma | row_keys, dropout_key   -> dx, (dropped,) dgamma, dbeta (, sums)
//
// dx is the gradient of the sum that was normalized, and so of the residual. The gradient of x is `dropped`, dx after
// dropout, or dx itself where nothing was dropped.
#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace plimsoll {

struct LayerNormForm {
  bool gradient = false;
  bool has_residual = false;  // of kLayerNorm
  bool drops = false;
  bool column_sums = false;  // of a gradient

  // Positions among the inputs, for both ops where they have them.
  static constexpr std::size_t kResidual = 3, kRowKeys = 4, kDropoutKey = 5;
  // Positions among a gradient's outputs.
  constexpr std::size_t of_x() const { return drops ? 1 : 0; }
  constexpr std::size_t dgamma() const { return of_x() + 1; }
  constexpr std::size_t dbeta() const { return of_x() + 2; }
  constexpr std::size_t sums() const { return of_x() + 3; }
};

// Throws InternalError for any other op.
inline LayerNormForm layer_norm_form(const Node& node) {
  check(node.op == Op::kLayerNorm || node.op == Op::kLayerNormGrad, "layer norm's form is asked of layer norm");
  const bool gradient = node.op == Op::kLayerNormGrad;
  return {.gradient = gradient,
          .has_residual = !gradient && node.inputs.size() > LayerNormForm::kResidual,
          .drops = node.inputs.size() > LayerNormForm::kRowKeys,
          .column_sums = gradient && std::get<LayerNormAttributes>(node.attributes).column_sums};
}

}  // namespace plimsoll
