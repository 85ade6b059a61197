#include "backend/cpu/few_rows_products.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/thread_floats.h"
#include "backend/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/few_rows_products.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_product-inl.h"
#include "backend/cpu/simd_transpose-inl.h"

#ifndef PLIMSOLL_BACKEND_CPU_FEW_ROWS_PRODUCT
#define PLIMSOLL_BACKEND_CPU_FEW_ROWS_PRODUCT
namespace plimsoll {

inline constexpr std::int64_t kMostRows = 128;
// A panel is kPanel columns of a matrix, whose rows are contiguous: [rows][kPanel]. kDepth rows of a panel, 32 KiB,
// stay in L1 while kTableRows rows of the other matrix are multiplied by them.
inline constexpr std::int64_t kPanel = 64;
inline constexpr std::int64_t kDepth = 128;
inline constexpr std::int64_t kTableRows = 192;
inline constexpr std::int64_t kLine = 16;  // floats of a line of the caches

struct FewRowsProduct {
  std::int64_t n = 0, m = 0, k = 0;
  const float* rows = nullptr;    // x or dy, as it is in memory
  const float* table = nullptr;   // W
  const float* panels = nullptr;  // x in panels: of rows for y, transposed; of its columns for dw
  float* result = nullptr;
  bool adds = false;  // adds to the result's old content
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Prefetches the cache lines of a matrix of `rows` rows, which are `stride` apart, into L2, because L1 holds a panel.
HWY_INLINE void fetch(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; j += kLine) __builtin_prefetch(from + i * stride + j, 0, 2);
  }
}

// Does so during a product, a line at a time, so that arithmetic and memory overlap: as many lines as the product reads
// of the table while it multiplies them by a panel.
template <bool writes>
class FetchBeside {
 public:
  FetchBeside(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t columns)
      : next_(from), line_end_(from + columns), step_(stride - columns), columns_(columns), rows_(rows) {}

  HWY_INLINE void operator()(std::int64_t k) {
    if ((k & 7) >= kOfEight || rows_ <= 0) return;
    __builtin_prefetch(next_, writes, writes ? 3 : 2);
    next_ += kLine;
    if (next_ < line_end_) return;
    next_ = line_end_ + step_;
    line_end_ = next_ + columns_;
    --rows_;
  }

 private:
  static constexpr std::int64_t kOfEight = 3;  // kProductRows * kPanel / kLine of kPanel: 24 lines for 64 products
  const float *next_, *line_end_;
  std::int64_t step_, columns_, rows_;
};

HWY_INLINE void copy_rows(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                          float* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(columns) * sizeof(float));
  }
}

// Calls body(first, count) for every block of kProductRows of `rows` rows.
template <typename Body>
HWY_INLINE void for_blocks(std::int64_t rows, const Body& body) {
  for (std::int64_t i = 0; i < rows; i += kProductRows) body(i, std::min<std::int64_t>(kProductRows, rows - i));
}

// to[p][c][r - p kPanel] = x[r][c], zeros for rows that do not exist. One thread does this, because starting the team a
// second time would take longer.
void pack_rows(const FewRowsProduct& of, float* to) {
  for (std::int64_t r = 0; r < of.n; r += kPanel) {
    const std::int64_t count = std::min(kPanel, of.n - r);
    float* const panel = to + r * of.k;
    if (count < kPanel) std::fill_n(panel, of.k * kPanel, 0.0F);
    simd_transpose(of.rows + r * of.k, of.k, count, of.k, panel, kPanel);
  }
}

// Computes columns [begin, end) of y. `sums` holds [kTableRows][kPanel].
void few_rows_linear(const FewRowsProduct& of, std::int64_t begin, std::int64_t end, float* sums) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (std::int64_t v = begin; v < end; v += kTableRows) {
    const std::int64_t count = std::min(kTableRows, end - v);
    for (std::int64_t r = 0; r < of.n; r += kPanel) {
      const std::int64_t rows = std::min(kPanel, of.n - r), columns = (rows + lanes - 1) / lanes * lanes;
      float* const y = of.result + r * of.m + v;
      for (std::int64_t c = 0; c < of.k; c += kDepth) {
        const std::int64_t depth = std::min(kDepth, of.k - c);
        const float* const table = of.table + v * of.k + c;
        // The lines of y that the sums go to are prefetched, a few after each panel.
        const std::int64_t row = rows * c / of.k;
        fetch(y + row * of.m, of.m, rows * (c + depth) / of.k - row, count);
        for_blocks(count, [&](std::int64_t i, std::int64_t block) {
          const std::int64_t next = i + block;
          FetchBeside<false> beside(table + next * of.k, of.k, std::min<std::int64_t>(kProductRows, count - next),
                                    depth);
          simd_product(ProductRows{table + i * of.k, of.k}, block, depth, of.panels + r * of.k + c * kPanel, kPanel,
                       sums + i * kPanel, kPanel, columns, c == 0 ? ProductSum::kStore : ProductSum::kAdd, nullptr,
                       beside);
        });
      }
      simd_transpose(sums, kPanel, count, rows, y, of.m);
    }
  }
}

