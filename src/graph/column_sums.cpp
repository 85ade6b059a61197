#include "graph/column_sums.h"

#include "graph/attention_form.h"
#include "graph/layer_norm_form.h"

namespace plimsoll {

std::vector<ColumnSums> column_sums(const Node& node) {
  switch (node.op) {
    case Op::kGeluGrad:
      if (!std::get<GeluAttributes>(node.attributes).column_sums) return {};
      return {{0, 1}};
    case Op::kLayerNormGrad: {
      const LayerNormForm form = layer_norm_form(node);
      if (!form.column_sums) return {};
      return {{form.of_x(), form.sums()}};
    }
    case Op::kAttentionGrad: {
      if (!std::get<AttentionAttributes>(node.attributes).column_sums) return {};
      const std::size_t first = attention_form(node).column_sums(node);
      return {{0, first}, {1, first + 1}, {2, first + 2}};
    }
    default:
      return {};
  }
}

Attributes with_column_sums(const Node& node, bool sums) {
  Attributes attributes = node.attributes;
  if (auto* const of_gelu = std::get_if<GeluAttributes>(&attributes)) of_gelu->column_sums = sums;
  if (auto* const of_norm = std::get_if<LayerNormAttributes>(&attributes)) of_norm->column_sums = sums;
  if (auto* const of_attention = std::get_if<AttentionAttributes>(&attributes)) of_attention->column_sums = sums;
  return attributes;
}

}  // namespace plimsoll
