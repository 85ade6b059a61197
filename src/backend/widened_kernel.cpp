#include "backend/widened_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "tensor/block_code.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

void widen(const TensorView& half, float* to) {
  if (is_coded(half.dtype())) {
    const std::int64_t rows = half.shape()[0], columns = half.shape()[1];
    const std::size_t row_bytes = coded_row_bytes(half.dtype(), columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      decode_row(half.dtype(), static_cast<const std::byte*>(half.raw()) + static_cast<std::size_t>(row) * row_bytes, 0,
                 {to + row * columns, static_cast<std::size_t>(columns)});
    }
    return;
  }
  const std::span<const std::uint16_t> bits = half.span<std::uint16_t>();
  const auto convert = half.dtype() == DType::kBF16 ? bfloat16_to_float : half_to_float;
  std::transform(bits.begin(), bits.end(), to, convert);
}

void narrow(const float* from, const TensorView& half) {
  const std::span<std::uint16_t> bits = half.span<std::uint16_t>();
  const auto convert = half.dtype() == DType::kBF16 ? float_to_bfloat16 : float_to_half;
  std::transform(from, from + bits.size(), bits.begin(), convert);
}

// The place of a tensor for the inner kernel: in scratch at `offset`, or, if it is not a half, its own.
struct Place {
  bool widened = false;
  std::size_t offset = 0;
  TensorType type;

  TensorView view(const TensorView& original, std::byte* scratch) const {
    return widened ? TensorView(type, scratch + offset) : original;
  }
};

// Changes the output's type in attributes that say it.
void widen_type(Attributes& attributes) {
  if (auto* const cast = std::get_if<CastAttributes>(&attributes)) cast->to = wide(cast->to);
  if (auto* const biases = std::get_if<AttentionBiasAttributes>(&attributes)) biases->to = wide(biases->to);
  if (auto* const dropout = std::get_if<DropoutAttributes>(&attributes); dropout != nullptr && dropout->to) {
    dropout->to = wide(*dropout->to);
  }
}

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const Graph& graph, const Node& node, const PrepareKernel& prepare) {
    Graph wide_graph;
    Node wide_node = node;
    wide_node.inputs.clear();
    wide_node.outputs.clear();
    for (const ValueId input : node.inputs) {
      const Value& value = graph.value(input);
      inputs_.push_back(place(value.type));
      const std::string name = fmt::format("input {}", wide_node.inputs.size());
      wide_node.inputs.push_back(is_persistent(value.role) ? wide_graph.add_state(name, inputs_.back().type)
                                                           : wide_graph.add_input(name, inputs_.back().type));
    }
    if (node.row_count != kNoValue) wide_node.row_count = wide_graph.add_input("rows", {DType::kI32, {1}});
    widen_type(wide_node.attributes);
    wide_node.outputs = wide_graph.add_node(wide_node);
    for (const ValueId output : node.outputs) outputs_.push_back(place(graph.type(output)));
    for (const Alias& alias : op_aliases(node.op, node.inputs.size())) {
      if (alias.kind == Alias::Kind::kMust) outputs_[alias.output] = inputs_[alias.input];
    }
    kernel_ = prepare(wide_graph, wide_graph.nodes().back());
    std::size_t inner_bytes = kernel_->scratch_bytes();
    if (node.op == Op::kLayerNorm) {
      wide_graph.add_node({.op = Op::kAffine,
                           .name = node.name,
                           .inputs = {wide_node.outputs[1], wide_node.inputs[1], wide_node.inputs[2]},
                           .row_count = wide_node.row_count});
      affine_ = prepare(wide_graph, wide_graph.nodes().back());
      inner_bytes = std::max(inner_bytes, affine_->scratch_bytes());
    }
    inner_at_ = scratch_bytes_;
    scratch_bytes_ += inner_bytes;
    wide_inputs_.resize(inputs_.size());
    wide_outputs_.resize(outputs_.size());
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    std::byte* const scratch = arguments.scratch.data();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      wide_inputs_[i] = inputs_[i].view(arguments.inputs[i], scratch);
      if (inputs_[i].widened) widen(arguments.inputs[i], wide_inputs_[i].data<float>());
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      wide_outputs_[i] = outputs_[i].view(arguments.outputs[i], scratch);
    }
    kernel_->run({.inputs = wide_inputs_,
                  .outputs = wide_outputs_,
                  .scratch = arguments.scratch.subspan(inner_at_),
                  .row_count = arguments.row_count});
    for (std::size_t i = outputs_.size(); i-- > 0;) {
      if (i == 0 && affine_ != nullptr) affine_again(arguments);
      if (outputs_[i].widened) narrow(wide_outputs_[i].data<float>(), arguments.outputs[i]);
    }
  }

 private:
  // layer_norm's y must follow from the stored normalized output, which has been rounded by now.
  void affine_again(const KernelArguments& arguments) const {
    widen(arguments.outputs[1], wide_outputs_[1].data<float>());
    const TensorView inputs[] = {wide_outputs_[1], wide_inputs_[1], wide_inputs_[2]};
    affine_->run({.inputs = inputs,
                  .outputs = std::span(wide_outputs_).first(1),
                  .scratch = arguments.scratch.subspan(inner_at_),
                  .row_count = arguments.row_count});
  }

  Place place(const TensorType& type) {
    if (!is_half(type.dtype) && !is_coded(type.dtype)) return {.type = type};
    const Place place{.widened = true, .offset = scratch_bytes_, .type = {DType::kF32, type.shape}};
    scratch_bytes_ += round_up(place.type.bytes(), kAlignmentBytes);
    return place;
  }

  std::vector<Place> inputs_{}, outputs_{};
  std::unique_ptr<Kernel> kernel_{}, affine_{};
  std::size_t inner_at_ = 0, scratch_bytes_ = 0;
  mutable std::vector<TensorView> wide_inputs_{}, wide_outputs_{};  // of the run in progress
};

}  // namespace

bool needs_widening(const Graph& graph, const Node& node) {
  return any_tensor(graph, node, is_half) || any_tensor(graph, node, is_coded);
}

std::unique_ptr<Kernel> widened_kernel(const Graph& graph, const Node& node, const PrepareKernel& prepare) {
  return std::make_unique<WidenedKernel>(graph, node, prepare);
}

}  // namespace plimsoll
