// bias_grad, add_partial_sums, sum_squares, gradient_norm: sums in blocks whose number does not depend on the device,
// then over the blocks in order, so that they repeat bit for bit.
#include <algorithm>

#include "backend/cuda/blocks.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sizes.h"
#include "backend/cuda/sizes/sums.h"
#include "backend/scratch.h"

namespace plimsoll::cuda {
namespace {

template <typename T>
std::unique_ptr<Kernel> make_bias_grad(const Context& context, const Graph& graph, const Node& node) {
  return make_launch(kernel_scratch_bytes(graph, node),
                     [&context, place = PartialPlace(graph, node)](const KernelArguments& a) {
                       const Rows rows = rows_of(a, a.inputs[0]);
                       float* const partial = place.of(a);
                       start_partial_sums(context, input<T>(a, 0), rows, place.blocks(a), partial);
                       if (!place.is_output()) start_whole_sums(context, rows, partial, output<float>(a, 0));
                     });
}

// Returns the entry of a list to which a block belongs; entries are in the order of their first blocks.
template <typename Entry>
__device__ const Entry& entry_of(const Entry* at, int count, unsigned block) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (at[middle].first_block <= block ? low : high) = middle;
  }
  return at[low];
}

// The partial sums of one node, [rows][sums * width].
struct Parts {
  const float* from;
  float* to[kMostSumsInParts];
  std::int32_t rows, width, sums;
  unsigned first_block;
};
struct PartsList {
  Parts at[kMostParts];
  int count;
};
static_assert(sizeof(PartsList) <= 4096);

__global__ void add_partial_sums(const PLIMSOLL_IN_PLACE PartsList list) {
  const Parts& of = entry_of(list.at, list.count, blockIdx.x);
  sum_columns(
      of.from, of.rows, std::int64_t{of.sums} * of.width,
      [&](std::int64_t c, float sum) { of.to[c / of.width][c % of.width] = sum; }, blockIdx.x - of.first_block);
}

std::unique_ptr<Kernel> make_add_partial_sums(const Context& context, const Graph& graph, const Node& node) {
  const std::vector<std::int64_t>& sums = std::get<PartialSumsAttributes>(node.attributes).sums;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    check(sums[i] <= kMostSumsInParts && graph.type(node.inputs[i]).dtype == DType::kF32,
          "the CUDA backend adds up few partial sums of F32 at a time");
  }
  return make_launch(0, [&context, sums](const KernelArguments& a) {
    PartsList list{};
    unsigned blocks = 0;
    std::size_t output_at = 0;
    const auto start = [&] {
      if (list.count == 0) return;
      launch(context.stream(), add_partial_sums, {.blocks = blocks, .threads = kColumnThreads}, list);
      list.count = 0;
      blocks = 0;
    };
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Shape& shape = a.inputs[i].shape();
      Parts of{.from = input<float>(a, i),
               .to = {},
               .rows = static_cast<std::int32_t>(shape[0]),
               .width = static_cast<std::int32_t>(shape[1] / sums[i]),
               .sums = static_cast<std::int32_t>(sums[i]),
               .first_block = blocks};
      for (std::int64_t sum = 0; sum < sums[i]; ++sum) of.to[sum] = output<float>(a, output_at++);
      list.at[list.count++] = of;
      blocks += column_blocks(shape[1]);
      if (list.count == kMostParts) start();
    }
    start();
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

  __device__ std::int64_t elements(const Squares& of) const {
    return row_count == nullptr ? of.elements : *row_count * columns;
  }
};
static_assert(sizeof(SquaresList) <= 4096);

// A product of two floats is exact in double.
__global__ void partial_squares(const PLIMSOLL_IN_PLACE SquaresList list) {
  const Squares& of = entry_of(list.at, list.count, blockIdx.x);
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
  if (node.op == Op::kAddPartialSums) return make_add_partial_sums(context, graph, node);
  if (node.op == Op::kSumSquares) return make_sum_squares(context, graph, node);
  if (node.op == Op::kGradientNorm) {
    return make_gradient_norm(context, std::get<GradientNormAttributes>(node.attributes).unscales);
  }
  check(node.op == Op::kBiasGrad, "make_reductions knows the op");
  return for_floating(first.dtype, [&]<typename T>(T) { return make_bias_grad<T>(context, graph, node); });
}

}  // namespace plimsoll::cuda
