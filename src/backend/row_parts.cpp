#include "backend/row_parts.h"

#include <algorithm>
#include <cstring>

namespace plimsoll {
namespace {

std::size_t row_bytes(const TensorType& type) {
  return dtype_bytes(type.dtype) * static_cast<std::size_t>(type.shape.rank() == 1 ? 1 : type.shape[1]);
}

class TakeRows final : public Kernel {
 public:
  TakeRows(const Graph& graph, const Node& node)
      : part_(std::get<RowPartAttributes>(node.attributes)),
        capacity_(graph.type(node.inputs[0]).shape[0]),
        row_bytes_(row_bytes(graph.type(node.inputs[0]))) {}

  void run(const KernelArguments& a) const override {
    const std::int64_t real = std::clamp<std::int64_t>(a.rows(capacity_) - part_.first, 0, part_.count);
    const auto bytes = static_cast<std::size_t>(real) * row_bytes_;
    auto* const to = static_cast<std::byte*>(a.outputs[0].raw());
    const auto* const from = static_cast<const std::byte*>(a.inputs[0].raw());
    std::memcpy(to, from + static_cast<std::size_t>(part_.first) * row_bytes_, bytes);
    std::memset(to + bytes, 0, static_cast<std::size_t>(part_.count - real) * row_bytes_);
    *a.outputs[1].data<std::int32_t>() = static_cast<std::int32_t>(real);
  }

 private:
  RowPartAttributes part_;
  std::int64_t capacity_;
  std::size_t row_bytes_;
};

class JoinRows final : public Kernel {
 public:
  JoinRows(const Graph& graph, const Node& node)
      : capacity_(graph.type(node.outputs[0]).shape[0]), row_bytes_(row_bytes(graph.type(node.outputs[0]))) {}

  void run(const KernelArguments& a) const override {
    auto* to = static_cast<std::byte*>(a.outputs[0].raw());
    std::int64_t left = a.rows(capacity_);
    for (const TensorView& part : a.inputs) {
      const std::int64_t rows = std::min(left, part.shape()[0]);
      const auto bytes = static_cast<std::size_t>(rows) * row_bytes_;
      std::memcpy(to, part.raw(), bytes);
      to += bytes;
      left -= rows;
    }
  }

 private:
  std::int64_t capacity_;
  std::size_t row_bytes_;
};

class PutRows final : public Kernel {
 public:
  PutRows(const Graph& graph, const Node& node)
      : capacity_(graph.type(node.inputs[1]).shape[0]),
        row_bytes_(row_bytes(graph.type(node.inputs[0]))),
        has_index_(graph.type(node.inputs[2]).shape[0] > 1) {}

  void run(const KernelArguments& a) const override {
    check(a.outputs[0].raw() == a.inputs[0].raw(), "the table keeps its place");
    const auto* const index = a.inputs[2].data<std::int32_t>();
    const auto* const from = static_cast<const std::byte*>(a.inputs[1].raw());
    auto* const table = static_cast<std::byte*>(a.outputs[0].raw());
    for (std::int64_t row = 0; row < a.rows(capacity_); ++row) {
      const std::int64_t to = has_index_ ? index[row] : *index + row;
      check(to >= 0 && to < a.outputs[0].shape()[0], "a row has its place in the table");
      std::memcpy(table + static_cast<std::size_t>(to) * row_bytes_, from + static_cast<std::size_t>(row) * row_bytes_,
                  row_bytes_);
    }
  }

 private:
  std::int64_t capacity_;
  std::size_t row_bytes_;
  bool has_index_;
};

}  // namespace

std::unique_ptr<Kernel> make_take_rows_kernel(const Graph& graph, const Node& node) {
  return std::make_unique<TakeRows>(graph, node);
}
std::unique_ptr<Kernel> make_join_rows_kernel(const Graph& graph, const Node& node) {
  return std::make_unique<JoinRows>(graph, node);
}
std::unique_ptr<Kernel> make_put_rows_kernel(const Graph& graph, const Node& node) {
  return std::make_unique<PutRows>(graph, node);
}

}  // namespace plimsoll
