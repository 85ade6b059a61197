// linear, linear_add and linear's two gradients, by oneDNN or in blocks of our own (blocked_product.h), for a row count
// that is known only at run time.
//
// General products run over exactly the real rows (MatmulCache::general). oneDNN's primitives have fixed shapes, so
// otherwise rows are divided among several (Ladder): one product over nearly all rows, and a few over the rest, padded
// with zeros to kStep. Which primitives run depends on capacity and real row count alone, so results repeat, and the
// cost follows the real rows in steps of kStep.
//
// If products are prepared, linear's weight, which is transposed in the product, is packed once per run, unless rows
// are few; linear_input_grad's is used in its own layout, which is as fast and needs no scratch. linear_weight_grad
// sums over rows, and adds the remaining rows' product to that of the groups. Few rows are multiplied by kernels of our
// own (few_rows_products.h) on machines where oneDNN has primitives; a weight's gradient from few rows on all machines:
// the sums of oneDNN's general product depend on how many rows the gradient has, and a head that is updated in parts
// has to get the same bits as a whole one.
//
// BF16 rows are multiplied directly if the machine can; otherwise, and for F16 rows always, they are widened to F32
// kChunk rows at a time, and results are rounded when stored. Sums are in F32 either way.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cpu/convert.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/few_rows_products.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/product_parts.h"
#include "backend/scratch.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kFewRows = 8 * kGroup;  // up to this many rows packing a weight costs more than it saves

// The operand type of a product of rows and a weight; a weight that is wider than its rows is not rounded.
DType product_type(DType dtype, DType weight) { return weight == dtype ? product_type(dtype) : DType::kF32; }

// y[n, columns] = x[n, inner] b (+ bias), or addend + x b, for n real rows. y may alias addend.
class RowProduct final : public Kernel {
 public:
  struct Types {
    DType x, weight, y;
  };
  struct Sizes {
    std::int64_t capacity, inner, columns;
  };

  enum class Third : std::uint8_t { kNone, kBias, kAddend };  // the third input

  RowProduct(MatmulCache& cache, Types types, Sizes sizes, bool transposed_weight, Third third)
      : types_(types),
        third_(third),
        product_(product_type(types.x, types.weight)),
        // A sum that includes an addend is rounded once, when it is stored.
        result_(types.y == product_ && third != Third::kAddend ? product_ : DType::kF32),
        capacity_(sizes.capacity),
        inner_(sizes.inner),
        columns_(sizes.columns),
        general_(cache.general({.rows = widens_rows() ? std::min(kChunk, capacity_) : capacity_,
                                .columns = columns_,
                                .inner = inner_,
                                .operands = product_,
                                .result = result_},
                               capacity_, transposed_weight ? inner_ : columns_)),
        chunk_(widens_rows() || (general_ == nullptr && is_narrow(inner_, columns_)) ? std::min(kChunk, capacity_)
                                                                                     : capacity_) {
    parts_ = {.shape = {.columns = columns_,
                        .inner = inner_,
                        .operands = product_,
                        .result = result_,
                        .transposed_b = transposed_weight,
                        .bias = third == Third::kBias,
                        .accumulate = third == Third::kAddend},
              .general = general_.get()};
    const std::size_t library_bytes = general_ != nullptr ? 0 : prepare(cache);
    ScratchLayout layout;
    weight_at_ = layout.add_bytes(types.weight == product_ ? 0 : bytes_of(product_, inner_ * columns_));
    packed_at_ = layout.add_bytes(packing_ == nullptr ? 0 : packing_->packed_bytes());
    parts_.lay_out(layout, library_bytes);
    x_at_ = layout.add_bytes(types.x == product_ ? 0 : bytes_of(product_, chunk_ * inner_));
    y_at_ = layout.add_bytes(types.y == result_ ? 0 : bytes_of(result_, chunk_ * columns_));
    scratch_bytes_ = layout.bytes();
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = arguments.rows(capacity_);
    if (rows == 0) return;
    std::byte* const scratch = arguments.scratch.data();
    const void* b = arguments.inputs[1].raw();
    if (types_.weight != product_) {
      convert(b, types_.weight, scratch + weight_at_, product_, inner_ * columns_);
      b = scratch + weight_at_;
    }
    const bool packs = packing_ != nullptr && rows > kFewRows;
    if (packs) {
      packing_->run(b, scratch + packed_at_, scratch + parts_.library_at);
      b = scratch + packed_at_;
    }
    const float* const bias = third_ == Third::kBias ? arguments.inputs[2].data<float>() : nullptr;
    const void* const addend = third_ == Third::kAddend ? arguments.inputs[2].raw() : nullptr;
    for (std::int64_t first = 0; first < rows; first += chunk_) {
      const std::int64_t count = std::min(chunk_, rows - first);
      const void* x = at(arguments.inputs[0].raw(), types_.x, first * inner_);
      void* const y = at(arguments.outputs[0].raw(), types_.y, first * columns_);
      if (types_.x != product_) {
        convert(x, types_.x, scratch + x_at_, product_, count * inner_);
        x = scratch + x_at_;
      }
      // The product is added to its result buffer's content.
      void* const result = types_.y == result_ ? y : scratch + y_at_;
      if (addend != nullptr && at(addend, types_.y, first * columns_) != result) {
        convert(at(addend, types_.y, first * columns_), types_.y, result, result_, count * columns_);
      }
      if (types_.y == result_) {
        parts_.multiply(packs ? packed_ : plain_, count, x, b, bias, y, scratch);
      } else {
        parts_.multiply(packs ? packed_ : plain_, count, x, b, bias, scratch + y_at_, scratch);
        convert(scratch + y_at_, result_, y, types_.y, count * columns_);
      }
    }
  }

