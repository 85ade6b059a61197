#include "backend/column_sums_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/lone_node.h"
#include "graph/column_sums.h"

namespace plimsoll {
namespace {

class ColumnSumsKernel final : public Kernel {
 public:
  ColumnSumsKernel(const Graph& graph, const Node& node, const PrepareKernel& prepare) {
    Graph parts;
    Node plain = lone_node(graph, node, parts);
    plain.attributes = with_column_sums(node, false);
    const ValueId rows = plain.row_count;
    const std::vector<ValueId> outputs = parts.add_node(std::move(plain));
    plain_outputs_ = outputs.size();
    kernel_ = prepare(parts, parts.nodes().back());
    scratch_bytes_ = kernel_->scratch_bytes();
    for (const ColumnSums& sums : column_sums(node)) {
      parts.add_node({.op = Op::kBiasGrad,
                      .name = fmt::format("{}.sums {}", node.name, sums.of),
                      .inputs = {outputs[sums.of]},
                      .row_count = rows,
                      .phase = node.phase});
      sums_.push_back({sums, prepare(parts, parts.nodes().back())});
      scratch_bytes_ = std::max(scratch_bytes_, sums_.back().kernel->scratch_bytes());
    }
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    KernelArguments plain = arguments;
    plain.outputs = arguments.outputs.first(plain_outputs_);
    kernel_->run(plain);
    for (const Sum& sum : sums_) {
      KernelArguments of = arguments;
      of.inputs = arguments.outputs.subspan(sum.outputs.of, 1);
      of.outputs = arguments.outputs.subspan(sum.outputs.sums, 1);
      sum.kernel->run(of);
    }
  }

 private:
  struct Sum {
    ColumnSums outputs;
    std::unique_ptr<Kernel> kernel;
  };

  std::size_t plain_outputs_ = 0, scratch_bytes_ = 0;
  std::unique_ptr<Kernel> kernel_{};
  std::vector<Sum> sums_{};
};

}  // namespace

std::unique_ptr<Kernel> column_sums_kernel(const Graph& graph, const Node& node, const PrepareKernel& prepare) {
  return std::make_unique<ColumnSumsKernel>(graph, node, prepare);
}

}  // namespace plimsoll
