#include "backend/cuda/sizes/tails.h"

#include <algorithm>

#include "graph/op_table.h"

namespace plimsoll::cuda {
namespace {

// These kernels write zeros after the real rows of all outputs that count rows, whatever their inputs hold there.
constexpr OpTable<bool> kClearsTail = {
    {Op::kAdd, true},           {Op::kMultiply, true},      {Op::kScale, true},
    {Op::kDropout, true},       {Op::kGelu, true},          {Op::kGeluGrad, true},
    {Op::kTanh, true},          {Op::kTanhGrad, true},      {Op::kRelu, true},
    {Op::kReluGrad, true},      {Op::kCast, true},          {Op::kAffine, true},
    {Op::kLayerNorm, true},     {Op::kLayerNormGrad, true}, {Op::kAttention, true},
    {Op::kAttentionGrad, true}, {Op::kCachedAttention, true}, {Op::kRmsNorm, true},       {Op::kRmsNormGrad, true},
    {Op::kRotary, true},        {Op::kSiluMultiply, true},  {Op::kSiluMultiplyGrad, true},
    {Op::kCrossEntropy, true},  {Op::kElementLoss, true},   {Op::kSoftCrossEntropy, true},
};

}  // namespace

Tail tail_of(const Graph& graph, ValueId value, ValueId row_count) {
  const NodeId producer = graph.value(value).producer;
  if (producer == kNoNode || graph.node(producer).row_count != row_count) return Tail::kUnknown;
  const Node& node = graph.node(producer);
  if (kClearsTail[node.op]) return Tail::kZero;
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
