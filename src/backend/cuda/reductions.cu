// bias_grad, sum_squares, gradient_norm: sums in blocks whose number does not depend on the device, then over the
// blocks in order, so that they repeat bit for bit.
#include <algorithm>

#include "backend/cuda/blocks.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"
#include "backend/scratch.h"

namespace plimsoll::cuda {
namespace {

template <typename T>
std::unique_ptr<Kernel> make_bias_grad(const Context& context, const TensorType& dy) {
  return make_launch(column_sums_scratch_bytes(dy), [&context](const KernelArguments& a) {
    start_column_sums(context, input<T>(a, 0), rows_of(a, a.inputs[0]), scratch_at<float>(a, 0), output<float>(a, 0));
  });
}

constexpr int kPack = 4;
static_assert(kSumElements == std::int64_t{kRowThreads} * kPack * 8, "a block adds up eight packs of each thread");

// One launch sums the squares of several tensors: a block belongs to one of them.
struct Squares {
  const float* x;
  double* partial;  // a sum for each block; for a tensor of one block, the result
  double* squares;
  std::int64_t elements;
  unsigned first_block;
};
struct SquaresList {
  Squares at[kMostSquares];
  int count;
  const std::int32_t* row_count;  // of a single tensor, or nullptr
  std::int64_t columns;           // of those rows

  // Returns the tensor of a block.
  __device__ const Squares& of(unsigned block) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (at[middle].first_block <= block ? low : high) = middle;
    }
    return at[low];
  }
  __device__ std::int64_t elements(const Squares& of) const {
    return row_count == nullptr ? of.elements : *row_count * columns;
  }
};
static_assert(sizeof(SquaresList) <= 4096);

// A product of two floats is exact in double.
__global__ void partial_squares(const PLIMSOLL_IN_PLACE SquaresList list) {
  const Squares& of = list.of(blockIdx.x);
  const unsigned block = blockIdx.x - of.first_block;
  const std::int64_t count = list.elements(of), first = block * kSumElements;
  if (first >= count && count > 0) return;
  const std::int64_t end = first + kSumElements < count ? first + kSumElements : count;
  double sum = 0;
  for (std::int64_t at = first + threadIdx.x * kPack; at < end; at += kRowThreads * kPack) {
    float each[kPack];
    load(of.x + at, end - at < kPack ? static_cast<int>(end - at) : kPack, each);
    for (const float value : each) sum += double{value} * double{value};
  }
  sum = block_sum<kRowThreads>(sum);
  if (threadIdx.x == 0) of.partial[block] = sum;
}

// One block per tensor.
__global__ void whole_squares(const PLIMSOLL_IN_PLACE SquaresList list) {
  const Squares& of = list.at[blockIdx.x];
  const double sum = block_sum_of<kRowThreads>(of.partial, element_sum_blocks(list.elements(of)));
  if (threadIdx.x == 0) *of.squares = sum;
}

std::unique_ptr<Kernel> make_sum_squares(const Context& context, const Graph& graph, const Node& node) {
  for (const ValueId input : node.inputs) {
    check(graph.type(input).dtype == DType::kF32, "the CUDA backend sums squares of F32");
  }
  const SumSquaresScratch scratch(graph, node);
  return make_launch(scratch.layout.bytes(), [&context, partials = scratch.partials](const KernelArguments& a) {
    // If the rows of a single tensor are counted, the host knows a bound of them.
    const Rows rows = rows_of(a, a.inputs[0]);
    const auto square = [&](std::size_t t) {
      const std::int64_t elements = a.row_count == nullptr ? a.inputs[t].elements() : rows.capacity * rows.columns;
      const bool at_once = element_sum_blocks(elements) <= 1 && a.row_count == nullptr;  // as for most parameters
      auto* const squares = output<double>(a, t);
      return Squares{.x = input<float>(a, t),
                     .partial = at_once ? squares : scratch_at<double>(a, partials[t]),
                     .squares = squares,
                     .elements = elements,
                     .first_block = 0};
    };
    SquaresList list{.at = {}, .count = 0, .row_count = a.row_count, .columns = rows.columns};
    unsigned blocks = 0;
    const auto start = [&](auto kernel) {
      if (list.count == 0) return;
      launch(context.stream(), kernel, {.blocks = blocks, .threads = kRowThreads}, list);
      list.count = 0;
      blocks = 0;
    };
    const auto add = [&](Squares each, std::int64_t its_blocks, auto kernel) {
      each.first_block = blocks;
      list.at[list.count++] = each;
      blocks += static_cast<unsigned>(std::max<std::int64_t>(its_blocks, 1));
      if (list.count == kMostSquares) start(kernel);
    };
    for (std::size_t t = 0; t < a.inputs.size(); ++t) {
      const Squares each = square(t);
      add(each, element_sum_blocks(each.elements), partial_squares);
    }
    start(partial_squares);
    for (std::size_t t = 0; t < a.inputs.size(); ++t) {
      if (const Squares each = square(t); each.partial != each.squares) add(each, 1, whole_squares);
    }
    start(whole_squares);
  });
}

