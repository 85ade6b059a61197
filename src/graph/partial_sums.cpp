#include "graph/partial_sums.h"

#include "graph/attention_form.h"
#include "graph/layer_norm_form.h"

namespace plimsoll {

std::optional<SummedOutputs> summed_outputs(const Node& node) {
  switch (node.op) {
    case Op::kBiasGrad:
      return SummedOutputs{.first = 0, .count = 1};
    case Op::kRmsNormGrad:
      return SummedOutputs{.first = 1, .count = 1};
    case Op::kLayerNormGrad: {
      const LayerNormForm form = layer_norm_form(node);
      return SummedOutputs{.first = form.dgamma(), .count = form.column_sums ? 3 : 2};
    }
    case Op::kGeluGrad:
      if (!std::get<GeluAttributes>(node.attributes).column_sums) return std::nullopt;
      return SummedOutputs{.first = 1, .count = 1};
    case Op::kAttentionGrad:
      if (!std::get<AttentionAttributes>(node.attributes).column_sums) return std::nullopt;
      return SummedOutputs{.first = attention_form(node).column_sums(node), .count = 3};
    default:
      return std::nullopt;
  }
}

std::int64_t partial_sums(const Node& node) {
  if (!summed_outputs(node)) return 0;
  return std::visit(
      [](const auto& attributes) -> std::int64_t {
        if constexpr (requires { attributes.partial_sums; }) return attributes.partial_sums;
        return 0;
      },
      node.attributes);
}

Attributes with_partial_sums(const Node& node, std::int64_t count) {
  check(summed_outputs(node).has_value(), "only sums over rows have parts");
  Attributes attributes = node.attributes;
  if (node.op == Op::kBiasGrad) attributes = BiasGradAttributes{};
  std::visit(
      [count](auto& some) {
        if constexpr (requires { some.partial_sums; }) some.partial_sums = count;
      },
      attributes);
  return attributes;
}

}  // namespace plimsoll
