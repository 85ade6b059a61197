// The matrix products of nodes, and the scratch of their kernels: operands that are converted first, and cuBLASLt's
// workspace, which every product has, whether its algorithm uses it or not.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace plimsoll::cuda {

// The size of a product that is a step's number of rows, of which the host knows only a bound.
enum class Bounded : std::uint8_t { kRows, kInner };

// c[rows, columns] = a b (+ bias) (+ addend), row-major; summed in F32, rounded once.
struct MatmulShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  DType operands = DType::kF32;  // of a and b: F32, BF16 or F16
  DType result = DType::kF32;    // of c, bias and addend: F32 or the operands' type, because cuBLASLt has no other bias
  bool transposed_a = false;     // a is stored [inner, rows], else [rows, inner]
  bool transposed_b = false;     // b is stored [columns, inner], else [inner, columns]
  bool bias = false;             // + bias[columns] on every row
  bool adds = false;             // + addend[rows, columns], which may be c; then neither is padded
  Bounded bounded = Bounded::kRows;
  // So many of these products at once, a strided batch: each operand lies a constant number of bytes behind the same
  // one of the product before.
  std::int64_t count = 1;
  friend auto operator<=>(const MatmulShape&, const MatmulShape&) = default;

  // Return the size that is bounded, and the same product with another such size.
  std::int64_t size() const { return bounded == Bounded::kRows ? rows : inner; }
  MatmulShape with(std::int64_t size) const;
  // Returns so many of these products at once.
  MatmulShape times(std::int64_t products) const;

  // Return the elements from row to row of a and of c as passed to cuBLASLt. It has no products of halves whose rows
  // have an odd number of elements, and only slow ones if rows are not aligned to 16 bytes, so rows of many elements,
  // such as scores of a vocabulary, are padded.
  std::int64_t pitch_a() const;
  std::int64_t pitch_c() const;
  bool pads_a() const { return pitch_a() != (transposed_a ? rows : inner); }
  bool pads_c() const { return pitch_c() != columns; }

  // Returns its name in a table of choices: "4096x3072x768 BF16>BF16 tb bias", and " x3" for three at once.
  std::string name() const;
  // Returns the bytes that an algorithm may use besides its operands, to split sums over `inner`: room for sixteen
  // partial sums of small results. They grow with the rows, so that a smaller bound never needs more than the capacity
  // does.
  std::size_t workspace_bytes() const;
};

inline constexpr std::size_t kMostWorkspaceBytes = std::size_t{32} << 20, kLeastWorkspaceBytes = std::size_t{1} << 20;
inline constexpr std::size_t kWorkspaceAlignment = 256;

// Parts of a kernel's scratch, aligned to kWorkspaceAlignment, which is more than scratch itself has.
class ProductScratch {
 public:
  // Returns the offset of a new part, counted from where the scratch is aligned.
  std::size_t add(std::size_t bytes);
  std::size_t bytes() const;

 private:
  std::size_t bytes_ = 0;
};

// y[n, columns] = x[n, inner] weight (+ bias) (+ addend): linear, linear_add and linear_input_grad.
struct RowProductForm {
  RowProductForm(const Graph& graph, const Node& node);

  // True if a node is the library's product alone, so that several nodes may be computed as one batch.
  bool is_plain() const { return !converts_weight && !converts_bias && !shape.pads_a() && !shape.pads_c(); }

  MatmulShape shape{};
  bool converts_weight = false;  // it is rounded or decoded into scratch first
  bool converts_bias = false;
  ProductScratch scratch{};
  std::size_t weight_at = 0, bias_at = 0, workspace_at = 0;
  std::size_t a_at = 0, c_at = 0;  // padded, where the shape pads them
};

// dw[M, K] = dy[n, M]^T x[n, K] (+ sum): linear_weight_grad.
struct WeightGradientForm {
  WeightGradientForm(const Graph& graph, const Node& node);

  // The same; the sum that is not kept is cleared before.
  bool is_plain() const { return !fills && !shape.pads_a(); }

  bool has_sum = false;
  bool fills = false;  // rows that are not real, and may hold anything, are filled with zeros first
  MatmulShape shape{};
  std::array<bool, 2> copies{};  // of dy and x: zeros are filled in a copy instead of in place; dy may be padded
  ProductScratch scratch{};
  std::array<std::size_t, 2> copy_at{};
  std::size_t workspace_at = 0;
};

}  // namespace plimsoll::cuda
