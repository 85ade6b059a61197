// Kernels that sum rows: bias_grad, the gradients of the embeddings, merge_row_grads.
//
// They all sum selected rows of dy into rows of a gradient. Rows are first grouped by target in scratch (a counting
// sort or a stable sort, which keeps dy's order); then every task sums kChunk columns of one target at a time, in
// registers, kSumBlock rows to a partial sum. Tasks write disjoint parts, so results do not depend on the team.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/spatial.h"
#include "backend/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/row_gradients.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"

#ifndef PLIMSOLL_BACKEND_CPU_ROW_GRADIENTS_ONCE
#define PLIMSOLL_BACKEND_CPU_ROW_GRADIENTS_ONCE
namespace plimsoll {

// `count` rows of T: base + starts[i], or base + i * stride where starts is null.
template <class T>
struct RowSet {
  const T* base;
  const std::int32_t* starts;
  std::int64_t stride, count;
  const T* row(std::int64_t i) const { return base + (starts == nullptr ? i * stride : std::int64_t{starts[i]}); }
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// to[0, 4 lanes of d) = sum of the rows' columns from `column` on, or += it.
template <bool adds, class D, class T>
HWY_INLINE void sum_four(D d, const RowSet<T>& rows, std::size_t column, float* to) {
  const std::size_t lanes = hn::Lanes(d);
  auto total0 = hn::Zero(d), total1 = total0, total2 = total0, total3 = total0;
  for (std::int64_t block = 0; block < rows.count; block += kSumBlock) {
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    const std::int64_t end = block + kSumBlock < rows.count ? block + kSumBlock : rows.count;
    for (std::int64_t i = block; i < end; ++i) {
      const T* const from = rows.row(i) + column;
      sum0 = hn::Add(sum0, load_floats(d, from));
      sum1 = hn::Add(sum1, load_floats(d, from + lanes));
      sum2 = hn::Add(sum2, load_floats(d, from + 2 * lanes));
      sum3 = hn::Add(sum3, load_floats(d, from + 3 * lanes));
    }
    total0 = hn::Add(total0, sum0);
    total1 = hn::Add(total1, sum1);
    total2 = hn::Add(total2, sum2);
    total3 = hn::Add(total3, sum3);
  }
  if constexpr (adds) {
    total0 = hn::Add(hn::LoadU(d, to), total0);
    total1 = hn::Add(hn::LoadU(d, to + lanes), total1);
    total2 = hn::Add(hn::LoadU(d, to + 2 * lanes), total2);
    total3 = hn::Add(hn::LoadU(d, to + 3 * lanes), total3);
  }
  hn::StoreU(total0, d, to);
  hn::StoreU(total1, d, to + lanes);
  hn::StoreU(total2, d, to + 2 * lanes);
  hn::StoreU(total3, d, to + 3 * lanes);
}

// to[0, width) = sum of the rows' columns begin..begin+width-1, or += it.
template <bool adds, class T>
HWY_INLINE void sum_row_set(const RowSet<T>& rows, std::size_t begin, std::size_t width, float* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one_lane;
  std::size_t i = 0;
  for (; i + 4 * hn::Lanes(d) <= width; i += 4 * hn::Lanes(d)) sum_four<adds>(d, rows, begin + i, to + i);
  for (; i + 4 <= width; i += 4) sum_four<adds>(one_lane, rows, begin + i, to + i);
  for (; i < width; ++i) {
    float total = 0;
    for (std::int64_t block = 0; block < rows.count; block += kSumBlock) {
      float sum = 0;
      const std::int64_t end = block + kSumBlock < rows.count ? block + kSumBlock : rows.count;
      for (std::int64_t row = block; row < end; ++row) sum += load_float(rows.row(row) + begin + i);
      total += sum;
    }
    to[i] = adds ? to[i] + total : total;
  }
}

void sum_rows(const RowSet<float>& rows, std::size_t begin, std::size_t width, float* to) {
  sum_row_set<false>(rows, begin, width, to);
}
void add_rows(const RowSet<float>& rows, std::size_t begin, std::size_t width, float* to) {
  sum_row_set<true>(rows, begin, width, to);
}
// Sums rows that are `stride` apart.
void sum_even_rows(DType dtype, const void* base, std::int64_t stride, std::int64_t count, std::size_t begin,
                   std::size_t width, float* to) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    sum_row_set<false>(RowSet<T>{static_cast<const T*>(base), nullptr, stride, count}, begin, width, to);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(sum_rows);
HWY_EXPORT(add_rows);
HWY_EXPORT(sum_even_rows);

// A task sums this many columns: whole vectors on every target, a few cache lines of each row.
constexpr std::int64_t kChunk = 128;

// to[target][0, width) = sum of rows_of(target), for all targets; with `adds` += it, for those that have rows.
template <typename RowsOf>
void sum_targets(std::int64_t targets, std::int64_t width, float* to, const RowsOf& rows_of, bool adds = false) {
  const std::int64_t chunks = (width + kChunk - 1) / kChunk;
  const auto sum = adds ? HWY_DYNAMIC_DISPATCH(add_rows) : HWY_DYNAMIC_DISPATCH(sum_rows);
  parallel_for(targets * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t target = task / chunks, column = task % chunks * kChunk;
      const auto rows = rows_of(target);
      if (adds && rows.count == 0) continue;
      sum(rows, static_cast<std::size_t>(column), static_cast<std::size_t>(std::min(kChunk, width - column)),
          to + target * width + column);
    }
  });
}