// Computes columns [begin, end) of dx. `buffer` holds two matrices: dy's columns, transposed, [kDepth][kPanel], and the
// sums of dx's columns [end - begin][kPanel].
void few_rows_input_grad(const FewRowsProduct& of, std::int64_t begin, std::int64_t end, float* buffer) {
  float *const panel = buffer, *const sums = buffer + kDepth * kPanel;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const std::int64_t width = end - begin;
  for (std::int64_t r = 0; r < of.n; r += kPanel) {
    const std::int64_t rows = std::min(kPanel, of.n - r), columns = (rows + lanes - 1) / lanes * lanes;
    std::fill_n(panel, kDepth * kPanel, 0.0F);
    for (std::int64_t v = 0; v < of.m; v += kDepth) {
      const std::int64_t depth = std::min(kDepth, of.m - v), ahead = std::min(kDepth, of.m - v - depth);
      const float *const dy = of.rows + r * of.m + v, *const table = of.table + v * of.k + begin;
      simd_transpose(dy, of.m, rows, depth, panel, kPanel);
      FetchBeside<false> beside(table + depth * of.k, of.k, ahead, width);
      for_blocks(width, [&](std::int64_t i, std::int64_t block) {
        const std::int64_t row = rows * i / width;
        fetch(dy + depth + row * of.m, of.m, rows * (i + block) / width - row, ahead);
        simd_product(ProductColumns{table + i, of.k}, block, depth, panel, kPanel, sums + i * kPanel, kPanel, columns,
                     v == 0 ? ProductSum::kStore : ProductSum::kAdd, nullptr, beside);
      });
    }
    simd_transpose(sums, kPanel, width, rows, of.result + r * of.k + begin, of.k);
  }
}