 private:
  bool widens_rows() const { return types_.x != product_ || types_.y != result_; }

  // Prepares the products over fixed row counts; returns the scratch that oneDNN needs for them.
  std::size_t prepare(MatmulCache& cache) {
    const bool packs = parts_.shape.transposed_b && capacity_ > kFewRows;
    packing_ = packs ? cache.packing(inner_, columns_, true, product_) : nullptr;
    std::size_t library_bytes = packing_ == nullptr ? 0 : packing_->scratch_bytes();
    const auto product_over = [&](std::int64_t rows, bool packed) {
      MatmulShape shape = parts_.shape;
      shape.rows = rows;
      shape.transposed_b = shape.transposed_b && !packed;
      shape.packed_b = packed;
      auto product = cache.matmul(shape);
      library_bytes = std::max(library_bytes, product->scratch_bytes());
      return product;
    };
    plain_.fill(1, packing_ == nullptr ? chunk_ : std::min(chunk_, kFewRows),
                [&](std::int64_t rows) { return product_over(rows, false); });
    if (packing_ != nullptr) {
      packed_.fill(std::min(chunk_, kFewRows), chunk_, [&](std::int64_t rows) { return product_over(rows, true); });
    }
    return library_bytes;
  }

  Types types_;
  Third third_;
  DType product_, result_;  // the types that oneDNN reads and writes
  std::int64_t capacity_, inner_, columns_;
  std::unique_ptr<GeneralProduct> general_;  // or nullptr, and products are prepared
  std::int64_t chunk_;
  std::shared_ptr<const WeightPacking> packing_;  // used above kFewRows rows
  Ladder plain_{chunk_}, packed_{chunk_};         // for b as it is, and for b packed
  RowParts parts_{};
  std::size_t weight_at_ = 0, packed_at_ = 0, x_at_ = 0, y_at_ = 0, scratch_bytes_ = 0;
};

// dw[M, K] = dy[n, M]^T x[n, K] (+ sum, in dw's bytes, unless keep is 0) for n real rows; dw is F32.
class WeightGradient final : public Kernel {
 public:
  WeightGradient(MatmulCache& cache, DType dtype, std::int64_t capacity, std::int64_t m, std::int64_t k, bool has_sum)
      : dtype_(dtype),
        product_(product_type(dtype)),
        capacity_(capacity),
        m_(m),
        k_(k),
        has_sum_(has_sum),
        general_(cache.general({.rows = m,
                                .columns = k,
                                .inner = dtype != product_ ? std::min(kChunk, capacity) : capacity,
                                .operands = product_,
                                .transposed_a = true},
                               capacity, k)),
        chunk_(dtype != product_ || (general_ == nullptr && is_narrow(m, k)) ? std::min(kChunk, capacity) : capacity) {
    ScratchLayout layout;
    x_at_ = layout.add_bytes(dtype == product_ ? 0 : bytes_of(product_, chunk_ * k));
    dy_at_ = layout.add_bytes(dtype == product_ ? 0 : bytes_of(product_, chunk_ * m));
    if (general_ == nullptr) {
      prepare(cache, layout);
    } else {
      library_at_ = layout.add_bytes(general_->scratch_bytes());
    }
    scratch_bytes_ = layout.bytes();
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = arguments.rows(capacity_);
    std::byte* const scratch = arguments.scratch.data();
    float* const dw = arguments.outputs[0].data<float>();
    bool on_top = adds_to_sum(arguments);
    if (rows == 0 && !on_top) std::memset(dw, 0, bytes_of(DType::kF32, m_ * k_));
    for (std::int64_t first = 0; first < rows; first += chunk_, on_top = true) {
      const std::int64_t count = std::min(chunk_, rows - first);
      const void* dy = at(arguments.inputs[0].raw(), dtype_, first * m_);
      const void* x = at(arguments.inputs[1].raw(), dtype_, first * k_);
      if (dtype_ != product_) {
        convert(dy, dtype_, scratch + dy_at_, product_, count * m_);
        convert(x, dtype_, scratch + x_at_, product_, count * k_);
        dy = scratch + dy_at_;
        x = scratch + x_at_;
      }
      sum(count, dy, x, dw, on_top, scratch);
    }
  }