// One launch takes the addresses of this many sums of squares.
constexpr std::size_t kAddresses = kMostAddedSquares;
struct Addresses {
  const double* at[kAddresses];
  unsigned count;
};

// Thread 0 gets sum (or 0 for the first launch) plus the numbers at the addresses, in order. Launched as one block of
// kAddresses threads.
__device__ double added_squares(const Addresses& squares, const double* sum, bool is_first) {
  PLIMSOLL_SHARED double values[kAddresses];
  if (threadIdx.x < squares.count) values[threadIdx.x] = *squares.at[threadIdx.x];
  __syncthreads();
  if (threadIdx.x > 0) return 0;
  double total = is_first ? 0 : *sum;
  for (unsigned i = 0; i < squares.count; ++i) total += values[i];
  return total;
}
__global__ void add_squares(Addresses squares, double* sum, bool is_first) {
  const double total = added_squares(squares, sum, is_first);
  if (threadIdx.x == 0) *sum = total;
}

// Computes the norm of all squares, of which it gets the last ones, as torch.nn.utils.clip_grad_norm_ does, in double,
// rounded once.
__global__ void gradient_norm(Addresses squares, const double* sum, bool is_first, const float* max_grad_norm,
                              const float* unscale_by, float* norm_to, float* clip_to) {
  const double total = added_squares(squares, sum, is_first);
  if (threadIdx.x > 0) return;
  const double max_norm = *max_grad_norm, unscale = unscale_by == nullptr ? 1.0 : double{*unscale_by};
  const double norm = sqrt(total) * unscale, ratio = max_norm / (norm + 1e-6);
  const double clip = max_norm <= 0 || !(ratio < 1.0) ? 1.0 : ratio;
  *norm_to = static_cast<float>(norm);
  const bool is_finite = norm - norm == 0;
  *clip_to = is_finite ? static_cast<float>(clip * unscale) : nanf("");
}

std::unique_ptr<Kernel> make_gradient_norm(const Context& context, bool unscales) {
  return make_launch(kGradientNormScratchBytes, [&context, unscales](const KernelArguments& a) {
    auto* const sum = scratch_at<double>(a, 0);
    const std::size_t first = unscales ? 2 : 1;
    const Launch block{.blocks = 1, .threads = kAddresses};
    for (std::size_t i = first; i == first || i < a.inputs.size(); i += kAddresses) {
      Addresses squares{{}, static_cast<unsigned>(std::min(kAddresses, a.inputs.size() - i))};
      for (std::size_t k = 0; k < squares.count; ++k) squares.at[k] = input<double>(a, i + k);
      if (i + kAddresses < a.inputs.size()) {
        launch(context.stream(), add_squares, block, squares, sum, i == first);
        continue;
      }
      launch(context.stream(), gradient_norm, block, squares, sum, i == first, input<float>(a, 0),
             unscales ? input<float>(a, 1) : nullptr, output<float>(a, 0), output<float>(a, 1));
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make_reductions(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& first = graph.type(node.inputs[0]);
  if (node.op == Op::kSumSquares) return make_sum_squares(context, graph, node);
  if (node.op == Op::kGradientNorm) {
    return make_gradient_norm(context, std::get<GradientNormAttributes>(node.attributes).unscales);
  }
  check(node.op == Op::kBiasGrad, "make_reductions knows the op");
  return for_floating(first.dtype, [&]<typename T>(T) { return make_bias_grad<T>(context, first); });
}

}  // namespace plimsoll::cuda