// Offsets into dy must fit in 32 bits.
void check_offsets(const TensorType& dy) {
  check(dy.shape.elements() <= std::numeric_limits<std::int32_t>::max(),
        "a gradient of rows has at most 2^31 elements");
}

// Groups of row starts by target: target t has starts[offsets[t]..offsets[t + 1]).
struct Groups {
  std::int32_t* offsets;  // [targets + 1]
  std::int32_t* starts;
  RowSet<float> rows(const float* dy, std::int64_t target) const {
    return {dy, starts + offsets[target], 0, offsets[target + 1] - offsets[target]};
  }
};

// Fills `groups` by a counting sort. each(visit) must call visit(target, start) for every row, in the same order twice.
template <typename Each>
void group_rows(std::int64_t targets, const Groups& groups, const Each& each) {
  std::fill_n(groups.offsets, targets + 1, 0);
  each([&](std::int64_t target, std::int64_t) { ++groups.offsets[target + 1]; });
  for (std::int64_t t = 0; t < targets; ++t) groups.offsets[t + 1] += groups.offsets[t];
  each([&](std::int64_t target, std::int64_t start) {
    groups.starts[groups.offsets[target]++] = static_cast<std::int32_t>(start);
  });
  // Each offset has moved to its group's end, which is where the next group begins.
  for (std::int64_t t = targets; t > 0; --t) groups.offsets[t] = groups.offsets[t - 1];
  groups.offsets[0] = 0;
}

}  // namespace

std::unique_ptr<Kernel> make_bias_grad(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0], width = graph.type(node.inputs[0]).shape[1];
  const auto sum = HWY_DYNAMIC_DISPATCH(sum_even_rows);
  return make_kernel([=](const KernelArguments& a) {
    float* const to = a.outputs[0].data<float>();
    parallel_for((width + kChunk - 1) / kChunk, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t column = begin * kChunk;
      sum(a.inputs[0].dtype(), a.inputs[0].raw(), width, a.rows(capacity), static_cast<std::size_t>(column),
          static_cast<std::size_t>(std::min(width, end * kChunk) - column), to + column);
    });
  });
}

std::unique_ptr<Kernel> make_embedding_grad(const Graph& graph, const Node& node) {
  const auto& attributes = std::get<EmbeddingAttributes>(node.attributes);
  const std::int64_t table_rows = attributes.table_rows, padding_idx = attributes.padding_idx;
  const std::int64_t first_row = attributes.first_row;
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0], width = graph.type(node.inputs[0]).shape[1];
  check_offsets(graph.type(node.inputs[0]));
  ScratchLayout layout;
  const std::size_t offsets_at = layout.add<std::int32_t>(table_rows + 1),
                    starts_at = layout.add<std::int32_t>(capacity);
  const auto run = [=](const KernelArguments& a) {
    const std::int32_t* const ids = a.inputs[1].data<std::int32_t>();
    const Groups groups{scratch_at<std::int32_t>(a, offsets_at), scratch_at<std::int32_t>(a, starts_at)};
    group_rows(table_rows, groups, [&](const auto& visit) {
      for (std::int64_t row = 0; row < a.rows(capacity); ++row) {
        const std::int64_t target = ids[row] - first_row;
        if (ids[row] != padding_idx && target >= 0 && target < table_rows) visit(target, row * width);
      }
    });
    const float* const dy = a.inputs[0].data<float>();
    const auto rows_of = [&](std::int64_t target) { return groups.rows(dy, target); };
    sum_targets(table_rows, width, a.outputs[0].data<float>(), rows_of, a.inputs.size() == 3);
  };
  return make_kernel(run, layout.bytes());
}

