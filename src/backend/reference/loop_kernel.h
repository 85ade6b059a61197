// Helpers of the reference kernels: a Kernel made from a lambda, the choice between float and double, matrix rows.
//
//   std::unique_ptr<Kernel> make_tanh(const Node& node, DType dtype) {
//     return for_floating(dtype, [&]<typename T>(T) {
//       return make_kernel(node, [](const KernelArguments& a) { tanh<T>(a); });
//     });
//   }
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/bytes.h"

namespace plimsoll::reference {

template <typename Body>
class LoopKernel final : public Kernel {
 public:
  LoopKernel(const Node& node, std::size_t scratch_bytes, Body body)
      : aliases_(op_aliases(node.op, node.inputs.size())), scratch_bytes_(scratch_bytes), body_(std::move(body)) {}

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    check(arguments.scratch.size() >= scratch_bytes_, "a kernel is given the scratch that it declared");
    for (const Alias& alias : aliases_) {
      if (alias.kind != Alias::Kind::kMust) continue;
      check(arguments.outputs[alias.output].raw() == arguments.inputs[alias.input].raw(),
            "an output that must take an input's bytes is the same memory");
    }
    body_(arguments);
  }

 private:
  std::vector<Alias> aliases_;
  std::size_t scratch_bytes_;
  Body body_;
};

// `body` is called as body(const KernelArguments&) and allocates nothing.
template <typename Body>
std::unique_ptr<Kernel> make_kernel(const Node& node, std::size_t scratch_bytes, Body body) {
  return std::make_unique<LoopKernel<Body>>(node, scratch_bytes, std::move(body));
}
template <typename Body>
std::unique_ptr<Kernel> make_kernel(const Node& node, Body body) {
  return make_kernel(node, 0, std::move(body));
}

// Calls make(T{}) with T = float or double.
template <typename Make>
std::unique_ptr<Kernel> for_floating(DType dtype, Make make) {
  if (dtype == DType::kF64) return make(double{});
  check(dtype == DType::kF32, "the reference backend computes in F32 or F64");
  return make(float{});
}

// A row-major matrix: m[row][column]. A tensor of another rank has its first dimension as rows, the rest as columns.
template <typename T>
class Matrix {
 public:
  explicit Matrix(const TensorView& view)
      : data_(view.data<T>()),
        rows_(view.shape().rank() == 0 ? 1 : view.shape()[0]),
        columns_(rows_ == 0 ? 0 : view.elements() / rows_) {}
  T* operator[](std::int64_t row) const { return data_ + row * columns_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

 private:
  T* data_;
  std::int64_t rows_, columns_;
};

// Returns the scratch from `offset` doubles on, as doubles.
inline double* scratch_doubles(const KernelArguments& arguments, std::int64_t offset = 0) {
  return reinterpret_cast<double*>(arguments.scratch.data()) + offset;
}

// One function per group of ops; each is in the file of its group and handles the ops named there. `dtype` is the
// node's floating type.
std::unique_ptr<Kernel> make_embedding_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_rows_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_pairs_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_elementwise_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_linear_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_normalisation_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_rotary_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_attention_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_cached_attention_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_loss_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_relation_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_contrastive_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_row_gradient_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_optimizer_kernel(const Graph& graph, const Node& node, DType dtype);
std::unique_ptr<Kernel> make_adafactor_kernel(const Graph& graph, const Node& node, DType dtype);

}  // namespace plimsoll::reference
