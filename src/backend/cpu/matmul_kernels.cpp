// linear and its two gradients by oneDNN, for a row count that is known only when they run.
//
// oneDNN's primitives have fixed shapes, so rows are cut up into them: one product over all whole groups of kGroup
// rows, and one or two over the rest, filled up with zeros to kStep. Which primitives run depends on the real row count
// alone, so that results repeat, and the cost follows the real rows in steps of kStep.
//
// linear's weight lies across the product and is packed once a run, unless rows are few; linear_input_grad's is used as
// it lies, which is as fast and needs no scratch. linear_weight_grad sums over rows, and adds the rest on top of the
// groups.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/scratch.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kStep = 16;
constexpr std::int64_t kGroup = 128;
constexpr std::int64_t kFewRows = 8 * kGroup;  // up to here packing a weight costs more than it saves
static_assert(kGroup % kStep == 0);

// Products over kStep, 2 kStep, … kGroup, 2 kGroup, … rows.
class Ladder {
 public:
  // make(rows) for each rung that a run of `up_to` rows may need.
  template <typename Make>
  void fill(std::int64_t up_to, const Make& make) {
    std::int64_t rows = kStep;
    for (; rows <= std::min(kGroup, up_to + kStep - 1); rows += kStep) rungs_.push_back(make(rows));
    for (rows = 2 * kGroup; rows <= up_to; rows += kGroup) rungs_.push_back(make(rows));
  }
  const Matmul& over(std::int64_t rows) const {
    const std::int64_t rung = rows <= kGroup ? rows / kStep - 1 : kGroup / kStep - 2 + rows / kGroup;
    return *rungs_[static_cast<std::size_t>(rung)];
  }

 private:
  std::vector<const Matmul*> rungs_{};
};

std::size_t float_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// to[rows, width] = from's first `real` rows, then zeros.
void copy_and_fill(const float* from, float* to, std::int64_t real, std::int64_t rows, std::int64_t width) {
  parallel_for(rows, kStep, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t copied = std::clamp(real, begin, end);
    std::memcpy(to + begin * width, from + begin * width, float_bytes((copied - begin) * width));
    std::memset(to + copied * width, 0, float_bytes((end - copied) * width));
  });
}

// y[n, columns] = x[n, inner] b (+ bias), n real rows.
class RowProduct final : public Kernel {
 public:
  RowProduct(MatmulCache& cache, std::int64_t capacity, std::int64_t inner, std::int64_t columns, bool transposed_b,
             bool bias)
      : capacity_(capacity), inner_(inner), columns_(columns) {
    if (transposed_b && capacity > kFewRows) packing_ = cache.packing(inner, columns, true);
    std::size_t library_bytes = packing_ == nullptr ? 0 : packing_->scratch_bytes();
    const auto prepare = [&](std::int64_t rows, bool packed) {
      const Matmul& product = cache.matmul({.rows = rows,
                                            .columns = columns,
                                            .inner = inner,
                                            .transposed_b = transposed_b && !packed,
                                            .packed_b = packed,
                                            .bias = bias});
      library_bytes = std::max(library_bytes, product.scratch_bytes());
      return &product;
    };
    plain_.fill(packing_ == nullptr ? capacity : kFewRows, [&](std::int64_t rows) { return prepare(rows, false); });
    if (packing_ != nullptr) packed_.fill(capacity, [&](std::int64_t rows) { return prepare(rows, true); });
    ScratchLayout layout;
    packed_at_ = layout.add_bytes(packing_ == nullptr ? 0 : packing_->packed_bytes());
    library_at_ = layout.add_bytes(library_bytes);
    last_x_at_ = layout.add<float>(kStep * inner);
    last_y_at_ = layout.add<float>(kStep * columns);
    scratch_bytes_ = layout.bytes();
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = arguments.rows(capacity_);
    if (rows == 0) return;
    const float* x = arguments.inputs[0].data<float>();
    const float* b = arguments.inputs[1].data<float>();
    const float* const bias = arguments.inputs.size() > 2 ? arguments.inputs[2].data<float>() : nullptr;
    float* y = arguments.outputs[0].data<float>();
    std::byte* const library_scratch = arguments.scratch.data() + library_at_;
    const bool packs = packing_ != nullptr && rows > kFewRows;
    if (packs) {
      float* const packed = scratch_at<float>(arguments, packed_at_);
      packing_->run(b, packed, library_scratch);
      b = packed;
    }
    const Ladder& products = packs ? packed_ : plain_;
    for (const std::int64_t part : {rows / kGroup * kGroup, rows % kGroup / kStep * kStep}) {
      if (part == 0) continue;
      products.over(part).run(x, b, bias, y, library_scratch);
      x += part * inner_;
      y += part * columns_;
    }
    const std::int64_t last = rows % kStep;
    if (last == 0) return;
    float* const last_x = scratch_at<float>(arguments, last_x_at_);
    float* const last_y = scratch_at<float>(arguments, last_y_at_);
    copy_and_fill(x, last_x, last, kStep, inner_);
    products.over(kStep).run(last_x, b, bias, last_y, library_scratch);
    std::memcpy(y, last_y, float_bytes(last * columns_));
  }

