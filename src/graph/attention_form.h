// AttentionForm: the order of inputs of kAttention, kAttentionGrad and kAttentionBias, which depends on the biases that
// a node has.
//
//   kAttention      q, k, v, sample_offsets, key_mask, row_keys, dropout_key | relative_coordinates, tables, biases
//   kAttentionGrad  doutput, q, k, v, output, log_sum_exp, then kAttention's inputs from sample_offsets on
//   kAttentionBias  sample_offsets, key_mask, relative_coordinates, tables
//
// The inputs after the bar are present only with a bias: coordinates with any bias, position's table with the position
// bias, the tables of x and y with the spatial bias, biases with AttentionAttributes::made_biases. Kernels look biases
// up in the tables or read the ones that are made, which are the same except for their rounding. A gradient's outputs
// are dq, dk, dv, then with ::table_gradients those of the tables that are present, in their order, then with
// ::column_sums the sums of dq, dk and dv.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "graph/graph.h"

namespace plimsoll {

struct AttentionForm {
  static constexpr std::size_t kBiases = 3;  // position, x, y: the columns of relative_coordinates

  Op op = Op::kAttention;
  std::array<bool, kBiases> has_bias{};
  bool made_biases = false;

  constexpr std::size_t tables() const { return tables_before(kBiases); }
  // Positions among the node's inputs. A kAttentionBias has no q, k, v, row_keys and dropout_key.
  constexpr std::size_t q() const { return op == Op::kAttentionGrad ? 1 : 0; }  // k and v follow
  constexpr std::size_t output() const { return 4; }                            // of a gradient; log_sum_exp follows
  constexpr std::size_t sample_offsets() const { return op == Op::kAttentionGrad ? 6 : op == Op::kAttention ? 3 : 0; }
  constexpr std::size_t key_mask() const { return sample_offsets() + 1; }
  constexpr std::size_t row_keys() const { return sample_offsets() + 2; }
  constexpr std::size_t dropout_key() const { return sample_offsets() + 3; }
  constexpr std::size_t coordinates() const { return sample_offsets() + (op == Op::kAttentionBias ? 2 : 4); }
  constexpr std::size_t table(std::size_t bias) const { return coordinates() + 1 + tables_before(bias); }
  constexpr std::size_t biases() const { return coordinates() + 1 + tables(); }
  constexpr std::size_t inputs() const { return tables() == 0 ? coordinates() : biases() + (made_biases ? 1 : 0); }
  // Positions among the gradient's outputs.
  constexpr std::size_t table_gradient(std::size_t bias) const { return 3 + tables_before(bias); }
  // The position of dq's sums; those of dk and dv follow.
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

// Returns the attributes of any of the three ops, or of a kCachedAttention. Throws InternalError for any other.
inline const AttentionAttributes& attention_attributes(const Node& node) {
  if (node.op == Op::kAttentionBias) return std::get<AttentionBiasAttributes>(node.attributes).attention;
  check(node.op == Op::kAttention || node.op == Op::kAttentionGrad || node.op == Op::kCachedAttention,
        "attention's form is asked of attention");
  return std::get<AttentionAttributes>(node.attributes);
}
inline AttentionForm attention_form(const Node& node) {
  check(node.op != Op::kCachedAttention, "attention over a cache has a form of its own");
  const AttentionAttributes& attributes = attention_attributes(node);
  return {.op = node.op,
          .has_bias = {attributes.position_bias, attributes.spatial_bias, attributes.spatial_bias},
          .made_biases = attributes.made_biases};
}

inline std::int64_t key_value_heads(const AttentionAttributes& attributes) {
  return attributes.key_value_heads > 0 ? attributes.key_value_heads : attributes.heads;
}

// Returns the most rows that a sample may have, out of `rows` in all.
constexpr std::int64_t longest_sample(const AttentionAttributes& attributes, std::int64_t rows) {
  return attributes.longest_sample > 0 ? std::min(attributes.longest_sample, rows) : rows;
}
// Returns K, the number of keys in a row of made biases for each head.
constexpr std::int64_t attention_bias_keys(const AttentionAttributes& attributes, std::int64_t rows) {
  return (longest_sample(attributes, rows) + 7) / 8 * 8;
}

}  // namespace plimsoll