// Computes rows [begin, end) of dw. `dy` holds [n][kTableRows].
void few_rows_weight_grad(const FewRowsProduct& of, std::int64_t begin, std::int64_t end, float* dy) {
  for (std::int64_t v = begin; v < end; v += kTableRows) {
    const std::int64_t count = std::min(kTableRows, end - v), ahead = std::min(kTableRows, end - v - count);
    copy_rows(of.rows + v, of.m, of.n, count, dy, kTableRows);
    for (std::int64_t c = 0; c < of.k; c += kPanel) {
      const std::int64_t columns = std::min(kPanel, of.k - c);
      // The columns of dy that the next rows need are prefetched, a few after each panel.
      const std::int64_t row = of.n * c / of.k;
      fetch(of.rows + row * of.m + v + count, of.m, of.n * (c + columns) / of.k - row, ahead);
      for_blocks(count, [&](std::int64_t i, std::int64_t block) {
        float* const to = of.result + (v + i) * of.k + c;
        const bool last = i + block == count;
        const std::int64_t next_columns = last ? std::min(kPanel, of.k - c - columns) : columns;
        FetchBeside<true> beside(last ? of.result + v * of.k + c + columns : to + block * of.k, of.k,
                                 last ? kProductRows : std::min<std::int64_t>(kProductRows, count - i - block),
                                 next_columns);
        simd_product(ProductColumns{dy + i, kTableRows}, block, of.n, of.panels + c * of.n, kPanel, to, of.k, columns,
                     of.adds ? ProductSum::kAdd : ProductSum::kStore, nullptr, beside);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

constexpr std::int64_t kFewestRows = 16;
constexpr std::int64_t kLanes = 16;  // of the widest target, whose loads of a panel are aligned

std::int64_t whole_panels(std::int64_t columns) { return (columns + kPanel - 1) / kPanel * kPanel; }

}  // namespace

HWY_EXPORT(pack_rows);
HWY_EXPORT(few_rows_linear);
HWY_EXPORT(few_rows_input_grad);
HWY_EXPORT(few_rows_weight_grad);

bool has_few_rows(std::int64_t n, std::int64_t k) { return n >= kFewestRows && n <= kMostRows && k % kLanes == 0; }

std::unique_ptr<Kernel> make_few_rows_linear(const Graph& graph, const Node& node) {
  const Shape &x = graph.type(node.inputs[0]).shape, &table = graph.type(node.inputs[1]).shape;
  const std::int64_t capacity = x[0], k = x[1], m = table[0];
  ScratchLayout layout;
  const std::size_t panels_at = layout.add<float>(whole_panels(capacity) * k);
  const ThreadFloats sums(layout, kTableRows * kPanel);
  const auto pack = HWY_DYNAMIC_DISPATCH(pack_rows);
  const auto multiply = HWY_DYNAMIC_DISPATCH(few_rows_linear);
  const auto run = [=](const KernelArguments& a) {
    auto* const panels = scratch_at<float>(a, panels_at);
    const FewRowsProduct of{.n = a.rows(capacity),
                            .m = m,
                            .k = k,
                            .rows = a.inputs[0].data<float>(),
                            .table = a.inputs[1].data<float>(),
                            .panels = panels,
                            .result = a.outputs[0].data<float>()};
    if (of.n == 0) return;
    pack(of, panels);
    parallel_for(m, kTableRows, [&](std::int64_t begin, std::int64_t end) { multiply(of, begin, end, sums.own(a)); });
  };
  return make_kernel(run, layout.bytes());
}

std::unique_ptr<Kernel> make_few_rows_input_grad(const Graph& graph, const Node& node) {
  const Shape &dy = graph.type(node.inputs[0]).shape, &table = graph.type(node.inputs[1]).shape;
  const std::int64_t capacity = dy[0], m = table[0], k = table[1];
  ScratchLayout layout;
  const ThreadFloats buffer(layout, (kDepth + k) * kPanel);
  const auto multiply = HWY_DYNAMIC_DISPATCH(few_rows_input_grad);
  const auto run = [=](const KernelArguments& a) {
    const FewRowsProduct of{.n = a.rows(capacity),
                            .m = m,
                            .k = k,
                            .rows = a.inputs[0].data<float>(),
                            .table = a.inputs[1].data<float>(),
                            .result = a.outputs[0].data<float>()};
    if (of.n == 0) return;
    parallel_for(k, kLanes, [&](std::int64_t begin, std::int64_t end) { multiply(of, begin, end, buffer.own(a)); });
  };
  return make_kernel(run, layout.bytes());
}

std::unique_ptr<Kernel> make_few_rows_weight_grad(const Graph& graph, const Node& node) {
  const Shape &dy = graph.type(node.inputs[0]).shape, &x = graph.type(node.inputs[1]).shape;
  const std::int64_t capacity = dy[0], m = dy[1], k = x[1];
  ScratchLayout layout;
  const std::size_t panels_at = layout.add<float>(capacity * whole_panels(k));
  const ThreadFloats columns(layout, capacity * kTableRows);
  const auto multiply = HWY_DYNAMIC_DISPATCH(few_rows_weight_grad);
  const auto run = [=](const KernelArguments& a) {
    auto* const panels = scratch_at<float>(a, panels_at);
    const auto* const rows = a.inputs[1].data<float>();
    const FewRowsProduct of{.n = a.rows(capacity),
                            .m = m,
                            .k = k,
                            .rows = a.inputs[0].data<float>(),
                            .panels = panels,
                            .result = a.outputs[0].data<float>(),
                            .adds = adds_to_sum(a)};
    for (std::int64_t c = 0; c < k; c += kPanel) {
      const std::size_t bytes = static_cast<std::size_t>(std::min(kPanel, k - c)) * sizeof(float);
      for (std::int64_t r = 0; r < of.n; ++r) std::memcpy(panels + c * of.n + r * kPanel, rows + r * k + c, bytes);
    }
    parallel_for(m, kTableRows,
                 [&](std::int64_t begin, std::int64_t end) { multiply(of, begin, end, columns.own(a)); });
  };
  return make_kernel(run, layout.bytes());
}

}  // namespace plimsoll
#endif  // HWY_ONCE
