#include "backend/partial_sums_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/lone_node.h"
#include "graph/partial_sums.h"

namespace plimsoll {
namespace {

class PartialSumsKernel final : public Kernel {
 public:
  PartialSumsKernel(const Graph& graph, const Node& node, const PrepareKernel& prepare) {
    Graph alone;
    Node whole = lone_node(graph, node, alone);
    whole.attributes = with_partial_sums(node, 0);
    for (const ValueId output : alone.add_node(std::move(whole))) {
      check(outputs_ < kMostOutputs, "a gradient has few outputs");
      types_[outputs_++] = alone.type(output);
    }
    kernel_ = prepare(alone, alone.nodes().back());
    parts_at_ = summed_outputs(node).value().first;
  }

  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

  void run(const KernelArguments& arguments) const override {
    const std::span<std::byte> parts = arguments.outputs[parts_at_].byte_span();
    std::array<TensorView, kMostOutputs> outputs;
    std::ranges::copy(arguments.outputs.first(parts_at_), outputs.begin());
    std::byte* at = parts.data();
    for (std::size_t i = parts_at_; i < outputs_; ++i) {
      outputs[i] = TensorView(types_[i], at);
      at += types_[i].bytes();
    }
    KernelArguments whole = arguments;
    whole.outputs = std::span(outputs).first(outputs_);
    kernel_->run(whole);
    std::memset(at, 0, parts.size() - static_cast<std::size_t>(at - parts.data()));
  }

 private:
  static constexpr std::size_t kMostOutputs = 12;

  std::array<TensorType, kMostOutputs> types_{};
  std::size_t outputs_ = 0, parts_at_ = 0;
  std::unique_ptr<Kernel> kernel_;
};

class AddPartialSums final : public Kernel {
 public:
  explicit AddPartialSums(const Node& node) : sums_(std::get<PartialSumsAttributes>(node.attributes).sums) {}

  void run(const KernelArguments& a) const override {
    std::size_t output = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      for (std::int64_t sum = 0; sum < sums_[i]; ++sum, ++output) {
        if (a.inputs[i].dtype() == DType::kF64) {
          add<double>(a.inputs[i], sum, a.outputs[output]);
        } else {
          add<float>(a.inputs[i], sum, a.outputs[output]);
        }
      }
    }
  }

 private:
  template <typename T>
  static void add(const TensorView& parts, std::int64_t sum, const TensorView& to) {
    const std::int64_t count = parts.shape()[0], stride = parts.shape()[1], width = to.elements();
    for (std::int64_t c = 0; c < width; ++c) {
      double total = 0;
      for (std::int64_t part = 0; part < count; ++part) {
        total += double{parts.data<T>()[part * stride + sum * width + c]};
      }
      to.data<T>()[c] = static_cast<T>(total);
    }
  }

  std::vector<std::int64_t> sums_;
};

}  // namespace

std::unique_ptr<Kernel> partial_sums_kernel(const Graph& graph, const Node& node, const PrepareKernel& prepare) {
  return std::make_unique<PartialSumsKernel>(graph, node, prepare);
}

std::unique_ptr<Kernel> make_add_partial_sums_kernel(const Node& node) {
  return std::make_unique<AddPartialSums>(node);
}

}  // namespace plimsoll