 private:
  MatmulShape shape_over(std::int64_t rows, bool on_top) const {
    return {.rows = m_, .columns = k_, .inner = rows, .operands = product_, .transposed_a = true, .accumulate = on_top};
  }

  // Prepares the products over fixed row counts, and lays out what they need in scratch.
  void prepare(MatmulCache& cache, ScratchLayout& layout) {
    std::size_t library_bytes = 0;
    const auto product_over = [&](std::int64_t rows, bool on_top) {
      auto product = cache.matmul(shape_over(rows, on_top));
      library_bytes = std::max(library_bytes, product->scratch_bytes());
      return product;
    };
    writing_.fill(1, chunk_, [&](std::int64_t rows) { return product_over(rows, false); });
    const bool adds_groups = has_sum_ || chunk_ < capacity_;
    adding_.fill(1, adds_groups ? chunk_ : std::min(capacity_, adding_.group() - 1),
                 [&](std::int64_t rows) { return product_over(rows, true); });
    const std::int64_t rest_rows = std::min(kGroup, (capacity_ + kStep - 1) / kStep * kStep);
    library_at_ = layout.add_bytes(library_bytes);
    rest_x_at_ = layout.add_bytes(bytes_of(product_, rest_rows * k_));
    rest_dy_at_ = layout.add_bytes(bytes_of(product_, rest_rows * m_));
  }

  void sum(std::int64_t rows, const void* dy, const void* x, float* dw, bool on_top, std::byte* scratch) const {
    if (general_ != nullptr) {
      general_->run(shape_over(rows, on_top), dy, x, nullptr, dw, scratch + library_at_);
      return;
    }
    while (rows >= kGroup) {
      const std::int64_t part = writing_.part(rows);
      (on_top ? adding_ : writing_).over(part).run(dy, x, nullptr, dw, scratch + library_at_);
      on_top = true;
      dy = at(dy, product_, part * m_);
      x = at(x, product_, part * k_);
      rows -= part;
    }
    if (rows == 0) return;
    const std::int64_t filled = (rows + kStep - 1) / kStep * kStep;
    if (filled != rows) {
      copy_and_fill(dy, scratch + rest_dy_at_, rows, filled, bytes_of(product_, m_));
      copy_and_fill(x, scratch + rest_x_at_, rows, filled, bytes_of(product_, k_));
      dy = scratch + rest_dy_at_;
      x = scratch + rest_x_at_;
    }
    (on_top ? adding_ : writing_).over(filled).run(dy, x, nullptr, dw, scratch + library_at_);
  }

  DType dtype_, product_;  // the type of dy and x; the type that oneDNN reads
  std::int64_t capacity_, m_, k_;
  bool has_sum_;
  std::unique_ptr<GeneralProduct> general_;  // or nullptr, and products are prepared
  std::int64_t chunk_;
  Ladder writing_{chunk_}, adding_{chunk_};  // products that overwrite dw, and that add to it
  std::size_t library_at_ = 0, x_at_ = 0, dy_at_ = 0, rest_x_at_ = 0, rest_dy_at_ = 0, scratch_bytes_ = 0;
};

// True if the weight is decoded tile by tile while it is multiplied: for codes, and for halves if a copy of all in F32
// would take much memory.
bool is_decoded(const Graph& graph, const Node& node) {
  constexpr std::int64_t kMostWidened = 1 << 22;  // elements: 16 MiB
  const TensorType &x = graph.type(node.inputs[0]), &weight = graph.type(node.inputs[1]);
  return is_coded(weight.dtype) || (is_half(weight.dtype) && product_type(x.dtype, weight.dtype) == DType::kF32 &&
                                    weight.shape.elements() > kMostWidened);
}

