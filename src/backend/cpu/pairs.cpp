// join_pairs and its gradient; pair_scores and its gradient. A thread takes rows of the heads or of the tails; a
// group's other rows are few enough to stay in its cache. Most pairs of a page do not count (one entity cannot lead to
// every other), and the gradient skips those whose dy is 0.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/pairs.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(row_dot);
HWY_EXPORT(row_add);

// The rows of whole pairs, and the row after them, if there is one.
struct JoinedRows {
  std::int64_t pairs, rest;
  explicit JoinedRows(std::int64_t rows) : pairs(rows / 2), rest(rows % 2) {}
};

struct PairSizes {
  std::int64_t rows, group, width, classes;  // n, E, P, C
};

}  // namespace

std::unique_ptr<Kernel> make_pair_scores(const Graph& graph, const Node& node) {
  const PairSizes s{.rows = graph.type(node.inputs[0]).shape[0],
                    .group = std::get<PairAttributes>(node.attributes).group,
                    .width = graph.type(node.inputs[0]).shape[1],
                    .classes = graph.type(node.inputs[2]).shape[1]};
  return make_kernel([s, dot = HWY_DYNAMIC_DISPATCH(row_dot)](const KernelArguments& a) {
    const float* const heads = a.inputs[0].data<float>();
    const float* const tails = a.inputs[1].data<float>();
    const float* const head_terms = a.inputs[2].data<float>();
    const float* const tail_terms = a.inputs[3].data<float>();
    float* const y = a.outputs[0].data<float>();
    parallel_for(s.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t h = begin; h < end; ++h) {
        float* to = y + h * s.group * s.classes;
        for (std::int64_t t = h / s.group * s.group, last = t + s.group; t < last; ++t) {
          for (std::int64_t c = 0; c < s.classes; ++c, ++to) {
            const float* const tail = tails + (t * s.classes + c) * s.width;
            *to = head_terms[h * s.classes + c] + tail_terms[t * s.classes + c] +
                  dot(heads + h * s.width, tail, static_cast<std::size_t>(s.width));
          }
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_pair_scores_grad(const Graph& graph, const Node& node) {
  const PairSizes s{.rows = graph.type(node.inputs[1]).shape[0],
                    .group = std::get<PairAttributes>(node.attributes).group,
                    .width = graph.type(node.inputs[1]).shape[1],
                    .classes = graph.type(node.inputs[0]).shape[1]};
  return make_kernel([s, add = HWY_DYNAMIC_DISPATCH(row_add)](const KernelArguments& a) {
    const float* const dy = a.inputs[0].data<float>();
    const float* const heads = a.inputs[1].data<float>();
    const float* const tails = a.inputs[2].data<float>();
    float* const dheads = a.outputs[0].data<float>();
    float* const dtails = a.outputs[1].data<float>();
    float* const dhead_terms = a.outputs[2].data<float>();
    float* const dtail_terms = a.outputs[3].data<float>();
    const auto width = static_cast<std::size_t>(s.width);
    parallel_for(s.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      std::fill(dheads + begin * s.width, dheads + end * s.width, 0.0F);
      std::fill(dtails + begin * s.classes * s.width, dtails + end * s.classes * s.width, 0.0F);
      std::fill(dhead_terms + begin * s.classes, dhead_terms + end * s.classes, 0.0F);
      std::fill(dtail_terms + begin * s.classes, dtail_terms + end * s.classes, 0.0F);
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t first = row / s.group * s.group;
        for (std::int64_t other = first; other < first + s.group; ++other) {
          for (std::int64_t c = 0; c < s.classes; ++c) {
            const std::int64_t mine = row * s.classes + c, others = other * s.classes + c;
            const float as_head = dy[(row * s.group + other - first) * s.classes + c];
            if (as_head != 0) {
              dhead_terms[mine] += as_head;
              add(as_head, tails + others * s.width, dheads + row * s.width, width);
            }
            const float as_tail = dy[(other * s.group + row - first) * s.classes + c];
            if (as_tail != 0) {
              dtail_terms[mine] += as_tail;
              add(as_tail, heads + other * s.width, dtails + mine * s.width, width);
            }
          }
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_join_pairs(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0], width = graph.type(node.inputs[0]).shape[1];
  const bool products = std::get<JoinAttributes>(node.attributes).products;
  return make_kernel([=](const KernelArguments& a) {
    const float* const x = a.inputs[0].data<float>();
    float* const y = a.outputs[0].data<float>();
    const std::int64_t columns = (products ? 4 : 2) * width;
    const JoinedRows rows(a.rows(capacity));
    for (std::int64_t pair = 0; pair < rows.pairs; ++pair) {
      const float *const first = x + 2 * pair * width, *const second = first + width;
      float* const to = y + 2 * pair * columns;
      std::copy_n(first, 2 * width, to);
      for (std::int64_t k = 0; products && k < width; ++k) {
        to[2 * width + k] = std::abs(first[k] - second[k]);
        to[3 * width + k] = first[k] * second[k];
      }
      std::fill_n(to + columns, columns, 0.0F);
    }
    std::fill_n(y + 2 * rows.pairs * columns, rows.rest * columns, 0.0F);
  });
}

std::unique_ptr<Kernel> make_join_pairs_grad(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[1]).shape[0], width = graph.type(node.inputs[1]).shape[1];
  const bool products = std::get<JoinAttributes>(node.attributes).products;
  return make_kernel([=](const KernelArguments& a) {
    const float* const dy = a.inputs[0].data<float>();
    const float* const x = a.inputs[1].data<float>();
    float* const dx = a.outputs[0].data<float>();
    const std::int64_t columns = (products ? 4 : 2) * width;
    const JoinedRows rows(a.rows(capacity));
    for (std::int64_t pair = 0; pair < rows.pairs; ++pair) {
      const float *const first = x + 2 * pair * width, *const second = first + width;
      const float* const from = dy + 2 * pair * columns;
      float *const to_first = dx + 2 * pair * width, *const to_second = to_first + width;
      for (std::int64_t k = 0; k < width; ++k) {
        to_first[k] = from[k];
        to_second[k] = from[width + k];
        if (!products) continue;
        const float distance = from[2 * width + k], product = from[3 * width + k];
        const float slope = first[k] > second[k] ? distance : first[k] < second[k] ? -distance : 0;
        to_first[k] += slope + second[k] * product;
        to_second[k] += first[k] * product - slope;
      }
    }
    std::fill_n(dx + 2 * rows.pairs * width, rows.rest * width, 0.0F);
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