std::unique_ptr<Kernel> make_embedding_row_grad(const Graph& graph, const Node& node) {
  const std::int64_t padding_idx = std::get<EmbeddingAttributes>(node.attributes).padding_idx;
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0], width = graph.type(node.inputs[0]).shape[1];
  check_offsets(graph.type(node.inputs[0]));
  ScratchLayout layout;
  const std::size_t keys_at = layout.add<std::uint64_t>(capacity), offsets_at = layout.add<std::int32_t>(capacity + 1),
                    starts_at = layout.add<std::int32_t>(capacity);
  const auto run = [=](const KernelArguments& a) {
    const std::int32_t* const ids = a.inputs[1].data<std::int32_t>();
    std::int32_t* const distinct = a.outputs[0].data<std::int32_t>();
    std::uint64_t* const keys = scratch_at<std::uint64_t>(a, keys_at);  // id, then row: sorting keeps rows in order
    const Groups groups{scratch_at<std::int32_t>(a, offsets_at), scratch_at<std::int32_t>(a, starts_at)};
    std::int64_t length = 0;
    for (std::int64_t row = 0; row < a.rows(capacity); ++row) {
      if (ids[row] == padding_idx) continue;
      keys[length++] =
          static_cast<std::uint64_t>(static_cast<std::uint32_t>(ids[row])) << 32 | static_cast<std::uint64_t>(row);
    }
    std::sort(keys, keys + length);
    std::int32_t count = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto id = static_cast<std::int32_t>(keys[i] >> 32);
      if (i == 0 || id != distinct[count - 1]) {
        groups.offsets[count] = static_cast<std::int32_t>(i);
        distinct[count++] = id;
      }
      groups.starts[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(keys[i] & 0xFFFFFFFFU) * width);
    }
    groups.offsets[count] = static_cast<std::int32_t>(length);
    *a.outputs[1].data<std::int32_t>() = count;
    const float* const dy = a.inputs[0].data<float>();
    sum_targets(count, width, a.outputs[2].data<float>(), [&](std::int64_t target) { return groups.rows(dy, target); });
  };
  return make_kernel(run, layout.bytes());
}

// The tables are summed one after the other; each row looks up x and y twice.
std::unique_ptr<Kernel> make_spatial_embedding_grad(const Graph& graph, const Node& node) {
  const SpatialAttributes attributes = std::get<SpatialAttributes>(node.attributes);
  const std::int64_t table_rows = attributes.table_rows, coordinate = attributes.coordinate_size,
                     size = attributes.shape_size;
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0], width = graph.type(node.inputs[0]).shape[1];
  check_offsets(graph.type(node.inputs[0]));
  ScratchLayout layout;
  const std::size_t offsets_at = layout.add<std::int32_t>(table_rows + 1),
                    starts_at = layout.add<std::int32_t>(2 * capacity);
  const auto run = [=](const KernelArguments& a) {
    const float* const dy = a.inputs[0].data<float>();
    const std::int32_t* const boxes = a.inputs[1].data<std::int32_t>();
    const Groups groups{scratch_at<std::int32_t>(a, offsets_at), scratch_at<std::int32_t>(a, starts_at)};
    for (std::size_t table = 0; table < 4; ++table) {
      group_rows(table_rows, groups, [&](const auto& visit) {
        for (std::int64_t row = 0; row < a.rows(capacity); ++row) {
          std::int64_t slot = 0;
          for (const SpatialLookup& lookup : spatial_lookups(boxes + 4 * row, table_rows)) {
            if (lookup.table == table) visit(lookup.row, row * width + attributes.column(slot));
            ++slot;
          }
        }
      });
      sum_targets(table_rows, table < 2 ? coordinate : size, a.outputs[table].data<float>(),
                  [&](std::int64_t target) { return groups.rows(dy, target); });
    }
  };
  return make_kernel(run, layout.bytes());
}

