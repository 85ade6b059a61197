// pair_scores and its gradient, a warp a pair or a row.
#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {
namespace {

struct PairSizes {
  std::int64_t rows, group, width, classes;  // n, E, P, C
};

// A warp a pair: its lanes share the products.
template <typename T>
__global__ void pair_scores(const T* heads, const T* tails, const T* head_terms, const T* tail_terms, T* y,
                            PairSizes s) {
  for (std::int64_t pair = first_row(); pair < s.rows * s.group; pair += row_stride()) {
    const std::int64_t head = pair / s.group, tail = head / s.group * s.group + pair % s.group;
    for (std::int64_t c = 0; c < s.classes; ++c) {
      float sum = 0;
      for (std::int64_t p = lane_index(); p < s.width; p += kWarp) {
        sum = fmaf(to_float(heads[head * s.width + p]), to_float(tails[(tail * s.classes + c) * s.width + p]), sum);
      }
      sum = warp_sum(sum);
      if (lane_index() != 0) continue;
      y[pair * s.classes + c] =
          from_float<T>(sum + to_float(head_terms[head * s.classes + c]) + to_float(tail_terms[tail * s.classes + c]));
    }
  }
}

// A warp a row, and its lanes a column each. kAsHead: the gradient of the row as a head, otherwise as a tail. dy lies
// `step` apart from one of the group's rows to the next. What dy has no part of is passed over by the whole warp.
template <bool kAsHead, typename T>
__global__ void pair_scores_grad(const T* dy, const T* others, T* drows, T* dterms, PairSizes s) {
  const std::int64_t step = (kAsHead ? 1 : s.group) * s.classes;
  for (std::int64_t row = first_row(); row < s.rows; row += row_stride()) {
    const std::int64_t first = row / s.group * s.group;
    const T* const of_row = dy + (kAsHead ? row * s.group : first * s.group + row - first) * s.classes;
    for (std::int64_t c = 0; c < s.classes; ++c) {
      float sum = 0;
      for (std::int64_t e = lane_index(); e < s.group; e += kWarp) sum += to_float(of_row[e * step + c]);
      sum = warp_sum(sum);
      if (lane_index() == 0) dterms[row * s.classes + c] = from_float<T>(sum);
    }
    // A head's gradient is the sum over the classes too; a tail has a row of its own for each.
    const std::int64_t parts = kAsHead ? 1 : s.classes, classes = kAsHead ? s.classes : 1;
    for (std::int64_t at = lane_index(); at < parts * s.width; at += kWarp) {
      const std::int64_t part = at / s.width, p = at % s.width;
      float sum = 0;
      for (std::int64_t e = 0; e < s.group; ++e) {
        for (std::int64_t c = part; c < part + classes; ++c) {
          const float slope = to_float(of_row[e * step + c]);
          const std::int64_t other = first + e;
          const std::int64_t from = kAsHead ? (other * s.classes + c) * s.width + p : other * s.width + p;
          if (slope != 0) sum = fmaf(slope, to_float(others[from]), sum);
        }
      }
      drows[row * parts * s.width + at] = from_float<T>(sum);
    }
  }
}

template <typename T>
std::unique_ptr<Kernel> make_forward(const Context& context, const PairSizes& s) {
  return make_launch(0, [&context, s](const KernelArguments& a) {
    launch(context.stream(), pair_scores<T>, {.blocks = row_blocks(s.rows * s.group), .threads = kRowThreads},
           input<T>(a, 0), input<T>(a, 1), input<T>(a, 2), input<T>(a, 3), output<T>(a, 0), s);
  });
}

template <typename T>
std::unique_ptr<Kernel> make_backward(const Context& context, const PairSizes& s) {
  return make_launch(0, [&context, s](const KernelArguments& a) {
    const Launch of_rows{.blocks = row_blocks(s.rows), .threads = kRowThreads};
    launch(context.stream(), pair_scores_grad<true, T>, of_rows, input<T>(a, 0), input<T>(a, 2), output<T>(a, 0),
           output<T>(a, 2), s);
    launch(context.stream(), pair_scores_grad<false, T>, of_rows, input<T>(a, 0), input<T>(a, 1), output<T>(a, 1),
           output<T>(a, 3), s);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_pairs(const Context& context, const Graph& graph, const Node& node) {
  const bool forward = node.op == Op::kPairScores;
  const Shape& heads = graph.type(node.inputs[forward ? 0 : 1]).shape;
  const PairSizes sizes{.rows = heads[0],
                        .group = std::get<PairAttributes>(node.attributes).group,
                        .width = heads[1],
                        .classes = graph.type(node.inputs[forward ? 2 : 0]).shape[1]};
  return for_floating(graph.type(node.inputs[0]).dtype, [&]<typename T>(T) {
    return forward ? make_forward<T>(context, sizes) : make_backward<T>(context, sizes);
  });
}

}  // namespace plimsoll::cuda
