// linear, linear_add and linear's two gradients: cuBLASLt's products (matmul.h), or our own (product.h) if it has none,
// after kernels that convert operands to one type.
//
// For halves, cuBLASLt wants weight and bias in the rows' type: wider or coded ones are rounded to it in scratch, once
// per run. Rows that it would be slow with are padded there (MatmulShape::pitch_a).
//
// The host knows a bound of the rows, not their number. Products over all rows below it may leave anything in rows of
// outputs that are not real. A sum over rows must not include them: unless sizes/tails.h says that they are harmless,
// linear_weight_grad fills them with zeros first, in place if no other node relies on these rows, else in a copy.
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/decode.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/product.h"
#include "base/bytes.h"
#include "graph/product_batches.h"

namespace plimsoll::cuda {
namespace {

constexpr unsigned kThreads = 256;

__device__ std::int64_t first_item() { return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ std::int64_t item_stride() { return static_cast<std::int64_t>(gridDim.x) * kThreads; }

template <typename T>
__global__ void narrow(const float* from, T* to, std::int64_t count) {
  for (std::int64_t i = first_item(); i < count; i += item_stride()) to[i] = from_float<T>(from[i]);
}

// A coded weight, [rows, columns].
template <DType kCode, typename T>
__global__ void decode(const std::uint8_t* weight, T* to, std::int64_t rows, std::int64_t columns) {
  const auto row_bytes = static_cast<std::int64_t>(coded_row_bytes(kCode, columns));
  for (std::int64_t i = first_item(); i < rows * columns; i += item_stride()) {
    to[i] = from_float<T>(decoded<kCode>(weight + i / columns * row_bytes, i % columns));
  }
}

// Writes zeros to the rows that are not real; copies the others if they are elsewhere.
template <typename T>
struct Tail {
  const T* from;
  T* to;
  Rows rows;
};
// Fills the tails of both operands of a product; blockIdx.y chooses the operand.
template <typename T>
__global__ void fill_tails(Tail<T> a, Tail<T> b) {
  const Tail<T> tail = blockIdx.y == 0 ? a : b;
  const std::int64_t real = tail.rows.elements(), end = tail.rows.capacity * tail.rows.columns;
  for (std::int64_t i = first_item() + (tail.from == tail.to ? real : 0); i < end; i += item_stride()) {
    tail.to[i] = i < real ? tail.from[i] : from_float<T>(0);
  }
}

// to[rows][pitch] = from[rows][columns], one pack per thread; zeros after the real rows.
template <typename T>
__global__ void pad_rows(const T* from, T* to, Rows rows, std::int64_t pitch) {
  constexpr int kPack = 8;
  const std::int64_t real = rows.real(), stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kPack;
  for (std::int64_t row = blockIdx.y; row < rows.capacity; row += gridDim.y) {
    for (std::int64_t c = first_item() * kPack; c < rows.columns; c += stride) {
      Pack<T, kPack> pack;
      for (int i = 0; i < kPack; ++i) {
        const bool is_there = row < real && c + i < rows.columns;
        pack.at[i] = is_there ? from[row * rows.columns + c + i] : from_float<T>(0);
      }
      write_pack(pack, kPack, to + row * pitch + c);
    }
  }
}
// to[rows][columns] = from[rows][pitch], for all rows below the bound.
template <typename T>
__global__ void unpad_rows(const T* from, T* to, Rows rows, std::int64_t pitch) {
  for (std::int64_t row = blockIdx.y; row < rows.capacity; row += gridDim.y) {
    for (std::int64_t c = first_item(); c < rows.columns; c += item_stride()) {
      to[row * rows.columns + c] = from[row * pitch + c];
    }
  }
}
// Returns a grid whose blocks take `items` elements of a row each.
Launch row_grid(const Rows& rows, std::int64_t items) {
  constexpr std::int64_t kMostBlocks = 65535;
  return {.blocks = static_cast<unsigned>((rows.columns + items - 1) / items),
          .threads = kThreads,
          .blocks_y = static_cast<unsigned>(std::min(rows.capacity, kMostBlocks))};
}
template <typename T>
void start_padding(const Context& context, const T* from, T* to, const Rows& rows, std::int64_t pitch) {
  launch(context.stream(), pad_rows<T>, row_grid(rows, 8 * kThreads), from, to, rows, pitch);
}

// Sets a sum to zero unless it is kept: its old content may be anything, even NaN.
__global__ void forget(float* sum, const std::int32_t* keep, std::int64_t count) {
  if (*keep != 0) return;
  for (std::int64_t i = first_item(); i < count; i += item_stride()) sum[i] = 0;
}

// Returns the address from which a kernel counts its offsets in scratch.
std::byte* aligned_scratch(const KernelArguments& a) {
  const auto address = reinterpret_cast<std::uintptr_t>(a.scratch.data());
  return a.scratch.data() + (round_up(address, kWorkspaceAlignment) - address);
}

// y[n, columns] = x[n, inner] weight (+ bias) (+ addend): linear, linear_add and linear_input_grad. T is the type of x
// and y.
template <typename T, bool kTransposedWeight>
class RowProduct {
 public:
  RowProduct(const Context& context, Matmuls& matmuls, const Graph& graph, const Node& node)
      : context_(context), matmuls_(matmuls), weight_(graph.type(node.inputs[1])), form_(graph, node) {
    product_ = matmuls.announce(form_.shape);
    if (form_.shape.bias) bias_is_wide_ = graph.type(node.inputs[2]).dtype == DType::kF32;
  }

  std::size_t scratch_bytes() const { return form_.scratch.bytes(); }
  bool is_plain() const { return form_.is_plain(); }
  const MatmulShape& shape() const { return form_.shape; }
  // Does what a plain product needs before it.
  void begin(const KernelArguments&) const {}
  // Returns the buffers of a plain product; `scratch` has its workspace.
  MatmulBuffers buffers(const KernelArguments& a, std::byte* scratch) const {
    const void* const third = a.inputs.size() == 3 ? a.inputs[2].raw() : nullptr;
    return {.a = a.inputs[0].raw(),
            .b = a.inputs[1].raw(),
            .bias = form_.shape.bias ? third : nullptr,
            .addend = form_.shape.adds ? third : nullptr,
            .c = a.outputs[0].raw(),
            .workspace = scratch + form_.workspace_at};
  }

  void operator()(const KernelArguments& a) const {
    const MatmulShape shape = form_.shape.with(a.bound(form_.shape.rows));
    if (shape.rows == 0) return;
    std::byte* const scratch = aligned_scratch(a);
    const void* weight = a.inputs[1].raw();
    if (form_.converts_weight) {
      convert_weight(weight, reinterpret_cast<T*>(scratch + form_.weight_at));
      weight = scratch + form_.weight_at;
    }
    const void* const third = a.inputs.size() == 3 ? a.inputs[2].raw() : nullptr;
    if (!matmuls_.can_run(product_, shape.rows)) return own(a, shape, static_cast<const T*>(weight), third);

    MatmulBuffers buffers = this->buffers(a, scratch);
    buffers.b = weight;
    if (form_.converts_bias) {
      launch(context_.stream(), narrow<T>, {.blocks = blocks_for(shape.columns, kThreads), .threads = kThreads},
             static_cast<const float*>(third), reinterpret_cast<T*>(scratch + form_.bias_at), shape.columns);
      buffers.bias = scratch + form_.bias_at;
    }
    if (shape.pads_a()) {
      T* const padded = reinterpret_cast<T*>(scratch + form_.a_at);
      start_padding(context_, input<T>(a, 0), padded, rows_of(a, a.inputs[0]), shape.pitch_a());
      buffers.a = padded;
    }
    if (shape.pads_c()) buffers.c = scratch + form_.c_at;
    matmuls_.run(product_, shape.rows, buffers);
    if (shape.pads_c()) {
      const Rows rows = rows_of(a, a.outputs[0]);
      launch(context_.stream(), unpad_rows<T>, row_grid(rows, kThreads), static_cast<const T*>(buffers.c),
             output<T>(a, 0), rows, shape.pitch_c());
    }
  }

 private:
  void convert_weight(const void* from, T* to) const {
    const std::int64_t count = form_.shape.inner * form_.shape.columns;
    const Launch grid{.blocks = blocks_for(count, kThreads), .threads = kThreads};
    if (is_coded(weight_.dtype)) {
      launch(context_.stream(), weight_.dtype == DType::kQ8 ? decode<DType::kQ8, T> : decode<DType::kNF4, T>, grid,
             static_cast<const std::uint8_t*>(from), to, weight_.shape[0], weight_.shape[1]);
    } else {
      launch(context_.stream(), narrow<T>, grid, static_cast<const float*>(from), to, count);
    }
  }

  void own(const KernelArguments& a, const MatmulShape& shape, const T* weight, const void* third) const {
    start_own_product<false, kTransposedWeight>(
        context_.stream(),
        OwnProduct<T, T>{.a = input<T>(a, 0),
                         .b = weight,
                         .bias = bias_is_wide_ ? static_cast<const float*>(third) : nullptr,
                         .narrow_bias = shape.bias && !bias_is_wide_ ? static_cast<const T*>(third) : nullptr,
                         .addend = shape.adds ? static_cast<const T*>(third) : nullptr,
                         .c = output<T>(a, 0),
                         .rows = shape.rows,
                         .columns = shape.columns,
                         .inner = shape.inner,
                         .count = a.row_count});
  }

  const Context& context_;
  Matmuls& matmuls_;
  TensorType weight_;
  RowProductForm form_;
  bool bias_is_wide_ = false;  // F32, where there is one
  Matmuls::Announced product_{};
};

// dw[M, K] = dy[n, M]^T x[n, K] (+ sum, in dw's bytes, unless keep is 0); dw is F32. T is the type of dy and x.
template <typename T>
class WeightGradient {
 public:
  WeightGradient(const Context& context, Matmuls& matmuls, const Graph& graph, const Node& node)
      : context_(context), matmuls_(matmuls), form_(graph, node), product_(matmuls.announce(form_.shape)) {}

  std::size_t scratch_bytes() const { return form_.scratch.bytes(); }
  bool is_plain() const { return form_.is_plain(); }
  const MatmulShape& shape() const { return form_.shape; }
  void begin(const KernelArguments& a) const { forget_sum(a); }
  MatmulBuffers buffers(const KernelArguments& a, std::byte* scratch) const {
    float* const dw = output<float>(a, 0);
    return {.a = a.inputs[0].raw(),
            .b = a.inputs[1].raw(),
            .addend = form_.has_sum ? dw : nullptr,
            .c = dw,
            .workspace = scratch + form_.workspace_at};
  }

  void operator()(const KernelArguments& a) const {
    const MatmulShape shape = form_.shape.with(a.bound(form_.shape.inner));
    float* const dw = output<float>(a, 0);
    forget_sum(a);
    if (shape.inner == 0) {
      if (!form_.has_sum) {
        check_cuda(cudaMemsetAsync(dw, 0, bytes_of(DType::kF32, shape.rows * shape.columns), context_.stream()),
                   "zeros in a gradient");
      }
      return;
    }
    if (!matmuls_.can_run(product_, shape.inner)) {
      start_own_product<true, false>(context_.stream(), OwnProduct<T, float>{.a = input<T>(a, 0),
                                                                             .b = input<T>(a, 1),
                                                                             .addend = form_.has_sum ? dw : nullptr,
                                                                             .c = dw,
                                                                             .rows = shape.rows,
                                                                             .columns = shape.columns,
                                                                             .inner = shape.inner,
                                                                             .count = a.row_count,
                                                                             .counts_inner = true});
      return;
    }
    std::byte* const scratch = aligned_scratch(a);
    const auto tail = [&](std::size_t i) {
      // The kernel may write rows that are not real (graph/op.h).
      T* const from = const_cast<T*>(input<T>(a, i));
      return Tail<T>{from, form_.copies[i] ? reinterpret_cast<T*>(scratch + form_.copy_at[i]) : from,
                     rows_of(a, a.inputs[i])};
    };
    const Tail<T> dy = tail(0), x = tail(1);
    const bool pads = shape.pads_a();
    if (pads) start_padding(context_, dy.from, dy.to, dy.rows, shape.pitch_a());
    if (form_.fills) {
      const std::int64_t wider = std::max(pads ? 0 : dy.rows.columns, x.rows.columns);
      launch(
          context_.stream(), fill_tails<T>,
          {.blocks = blocks_for(dy.rows.capacity * wider, kThreads), .threads = kThreads, .blocks_y = pads ? 1U : 2U},
          pads ? x : dy, x);
    }
    MatmulBuffers buffers = this->buffers(a, scratch);
    buffers.a = dy.to;
    buffers.b = x.to;
    matmuls_.run(product_, shape.inner, buffers);
  }

 private:
  // Clears the sum that is added to unless it is kept.
  void forget_sum(const KernelArguments& a) const {
    if (a.inputs.size() <= 3) return;
    const std::int64_t count = form_.shape.rows * form_.shape.columns;
    launch(context_.stream(), forget, {.blocks = blocks_for(count, kThreads), .threads = kThreads}, output<float>(a, 0),
           input<std::int32_t>(a, 3), count);
  }

  const Context& context_;
  Matmuls& matmuls_;
  WeightGradientForm form_;
  Matmuls::Announced product_;
};

template <typename Product>
class ProductKernel final : public Kernel {
 public:
  ProductKernel(Matmuls& matmuls, const Graph& graph, const Node& node, Product product)
      : matmuls_(matmuls), product_(std::move(product)) {
    if (!product_.is_plain()) return;
    const auto here = static_cast<std::size_t>(graph.value(node.outputs[0]).producer);
    const auto most = static_cast<std::int64_t>(batched_products(graph, here));
    for (std::int64_t count = 2; count <= most; ++count) {
      batches_.push_back(matmuls.announce(product_.shape().times(count)));
    }
  }

  std::size_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(const KernelArguments& arguments) const override {
    product_(arguments);
    check_cuda(cudaGetLastError(), "the start of a kernel");
  }

  JoinedCalls join(std::span<const KernelCall> calls) const override {
    if (calls.size() < 2 || calls.size() - 2 >= batches_.size()) return {};
    for (const KernelCall& call : calls) {
      const auto* const other = dynamic_cast<const ProductKernel*>(call.kernel);
      if (other == nullptr || !other->product_.is_plain()) return {};
    }
    Batch batch{.product = batches_[calls.size() - 2], .calls = {calls.begin(), calls.end()}};
    std::byte* const scratch = aligned_scratch(calls.back().arguments);
    for (const KernelCall& call : calls) batch.buffers.push_back(product_.buffers(call.arguments, scratch));
    std::ranges::sort(batch.buffers, std::less<const void*>(),
                      [](const MatmulBuffers& of) -> const void* { return of.c; });
    const std::optional<MatmulStrides> strides = strides_of(batch.buffers);
    if (!strides) return {};
    batch.strides = *strides;
    return [this, batch = std::move(batch)](std::int64_t row_bound) { run_all(batch, row_bound); };
  }

 private:
  // Calls of several products that may run as one.
  struct Batch {
    Matmuls::Announced product{};
    std::vector<KernelCall> calls{};
    std::vector<MatmulBuffers> buffers{};  // in the order of their results' addresses
    MatmulStrides strides{};
  };

  // Algorithms are chosen after calls are joined, and differ between bounds, so each run asks whether this is a batch.
  void run_all(const Batch& batch, std::int64_t row_bound) const {
    const std::int64_t size = std::min(product_.shape().size(), row_bound);
    if (size > 0 && matmuls_.can_run(batch.product, size)) {
      for (const KernelCall& call : batch.calls) product_.begin(call.arguments);
      if (matmuls_.run_batch(batch.product, size, batch.buffers, batch.strides)) return;
    }
    for (const KernelCall& call : batch.calls) {
      KernelArguments arguments = call.arguments;
      arguments.row_bound = row_bound;
      call.kernel->run(arguments);
    }
  }

  Matmuls& matmuls_;
  Product product_;
  std::vector<Matmuls::Announced> batches_{};  // of 2, 3, ... products at once, as many as may follow this one
};

}  // namespace

std::unique_ptr<Kernel> make_linear(const Context& context, Matmuls& matmuls, const Graph& graph, const Node& node) {
  const auto make = [&]<typename Product>(Product product) -> std::unique_ptr<Kernel> {
    return std::make_unique<ProductKernel<Product>>(matmuls, graph, node, std::move(product));
  };
  return for_floating(graph.type(node.inputs[0]).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    switch (node.op) {
      case Op::kLinear:
      case Op::kLinearAdd:
        return make(RowProduct<T, true>(context, matmuls, graph, node));
      case Op::kLinearInputGrad:
        return make(RowProduct<T, false>(context, matmuls, graph, node));
      default:
        check(node.op == Op::kLinearWeightGrad, "make_linear knows the op");
        return make(WeightGradient<T>(context, matmuls, graph, node));
    }
  });
}

}  // namespace plimsoll::cuda
