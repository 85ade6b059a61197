// pair_scores and its gradient take one warp per pair or row; join_pairs and its gradient take one warp per row.
#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {
namespace {

struct PairSizes {
  std::int64_t rows, group, width, classes;  // n, E, P, C
};

// One warp per pair: its lanes share the products.
__global__ void pair_scores(const float* heads, const float* tails, const float* head_terms, const float* tail_terms,
                            float* y, PairSizes s) {
  for (std::int64_t pair = first_row(); pair < s.rows * s.group; pair += row_stride()) {
    const std::int64_t head = pair / s.group, tail = head / s.group * s.group + pair % s.group;
    for (std::int64_t c = 0; c < s.classes; ++c) {
      float sum = 0;
      for (std::int64_t p = lane_index(); p < s.width; p += kWarp) {
        sum = fmaf(heads[head * s.width + p], tails[(tail * s.classes + c) * s.width + p], sum);
      }
      sum = warp_sum(sum);
      if (lane_index() != 0) continue;
      y[pair * s.classes + c] = sum + head_terms[head * s.classes + c] + tail_terms[tail * s.classes + c];
    }
  }
}

// One warp per row, and one column per lane. kAsHead: the gradient of the row as a head, otherwise as a tail. In dy,
// one row of the group is `step` elements after the previous one. The whole warp skips pairs whose dy is 0.
template <bool kAsHead>
__global__ void pair_scores_grad(const float* dy, const float* others, float* drows, float* dterms, PairSizes s) {
  const std::int64_t step = (kAsHead ? 1 : s.group) * s.classes;
  for (std::int64_t row = first_row(); row < s.rows; row += row_stride()) {
    const std::int64_t first = row / s.group * s.group;
    const float* const of_row = dy + (kAsHead ? row * s.group : first * s.group + row - first) * s.classes;
    for (std::int64_t c = 0; c < s.classes; ++c) {
      float sum = 0;
      for (std::int64_t e = lane_index(); e < s.group; e += kWarp) sum += of_row[e * step + c];
      sum = warp_sum(sum);
      if (lane_index() == 0) dterms[row * s.classes + c] = sum;
    }
    // A head's gradient is the sum over the classes too; a tail has a row of its own for each.
    const std::int64_t parts = kAsHead ? 1 : s.classes, classes = kAsHead ? s.classes : 1;
    for (std::int64_t at = lane_index(); at < parts * s.width; at += kWarp) {
      const std::int64_t part = at / s.width, p = at % s.width;
      float sum = 0;
      for (std::int64_t e = 0; e < s.group; ++e) {
        for (std::int64_t c = part; c < part + classes; ++c) {
          const float slope = of_row[e * step + c];
          const std::int64_t other = first + e;
          const std::int64_t from = kAsHead ? (other * s.classes + c) * s.width + p : other * s.width + p;
          if (slope != 0) sum = fmaf(slope, others[from], sum);
        }
      }
      drows[row * parts * s.width + at] = sum;
    }
  }
}

__global__ void join_pairs(const float* x, float* y, bool products, Rows rows) {
  const std::int64_t width = rows.columns, columns = (products ? 4 : 2) * width, real = rows.real();
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    const bool joins = row % 2 == 0 && row + 1 < real;
    for (std::int64_t c = lane_index(); c < columns; c += kWarp) {
      const std::int64_t part = c / width, k = c % width;
      float joined = 0;
      if (joins) {
        const float first = x[row * width + k], second = x[(row + 1) * width + k];
        joined = part == 0 ? first : part == 1 ? second : part == 2 ? fabsf(first - second) : first * second;
      }
      y[row * columns + c] = joined;
    }
  }
}

__global__ void join_pairs_grad(const float* dy, const float* x, float* dx, bool products, Rows rows) {
  const std::int64_t width = rows.columns, columns = (products ? 4 : 2) * width, real = rows.real();
  for (std::int64_t row = first_row(); row < real; row += row_stride()) {
    const std::int64_t pair = row / 2 * 2, other = row % 2 == 0 ? row + 1 : row - 1;
    const float* const from = dy + pair * columns;
    for (std::int64_t k = lane_index(); k < width; k += kWarp) {
      float sum = 0;
      if (pair + 1 < real) {
        sum = from[(row - pair) * width + k];
        if (products) {
          const float mine = x[row * width + k], theirs = x[other * width + k];
          const float distance = from[2 * width + k];
          sum += (mine > theirs ? distance : mine < theirs ? -distance : 0) + theirs * from[3 * width + k];
        }
      }
      dx[row * width + k] = sum;
    }
  }
}

std::unique_ptr<Kernel> make_join(const Context& context, const Node& node) {
  const bool products = std::get<JoinAttributes>(node.attributes).products;
  if (node.op == Op::kJoinPairs) {
    return make_launch(0, [&context, products](const KernelArguments& a) {
      const Rows rows = rows_of(a, a.inputs[0]);
      launch(context.stream(), join_pairs, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
             input<float>(a, 0), output<float>(a, 0), products, rows);
    });
  }
  return make_launch(0, [&context, products](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[1]);
    launch(context.stream(), join_pairs_grad, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
           input<float>(a, 0), input<float>(a, 1), output<float>(a, 0), products, rows);
  });
}

std::unique_ptr<Kernel> make_forward(const Context& context, const PairSizes& s) {
  return make_launch(0, [&context, s](const KernelArguments& a) {
    launch(context.stream(), pair_scores, {.blocks = row_blocks(s.rows * s.group), .threads = kRowThreads},
           input<float>(a, 0), input<float>(a, 1), input<float>(a, 2), input<float>(a, 3), output<float>(a, 0), s);
  });
}

std::unique_ptr<Kernel> make_backward(const Context& context, const PairSizes& s) {
  return make_launch(0, [&context, s](const KernelArguments& a) {
    const Launch of_rows{.blocks = row_blocks(s.rows), .threads = kRowThreads};
    launch(context.stream(), pair_scores_grad<true>, of_rows, input<float>(a, 0), input<float>(a, 2),
           output<float>(a, 0), output<float>(a, 2), s);
    launch(context.stream(), pair_scores_grad<false>, of_rows, input<float>(a, 0), input<float>(a, 1),
           output<float>(a, 1), output<float>(a, 3), s);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_pairs(const Context& context, const Graph& graph, const Node& node) {
  if (node.op == Op::kJoinPairs || node.op == Op::kJoinPairsGrad) return make_join(context, node);
  const bool forward = node.op == Op::kPairScores;
  const Shape& heads = graph.type(node.inputs[forward ? 0 : 1]).shape;
  const PairSizes sizes{.rows = heads[0],
                        .group = std::get<PairAttributes>(node.attributes).group,
                        .width = heads[1],
                        .classes = graph.type(node.inputs[forward ? 2 : 0]).shape[1]};
  check(graph.type(node.inputs[0]).dtype == DType::kF32, "heads, and so their pairs, are in F32");
  return forward ? make_forward(context, sizes) : make_backward(context, sizes);
}

}  // namespace plimsoll::cuda
