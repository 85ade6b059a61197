#include "backend/cuda/sizes/tails.h"

#include <algorithm>

#include "graph/op_facts.h"

namespace plimsoll::cuda {
namespace {

// Whose kernels write zeros behind the real rows of all outputs that count rows, whatever their inputs hold there.
bool clears_tail(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kScale:
    case Op::kDropout:
    case Op::kGelu:
    case Op::kGeluGrad:
    case Op::kTanh:
    case Op::kTanhGrad:
    case Op::kRelu:
    case Op::kReluGrad:
    case Op::kCast:
    case Op::kLayerNorm:
    case Op::kLayerNormGrad:
    case Op::kAffine:
    case Op::kAttention:
    case Op::kAttentionGrad:
      return true;
    default:
      return false;
  }
}

}  // namespace

Tail tail_of(const Graph& graph, ValueId value, ValueId row_count) {
  const NodeId producer = graph.value(value).producer;
  if (producer == kNoNode || graph.node(producer).row_count != row_count) return Tail::kUnknown;
  const Node& node = graph.node(producer);
  if (clears_tail(node.op)) return Tail::kZero;
  const auto is_zero = [&](std::size_t i) { return tail_of(graph, node.inputs[i], row_count) == Tail::kZero; };
  switch (node.op) {
    case Op::kLinear:
      if (!is_zero(0)) return Tail::kUnknown;  // products of anything may be infinite
      return node.inputs.size() == 3 ? Tail::kFinite : Tail::kZero;
    case Op::kLinearAdd:
    case Op::kLinearInputGrad:
      return is_zero(0) && (node.inputs.size() < 3 || is_zero(2)) ? Tail::kZero : Tail::kUnknown;
    default:
      return Tail::kUnknown;
  }
}

bool add_nothing(Tail a, Tail b) { return std::max(a, b) == Tail::kZero && std::min(a, b) != Tail::kUnknown; }

}  // namespace plimsoll::cuda
