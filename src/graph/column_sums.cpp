#include "graph/column_sums.h"

#include "graph/layer_norm_form.h"
#include "graph/partial_sums.h"

namespace plimsoll {

std::vector<ColumnSums> column_sums(const Node& node) {
  const std::optional<SummedOutputs> sums = summed_outputs(node);
  if (!sums) return {};
  switch (node.op) {
    case Op::kGeluGrad:
      return {{0, sums->first}};
    case Op::kLayerNormGrad: {
      const LayerNormForm form = layer_norm_form(node);
      if (!form.column_sums) return {};
      return {{form.of_x(), form.sums()}};
    }
    case Op::kAttentionGrad:
      return {{0, sums->first}, {1, sums->first + 1}, {2, sums->first + 2}};
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
