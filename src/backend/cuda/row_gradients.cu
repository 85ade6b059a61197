// Gradients of an embedding as (ids ascending, count, rows): embedding_row_grad computes one, merge_row_grads adds two.
#include "backend/cuda/grouped_sums.h"

namespace plimsoll::cuda {
namespace {

// Replaces the targets of sorted items, which are ids, by the numbers of the distinct ids. Launched as one block.
__global__ void __launch_bounds__(kSortThreads)
    number_ids(SumLists<1> lists, std::int32_t* distinct, std::int32_t* distinct_count) {
  const SumList& list = lists.at[0];
  const std::int64_t length = *list.length, share = (length + kSortThreads - 1) / kSortThreads;
  const std::int64_t begin = std::min(length, threadIdx.x * share), end = std::min(length, begin + share);
  const std::int32_t before = begin == 0 || begin == end ? -1 : list.items[begin - 1].target;
  unsigned count = 0;
  std::int32_t last = before;
  for (std::int64_t i = begin; i < end; ++i) {
    count += list.items[i].target != last ? 1 : 0;
    last = list.items[i].target;
  }
  const Place place = block_place<kSortThreads>(count);
  if (threadIdx.x == 0) *distinct_count = static_cast<std::int32_t>(place.all);
  auto number = static_cast<std::int32_t>(place.before) - 1;
  last = before;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int32_t id = list.items[i].target;
    if (id != last) distinct[++number] = id;
    last = id;
    list.items[i].target = number;
  }
}

std::unique_ptr<Kernel> make_embedding_row_grad(const Context& context, const TensorType& dy,
                                                std::int64_t padding_idx) {
  const EmbeddingGradScratch scratch(dy);
  return make_launch(scratch.layout.bytes(), [&context, parts = scratch.list, padding_idx](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    const SumLists<1> lists{{list_at(a, parts, output<float>(a, 2))}};
    launch_sort(context, IdItems{input<std::int32_t>(a, 1), static_cast<std::int32_t>(padding_idx), rows}, lists);
    launch(context.stream(), number_ids, {.blocks = 1, .threads = kSortThreads}, lists, output<std::int32_t>(a, 0),
           output<std::int32_t>(a, 1));
    launch_sums(context, input<float>(a, 0), lists, rows.capacity, rows.columns);
  });
}

// Returns the first of ascending ids that is not below `id`.
__device__ std::int32_t lower_bound(const std::int32_t* ids, std::int32_t count, std::int32_t id) {
  std::int32_t low = 0;
  while (count > 0) {
    const std::int32_t half = count / 2;
    if (ids[low + half] < id) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

// Merges the rows of one gradient into those of another, in place. First it finds where each row of the result comes
// from. Then it makes the rows in tiles, beginning with the last, each in two launches: one reads the rows that move
// into scratch, the other writes them; so nothing is overwritten before it is read, whatever the blocks' order. No row
// moves towards the first.
struct Merge {
  const std::int32_t *sum_ids, *sum_count, *keep;
  const std::int32_t *ids, *count;
  std::int32_t* place;   // [n] where an added id is, or would be, among the old ones
  std::int32_t* news;    // [n] the added ids before this one that are new
  std::int32_t* merged;  // rows of the result
  Origin* origins;       // [c], of the result's rows
  std::int32_t* result;  // [c] their ids

  __device__ std::int32_t old_count() const { return *keep != 0 ? *sum_count : 0; }
  __device__ bool is_new(std::int32_t added) const {
    return place[added] == old_count() || sum_ids[place[added]] != ids[added];
  }
};

constexpr unsigned kThreads = 256;
__device__ std::int32_t first_index() { return static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x); }
__device__ std::int32_t index_stride() { return static_cast<std::int32_t>(gridDim.x * kThreads); }

__global__ void find_places(Merge m) {
  const std::int32_t old_count = m.old_count(), count = *m.count;
  for (std::int32_t j = first_index(); j < count; j += index_stride()) {
    m.place[j] = lower_bound(m.sum_ids, old_count, m.ids[j]);
  }
}

// Launched as one block.
__global__ void __launch_bounds__(kSortThreads) count_news(Merge m) {
  const std::int32_t count = *m.count, share = (count + static_cast<std::int32_t>(kSortThreads) - 1) /
                                               static_cast<std::int32_t>(kSortThreads);
  const std::int32_t begin = std::min(count, static_cast<std::int32_t>(threadIdx.x) * share);
  const std::int32_t end = std::min(count, begin + share);
  unsigned news = 0;
  for (std::int32_t j = begin; j < end; ++j) news += m.is_new(j) ? 1 : 0;
  const Place place = block_place<kSortThreads>(news);
  if (threadIdx.x == 0) *m.merged = m.old_count() + static_cast<std::int32_t>(place.all);
  auto before = static_cast<std::int32_t>(place.before);
  for (std::int32_t j = begin; j < end; ++j) {
    m.news[j] = before;
    before += m.is_new(j) ? 1 : 0;
  }
}

__global__ void find_origins(Merge m) {
  const std::int32_t old_count = m.old_count(), count = *m.count, news = *m.merged - old_count;
  for (std::int32_t i = first_index(); i < old_count; i += index_stride()) {
    const std::int32_t id = m.sum_ids[i], j = lower_bound(m.ids, count, id);
    const std::int32_t to = i + (j < count ? m.news[j] : news);
    m.origins[to] = {i, j < count && m.ids[j] == id ? j : -1};
    m.result[to] = id;
  }
  for (std::int32_t j = first_index(); j < count; j += index_stride()) {
    if (!m.is_new(j)) continue;
    m.origins[m.place[j] + m.news[j]] = {-1, j};
    m.result[m.place[j] + m.news[j]] = m.ids[j];
  }
}

// tile[row - first] = the old row that result row `row` comes from, if it moves; rows [first, first + count).
template <int N>
__global__ void read_tile(Merge m, const float* sum_rows, float* tile, std::int64_t first, std::int64_t count,
                          std::int64_t width) {
  const std::int64_t end = std::min(first + count, static_cast<std::int64_t>(*m.merged));
  for (std::int64_t row = first + first_row(); row < end; row += row_stride()) {
    const std::int64_t old_row = m.origins[row].old_row;
    if (old_row < 0 || old_row == row) continue;
    for (std::int64_t c = lane_index() * N; c < width; c += kWarp * N) {
      write_pack(read_pack<N>(sum_rows + old_row * width + c), N, tile + (row - first) * width + c);
    }
  }
}

template <int N>
__global__ void write_tile(Merge m, const float* tile, const float* added_rows, float* sum_rows, std::int64_t first,
                           std::int64_t count, std::int64_t width) {
  const std::int64_t end = std::min(first + count, static_cast<std::int64_t>(*m.merged));
  for (std::int64_t row = first + first_row(); row < end; row += row_stride()) {
    const Origin origin = m.origins[row];
    if (origin.old_row == row && origin.added_row < 0) continue;
    const float* const old = origin.old_row == row ? sum_rows + row * width : tile + (row - first) * width;
    for (std::int64_t c = lane_index() * N; c < width; c += kWarp * N) {
      float sum[N] = {}, added[N] = {};
      if (origin.old_row >= 0) load(old + c, N, sum);
      if (origin.added_row >= 0) load(added_rows + origin.added_row * width + c, N, added);
      for (int i = 0; i < N; ++i) sum[i] += added[i];
      store(sum, N, sum_rows + row * width + c);
    }
  }
}

__global__ void write_ids(Merge m, std::int32_t* sum_ids, std::int32_t* sum_count) {
  const std::int32_t merged = *m.merged;
  for (std::int32_t i = first_index(); i < merged; i += index_stride()) sum_ids[i] = m.result[i];
  if (first_index() == 0) *sum_count = merged;
}

std::unique_ptr<Kernel> make_merge_row_grads(const Context& context, const TensorType& sum, const TensorType& added) {
  const std::int64_t capacity = sum.shape[0], width = sum.shape[1], most_added = added.shape[0];
  const MergeScratch scratch(sum, added);
  return make_launch(scratch.layout.bytes(), [=, &context](const KernelArguments& a) {
    const Merge m{.sum_ids = output<std::int32_t>(a, 0),
                  .sum_count = output<std::int32_t>(a, 1),
                  .keep = input<std::int32_t>(a, 6),
                  .ids = input<std::int32_t>(a, 3),
                  .count = input<std::int32_t>(a, 4),
                  .place = scratch_at<std::int32_t>(a, scratch.place),
                  .news = scratch_at<std::int32_t>(a, scratch.news),
                  .merged = scratch_at<std::int32_t>(a, scratch.merged),
                  .origins = scratch_at<Origin>(a, scratch.origins),
                  .result = scratch_at<std::int32_t>(a, scratch.result)};
    auto* const tile = scratch_at<float>(a, scratch.tile);
    const std::int64_t tile_rows = scratch.tile_rows;
    const Launch of_added{.blocks = blocks_for(most_added, kThreads), .threads = kThreads};
    const Launch of_all{.blocks = blocks_for(std::max(most_added, capacity), kThreads), .threads = kThreads};
    launch(context.stream(), find_places, of_added, m);
    launch(context.stream(), count_news, {.blocks = 1, .threads = kSortThreads}, m);
    launch(context.stream(), find_origins, of_all, m);
    for_pack(width, [&](auto pack) {
      const Launch of_tile{.blocks = row_blocks(tile_rows), .threads = kRowThreads};
      for (std::int64_t each = MergeScratch::kTiles - 1; each >= 0; --each) {
        const std::int64_t first = each * tile_rows;
        if (first >= capacity) continue;
        launch(context.stream(), read_tile<pack()>, of_tile, m, output<float>(a, 2), tile, first, tile_rows, width);
        launch(context.stream(), write_tile<pack()>, of_tile, m, tile, input<float>(a, 5), output<float>(a, 2), first,
               tile_rows, width);
      }
    });
    launch(context.stream(), write_ids, of_all, m, output<std::int32_t>(a, 0), output<std::int32_t>(a, 1));
  });
}

}  // namespace

std::unique_ptr<Kernel> make_row_gradients(const Context& context, const Graph& graph, const Node& node) {
  if (node.op == Op::kEmbeddingRowGrad) {
    return make_embedding_row_grad(context, graph.type(node.inputs[0]),
                                   std::get<EmbeddingAttributes>(node.attributes).padding_idx);
  }
  check(node.op == Op::kMergeRowGrads, "make_row_gradients knows the op");
  return make_merge_row_grads(context, graph.type(node.inputs[2]), graph.type(node.inputs[5]));
}

}  // namespace plimsoll::cuda