// dpatches is a copy; dpositions sums over the samples, and its first row is dcls.
std::unique_ptr<Kernel> make_visual_embedding_grad(const Graph& graph, const Node& node) {
  const std::int64_t visual = std::get<VisualAttributes>(node.attributes).patches + 1;
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0], width = graph.type(node.inputs[0]).shape[1];
  return make_kernel([=](const KernelArguments& a) {
    const float* const dy = a.inputs[0].data<float>();
    float* const dpatches = a.outputs[0].data<float>();
    float* const dpositions = a.outputs[2].data<float>();
    const std::int64_t rows = a.rows(capacity);
    const std::size_t row_bytes = static_cast<std::size_t>(width) * sizeof(float);
    parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t sample = row / visual, token = row % visual;
        if (token > 0) std::memcpy(dpatches + (sample * (visual - 1) + token - 1) * width, dy + row * width, row_bytes);
      }
    });
    sum_targets(visual, width, dpositions, [&](std::int64_t token) {
      return RowSet<float>{dy + token * width, nullptr, visual * width, (rows - token + visual - 1) / visual};
    });
    std::memcpy(a.outputs[1].data<float>(), dpositions, row_bytes);
  });
}

// The scratch holds, for each row of the result, the input rows that it sums; -1 means none.
std::unique_ptr<Kernel> make_merge_row_grads(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[2]).shape[0], width = graph.type(node.inputs[2]).shape[1];
  struct Origin {
    std::int32_t old_row, added_row;
  };
  const auto run = [=](const KernelArguments& a) {
    std::int32_t* const sum_ids = a.outputs[0].data<std::int32_t>();
    std::int32_t* const sum_count = a.outputs[1].data<std::int32_t>();
    float* const sum_rows = a.outputs[2].data<float>();
    const std::int32_t* const ids = a.inputs[3].data<std::int32_t>();
    const std::int32_t count = *a.inputs[4].data<std::int32_t>();
    const float* const rows = a.inputs[5].data<float>();
    const std::int32_t old_count = *a.inputs[6].data<std::int32_t>() != 0 ? *sum_count : 0;
    Origin* const origins = scratch_at<Origin>(a, 0);
    std::int64_t merged = 0;
    for (std::int32_t i = 0, j = 0; i < old_count || j < count; ++merged) {
      check(merged < capacity, "the capacity of a row gradient holds every row of an update");
      const bool from_old = j == count || (i < old_count && sum_ids[i] <= ids[j]);
      const bool from_added = i == old_count || (j < count && ids[j] <= sum_ids[i]);
      origins[merged] = {from_old ? i : -1, from_added ? j : -1};
      i += from_old ? 1 : 0;
      j += from_added ? 1 : 0;
    }
    // Rows are written from the end, because a result row never lies before the old row that it sums.
    parallel_for(width, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t to = merged - 1; to >= 0; --to) {
        const Origin origin = origins[to];
        float* const out = sum_rows + to * width;
        const auto part_bytes = static_cast<std::size_t>(end - begin) * sizeof(float);
        if (origin.added_row < 0) {
          std::memmove(out + begin, sum_rows + origin.old_row * width + begin, part_bytes);
          continue;
        }
        const float* const added_row = rows + origin.added_row * width;
        if (origin.old_row < 0) {
          std::memcpy(out + begin, added_row + begin, part_bytes);
          continue;
        }
        const float* const old_row = sum_rows + origin.old_row * width;
        for (std::int64_t c = begin; c < end; ++c) out[c] = old_row[c] + added_row[c];
      }
    });
    for (std::int64_t to = merged - 1; to >= 0; --to) {
      const Origin origin = origins[to];
      sum_ids[to] = origin.old_row >= 0 ? sum_ids[origin.old_row] : ids[origin.added_row];
    }
    *sum_count = static_cast<std::int32_t>(merged);
  };
  return make_kernel(run, static_cast<std::size_t>(capacity) * sizeof(Origin));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