// True if a product of `rows` with a weight, or its gradient, of `width` columns is one of few_rows_products.h.
bool is_of_few_rows(const Graph& graph, const Node& node, const TensorType& rows, std::int64_t width) {
  const bool wide = std::ranges::all_of(node.inputs, [&](ValueId input) {
    const DType dtype = graph.type(input).dtype;
    return dtype == DType::kF32 || dtype == DType::kI32;
  });
  return wide && graph.type(node.outputs[0]).dtype == DType::kF32 && has_few_rows(rows.shape[0], width);
}

// Returns the same for a product with a weight, without a third input, on machines where that is faster than oneDNN's.
bool is_product_of_few_rows(const Graph& graph, const Node& node, MatmulCache& cache) {
  return node.inputs.size() == 2 && !cache.has_general_f32() &&
         is_of_few_rows(graph, node, graph.type(node.inputs[0]), graph.type(node.inputs[1]).shape[1]);
}

std::unique_ptr<Kernel> make_row_product(const Graph& graph, const Node& node, MatmulCache& cache, bool transposed,
                                         RowProduct::Third third) {
  const TensorType &x = graph.type(node.inputs[0]), &weight = graph.type(node.inputs[1]);
  const TensorType& y = graph.type(node.outputs[0]);
  return std::make_unique<RowProduct>(cache, RowProduct::Types{x.dtype, weight.dtype, y.dtype},
                                      RowProduct::Sizes{x.shape[0], x.shape[1], y.shape[1]}, transposed, third);
}

}  // namespace

std::unique_ptr<Kernel> with_wide_bias(const Graph& graph, const Node& node, const MakeLinear& make) {
  Graph wide_graph;
  Node wide_node = node;
  wide_node.inputs.clear();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    TensorType type = graph.type(node.inputs[i]);
    if (i == 2) type.dtype = DType::kF32;
    wide_node.inputs.push_back(wide_graph.add_input(fmt::format("input {}", i), type));
  }
  if (node.row_count != kNoValue) wide_node.row_count = wide_graph.add_input("rows", {DType::kI32, {1}});
  wide_graph.add_node(std::move(wide_node));
  std::shared_ptr<const Kernel> kernel = make(wide_graph, wide_graph.nodes().back());
  const TensorType bias{DType::kF32, graph.type(node.inputs[2]).shape};
  ScratchLayout layout;
  const std::size_t bias_at = layout.add_bytes(bias.bytes()), inner_at = layout.bytes();
  return make_kernel(
      [=](const KernelArguments& a) {
        const TensorView wide_bias(bias, a.scratch.data() + bias_at);
        convert(a.inputs[2], wide_bias, bias.shape.elements());
        const TensorView inputs[] = {a.inputs[0], a.inputs[1], wide_bias};
        KernelArguments wide = a;
        wide.inputs = inputs;
        wide.scratch = a.scratch.subspan(inner_at);
        kernel->run(wide);
      },
      inner_at + kernel->scratch_bytes());
}

std::unique_ptr<Kernel> make_linear(const Graph& graph, const Node& node, MatmulCache& cache) {
  if (is_decoded(graph, node)) return make_coded_linear(graph, node, cache);
  if (is_product_of_few_rows(graph, node, cache)) return make_few_rows_linear(graph, node);
  const bool has_bias = node.inputs.size() == 3;
  return make_row_product(graph, node, cache, true, has_bias ? RowProduct::Third::kBias : RowProduct::Third::kNone);
}

std::unique_ptr<Kernel> make_linear_add(const Graph& graph, const Node& node, MatmulCache& cache) {
  return make_row_product(graph, node, cache, true, RowProduct::Third::kAddend);
}

std::unique_ptr<Kernel> make_linear_input_grad(const Graph& graph, const Node& node, MatmulCache& cache) {
  if (is_decoded(graph, node)) return make_coded_linear_input_grad(graph, node, cache);
  if (is_product_of_few_rows(graph, node, cache)) return make_few_rows_input_grad(graph, node);
  const bool adds = node.inputs.size() == 3;
  return make_row_product(graph, node, cache, false, adds ? RowProduct::Third::kAddend : RowProduct::Third::kNone);
}

std::unique_ptr<Kernel> make_linear_weight_grad(const Graph& graph, const Node& node, MatmulCache& cache) {
  const TensorType& dy = graph.type(node.inputs[0]);
  if (is_of_few_rows(graph, node, dy, graph.type(node.outputs[0]).shape[1])) {
    return make_few_rows_weight_grad(graph, node);
  }
  return std::make_unique<WeightGradient>(cache, dy.dtype, dy.shape[0], dy.shape[1],
                                          graph.type(node.inputs[1]).shape[1], node.inputs.size() > 2);
}

}  // namespace plimsoll
