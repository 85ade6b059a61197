// AttentionForm: the order of inputs of kAttention and kAttentionGrad, which depends on the biases that a node has.
//
//   kAttention      q, k, v, sample_offsets, key_mask, row_keys, dropout_key | relative_coordinates, tables
//   kAttentionGrad  doutput, q, k, v, output, log_sum_exp, then kAttention's inputs from sample_offsets on
//
// What stands behind the bar is there with a bias only: coordinates with any, position's table with the position bias,
// those of x and y with the spatial one. A gradient's outputs are dq, dk, dv, then with
// AttentionAttributes::table_gradients those of the tables that there are, in their order, then with ::column_sums
// those of dq, dk and dv.
#pragma once

#include <array>
#include <cstddef>

#include "graph/graph.h"

namespace plimsoll {

struct AttentionForm {
  static constexpr std::size_t kBiases = 3;  // position, x, y: the columns of relative_coordinates

  bool gradient = false;
  std::array<bool, kBiases> has_bias{};

  constexpr std::size_t tables() const { return tables_before(kBiases); }
  // Positions among the node's inputs.
  constexpr std::size_t q() const { return gradient ? 1 : 0; }  // k and v follow
  constexpr std::size_t output() const { return 4; }            // of a gradient; log_sum_exp follows
  constexpr std::size_t sample_offsets() const { return gradient ? 6 : 3; }
  constexpr std::size_t key_mask() const { return sample_offsets() + 1; }
  constexpr std::size_t row_keys() const { return sample_offsets() + 2; }
  constexpr std::size_t dropout_key() const { return sample_offsets() + 3; }
  constexpr std::size_t coordinates() const { return sample_offsets() + 4; }
  constexpr std::size_t table(std::size_t bias) const { return coordinates() + 1 + tables_before(bias); }
  constexpr std::size_t inputs() const { return coordinates() + (tables() == 0 ? 0 : 1 + tables()); }
  // Among the gradient's outputs.
  constexpr std::size_t table_gradient(std::size_t bias) const { return 3 + tables_before(bias); }
  // Of dq; those of dk and dv follow.
  std::size_t column_sums(const Node& node) const {
    return 3 + (std::get<AttentionAttributes>(node.attributes).table_gradients ? tables() : 0);
  }

 private:
  constexpr std::size_t tables_before(std::size_t bias) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < bias; ++i) count += has_bias[i] ? 1 : 0;
    return count;
  }
};

// Throws InternalError for any other op.
inline AttentionForm attention_form(const Node& node) {
  check(node.op == Op::kAttention || node.op == Op::kAttentionGrad, "attention's form is asked of attention");
  const auto& attributes = std::get<AttentionAttributes>(node.attributes);
  return {.gradient = node.op == Op::kAttentionGrad,
          .has_bias = {attributes.position_bias, attributes.spatial_bias, attributes.spatial_bias}};
}

}  // namespace plimsoll