 private:
  std::int64_t capacity_, inner_, columns_;
  const WeightPacking* packing_ = nullptr;  // for more than kFewRows rows
  Ladder plain_{}, packed_{};               // by the layout of b
  std::size_t packed_at_ = 0, library_at_ = 0, last_x_at_ = 0, last_y_at_ = 0, scratch_bytes_ = 0;
};

// dw[M, K] = dy[n, M]^T x[n, K] (+ sum, in dw's bytes, where keep != 0), n real rows.
class WeightGradient final : public Kernel {
 public:
  WeightGradient(MatmulCache& cache, std::int64_t capacity, std::int64_t m, std::int64_t k, bool has_sum)
      : capacity_(capacity), m_(m), k_(k), has_sum_(has_sum) {
    std::size_t library_bytes = 0;
    const auto prepare = [&](std::int64_t rows, bool on_top) {
      const Matmul& product =
          cache.matmul({.rows = m, .columns = k, .inner = rows, .transposed_a = true, .accumulate = on_top});
      library_bytes = std::max(library_bytes, product.scratch_bytes());
      return &product;
    };
    writing_.fill(capacity, [&](std::int64_t rows) { return prepare(rows, false); });
    adding_.fill(has_sum ? capacity : std::min(capacity, kGroup),
                 [&](std::int64_t rows) { return prepare(rows, true); });
    ScratchLayout layout;
    const std::int64_t rest_rows = std::min(kGroup, (capacity + kStep - 1) / kStep * kStep);
    library_at_ = layout.add_bytes(library_bytes);
    rest_x_at_ = layout.add<float>(rest_rows * k);
    rest_dy_at_ = layout.add<float>(rest_rows * m);
    scratch_bytes_ = layout.bytes();
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = arguments.rows(capacity_);
    const float* dy = arguments.inputs[0].data<float>();
    const float* x = arguments.inputs[1].data<float>();
    float* const dw = arguments.outputs[0].data<float>();
    std::byte* const library_scratch = arguments.scratch.data() + library_at_;
    bool on_top = has_sum_ && *arguments.inputs[3].data<std::int32_t>() != 0;
    if (rows == 0 && !on_top) std::memset(dw, 0, float_bytes(m_ * k_));
    const std::int64_t grouped = rows / kGroup * kGroup, rest = rows % kGroup;
    if (grouped > 0) {
      (on_top ? adding_ : writing_).over(grouped).run(dy, x, nullptr, dw, library_scratch);
      on_top = true;
      dy += grouped * m_;
      x += grouped * k_;
    }
    if (rest == 0) return;
    const std::int64_t filled = (rest + kStep - 1) / kStep * kStep;
    if (filled != rest) {
      float* const rest_dy = scratch_at<float>(arguments, rest_dy_at_);
      float* const rest_x = scratch_at<float>(arguments, rest_x_at_);
      copy_and_fill(dy, rest_dy, rest, filled, m_);
      copy_and_fill(x, rest_x, rest, filled, k_);
      dy = rest_dy;
      x = rest_x;
    }
    (on_top ? adding_ : writing_).over(filled).run(dy, x, nullptr, dw, library_scratch);
  }

 private:
  std::int64_t capacity_, m_, k_;
  bool has_sum_;
  Ladder writing_{}, adding_{};  // over what dw held, or on top of it
  std::size_t library_at_ = 0, rest_x_at_ = 0, rest_dy_at_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_linear(const Graph& graph, const Node& node, MatmulCache& cache) {
  const Shape& x = graph.type(node.inputs[0]).shape;
  const Shape& weight = graph.type(node.inputs[1]).shape;
  return std::make_unique<RowProduct>(cache, x[0], x[1], weight[0], true, node.inputs.size() == 3);
}

std::unique_ptr<Kernel> make_linear_input_grad(const Graph& graph, const Node& node, MatmulCache& cache) {
  const Shape& dy = graph.type(node.inputs[0]).shape;
  const Shape& weight = graph.type(node.inputs[1]).shape;
  return std::make_unique<RowProduct>(cache, dy[0], dy[1], weight[1], false, false);
}

std::unique_ptr<Kernel> make_linear_weight_grad(const Graph& graph, const Node& node, MatmulCache& cache) {
  const Shape& dy = graph.type(node.inputs[0]).shape;
  const Shape& x = graph.type(node.inputs[1]).shape;
  return std::make_unique<WeightGradient>(cache, dy[0], dy[1], x[1], node.inputs.size() == 4);
}

}  // namespace plimsoll
