// Sums of rows that have the same target, for the gradients of tables that rows were looked up in.
//
// A list of items, each a row of dy and its target, is sorted by target, stably, by one block, while others clear the
// table. Then the sorted items are cut into chunks of kChunkItems, which warps add up: a target whose items all lie in
// one chunk gets its sum at once; if a target continues into the next chunk, its first part is kept in `tails`, the
// other parts in `heads`, and a second launch adds them up. So the order of all sums depends on the items alone.
//
//   launch_sort(context, IdItems{ids, padding_idx, rows}, lists), launch_sums(context, dy, lists, most_items, unit);
#pragma once

#include <algorithm>
#include <limits>

#include "backend/cuda/blocks.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/row_gradients.h"
#include "backend/scratch.h"

namespace plimsoll::cuda {

struct SumList {
  Item *items, *spare;   // sorted in `items`
  std::int32_t* length;  // number of items that have a target
  float *heads, *tails;  // [chunks][width]
  float* to;             // its row `target` gets the sum
  std::int64_t width;
  bool adds = false;         // adds to the old content
  std::int64_t cleared = 0;  // elements of `to` that are zeros where no target has a sum
};
template <int kLists>
struct SumLists {
  SumList at[kLists];
};

// One list: each row and its id, counted from `first`, without padding and ids outside [first, first + targets).
struct IdItems {
  const std::int32_t* ids;
  std::int32_t padding_idx;
  Rows rows;
  std::int32_t first = 0, targets = std::numeric_limits<std::int32_t>::max();
  __device__ std::int64_t count(unsigned) const { return rows.real(); }
  __device__ Item item(unsigned, std::int64_t row) const {
    const std::int32_t target = ids[row] - first;
    const bool has_none = ids[row] == padding_idx || target < 0 || target >= targets;
    return {has_none ? -1 : target, static_cast<std::int32_t>(row * rows.columns)};
  }
};

// Returns the list whose parts are there, and whose sums go to the rows of `to`.
inline SumList list_at(const KernelArguments& a, const SumListScratch& parts, float* to) {
  return {scratch_at<Item>(a, parts.items),
          scratch_at<Item>(a, parts.spare),
          scratch_at<std::int32_t>(a, parts.length),
          scratch_at<float>(a, parts.heads),
          scratch_at<float>(a, parts.tails),
          to,
          parts.width};
}

// A stable sort by the digits of targets, from the last one. A pass counts all digits first; then it moves the items
// chunk by chunk through shared memory, where each thread's items are neighbours: for each digit, one warp counts how
// many items come before each thread's. Device memory is read in order, because a lane that reads neighbouring items
// there takes as long as a whole warp.
inline constexpr unsigned kSortThreads = 512, kDigitBits = 4, kDigits = 1U << kDigitBits;
static_assert(kSortThreads / kWarp == kDigits);
inline constexpr unsigned kLaneThreads = kSortThreads / kWarp;  // threads whose counts one lane adds up
inline constexpr unsigned kThreadItems = 4, kSortChunk = kSortThreads * kThreadItems;

struct DigitCounts {
  // After every kLaneThreads threads one place is left free, so that lanes that add up neighbours use different banks.
  std::uint16_t before[kDigits * (kSortThreads + kWarp)];  // of a chunk
  unsigned totals[kDigits], begins[kDigits];               // of a chunk; where the next item of a digit goes
  Item items[kSortThreads * (kThreadItems + 1)];           // a chunk's; a place is left free for the banks here, too

  __device__ std::uint16_t& of(unsigned digit, unsigned thread) {
    return before[digit * (kSortThreads + kWarp) + thread + thread / kLaneThreads];
  }
};

__device__ inline unsigned digit_of(const Item& item, unsigned shift) {
  return static_cast<unsigned>(item.target) >> shift & (kDigits - 1);
}

// Returns how many items have a target. All threads of the block must call it.
template <typename Read>
__device__ std::int64_t sort_pass(const Read& read, std::int64_t count, unsigned shift, Item* to, DigitCounts& counts) {
  const unsigned thread = threadIdx.x, warp = thread / kWarp, lane = lane_index();
  const auto begin_counts = [&] {
    for (unsigned digit = 0; digit < kDigits; ++digit) counts.of(digit, thread) = 0;
  };
  const auto count_in = [&](const Item& item) {
    if (item.target >= 0) ++counts.of(digit_of(item, shift), thread);
  };
  const auto sum_of_lane = [&] {  // of the warp's digit
    unsigned sum = 0;
    for (unsigned i = 0; i < kLaneThreads; ++i) sum += counts.of(warp, lane * kLaneThreads + i);
    return sum;
  };
  begin_counts();
  for (std::int64_t i = thread; i < count; i += kSortThreads) count_in(read(i));
  __syncthreads();
  const unsigned whole = warp_running_sum(sum_of_lane());
  if (lane == kWarp - 1) counts.totals[warp] = whole;
  __syncthreads();
  unsigned length = 0;
  for (unsigned digit = 0; digit < kDigits; ++digit) {
    if (thread == digit) counts.begins[digit] = length;
    length += counts.totals[digit];
  }
  for (std::int64_t first = 0; first < count; first += kSortChunk) {
    for (unsigned i = thread; i < kSortChunk; i += kSortThreads) {
      counts.items[i + i / kThreadItems] = first + i < count ? read(first + i) : Item{-1, 0};
    }
    begin_counts();
    __syncthreads();
    const Item* const own = counts.items + thread * (kThreadItems + 1);
    for (unsigned i = 0; i < kThreadItems; ++i) count_in(own[i]);
    __syncthreads();
    const unsigned of_lane = sum_of_lane(), running = warp_running_sum(of_lane);
    unsigned sum = running - of_lane;
    for (unsigned i = 0; i < kLaneThreads; ++i) {
      std::uint16_t& each = counts.of(warp, lane * kLaneThreads + i);
      const unsigned here = each;
      each = static_cast<std::uint16_t>(sum);
      sum += here;
    }
    if (lane == kWarp - 1) counts.totals[warp] = running;
    __syncthreads();
    for (unsigned i = 0; i < kThreadItems; ++i) {
      if (own[i].target < 0) continue;
      const unsigned digit = digit_of(own[i], shift);
      to[counts.begins[digit] + counts.of(digit, thread)++] = own[i];
    }
    __syncthreads();
    if (thread < kDigits) counts.begins[thread] += counts.totals[thread];
  }
  __syncthreads();
  return length;
}

// Writes zeros to what is cleared of a list's table; blocks from blockIdx.y 1 on do so.
__device__ inline void clear_table(const SumList& list) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y - 1) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.y - 1) * blockDim.x + threadIdx.x; at < list.cleared;
       at += stride) {
    list.to[at] = 0;
  }
}

// One block per list, and those that clear its table. Source has count(list) and item(list, index) of the items to
// sort.
template <typename Source, int kLists>
__global__ void __launch_bounds__(kSortThreads, 1) sort_items(Source source, SumLists<kLists> lists) {
  PLIMSOLL_SHARED DigitCounts counts;
  PLIMSOLL_SHARED std::int32_t largest_of[kSortThreads / kWarp];
  const unsigned which = blockIdx.x;
  const SumList list = lists.at[which];
  if (blockIdx.y > 0) return clear_table(list);
  std::int64_t count = source.count(which);
  std::int32_t largest = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kSortThreads) {
    largest = std::max(largest, source.item(which, i).target);
  }
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    largest = std::max(largest, __shfl_xor_sync(kAllLanes, largest, static_cast<int>(step)));
  }
  if (lane_index() == 0) largest_of[threadIdx.x / kWarp] = largest;
  __syncthreads();
  for (const std::int32_t each : largest_of) largest = std::max(largest, each);
  // As many passes as the largest target has digits, from one buffer to the other, so that the last one ends in
  // `items`.
  int passes = 1;
  while (static_cast<unsigned>(passes) * kDigitBits < 32 &&
         largest >> (static_cast<unsigned>(passes) * kDigitBits) != 0)
    ++passes;
  Item *to = passes % 2 == 1 ? list.items : list.spare, *from = nullptr;
  for (int pass = 0; pass < passes; ++pass) {
    const unsigned shift = static_cast<unsigned>(pass) * kDigitBits;
    if (pass == 0) {
      count = sort_pass([&](std::int64_t i) { return source.item(which, i); }, count, shift, to, counts);
    } else {
      sort_pass([&](std::int64_t i) { return from[i]; }, count, shift, to, counts);
    }
    from = to;
    to = to == list.items ? list.spare : list.items;
  }
  if (threadIdx.x == 0) *list.length = static_cast<std::int32_t>(count);
}

// One warp per chunk and N columns per lane; blockIdx.z is the list.
template <int N, int kLists>
__global__ void sum_chunks(const float* dy, SumLists<kLists> lists) {
  constexpr int kAtOnce = 8;
  const SumList list = lists.at[blockIdx.z];
  const std::int64_t length = *list.length, chunk = first_row(), first = chunk * kChunkItems;
  const std::int64_t end = std::min(first + kChunkItems, length);
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane_index()) * N;
  if (first >= length || c >= list.width) return;
  bool is_head = first > 0 && list.items[first - 1].target == list.items[first].target;
  float sum[N] = {};
  for (std::int64_t some = first; some < end; some += kAtOnce) {
    float each[kAtOnce][N];
    for (int i = 0; i < kAtOnce; ++i) {
      if (some + i < end) load(dy + list.items[some + i].start + c, N, each[i]);
    }
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t at = some + i;
      if (at >= end) break;
      for (int n = 0; n < N; ++n) sum[n] += each[i][n];
      const std::int32_t target = list.items[at].target;
      const bool ends = at + 1 == length || list.items[at + 1].target != target;
      if (!ends && at + 1 < end) continue;
      float* const to = is_head ? list.heads + chunk * list.width
                        : ends  ? list.to + target * list.width
                                : list.tails + chunk * list.width;
      if (list.adds && ends && !is_head) {
        float before[N];
        load(to + c, N, before);
        for (int n = 0; n < N; ++n) sum[n] += before[n];
      }
      store(sum, N, to + c);
      for (float& column : sum) column = 0;
      is_head = false;
    }
  }
}

// One block for each chunk in which a target begins that continues after it: adds up its tail and heads.
template <int N, int kLists>
__global__ void sum_parts(SumLists<kLists> lists) {
  PLIMSOLL_SHARED double sums[kRowWarps][kWarp * N];
  const SumList list = lists.at[blockIdx.z];
  const std::int64_t length = *list.length, chunk = blockIdx.x, first = chunk * kChunkItems;
  const std::int64_t next = first + kChunkItems;
  if (next >= length) return;
  const std::int32_t target = list.items[next].target;
  if (list.items[next - 1].target != target) return;
  if (first > 0 && list.items[first - 1].target == target) return;
  std::int64_t low = next, high = length;  // the target's last item lies in [low, high)
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (list.items[middle].target == target ? low : high) = middle;
  }
  const std::int64_t last_chunk = low / kChunkItems;
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane_index()) * N;
  const unsigned warp = threadIdx.x / kWarp;
  double sum[N] = {};
  if (c < list.width) {
    for (std::int64_t part = chunk + 1 + warp; part <= last_chunk; part += kRowWarps) {
      float each[N];
      load(list.heads + part * list.width + c, N, each);
      for (int n = 0; n < N; ++n) sum[n] += each[n];
    }
  }
  for (int n = 0; n < N; ++n) sums[warp][lane_index() * N + n] = sum[n];
  __syncthreads();
  if (warp > 0 || c >= list.width) return;
  float total[N], before[N] = {};
  load(list.tails + chunk * list.width + c, N, total);
  if (list.adds) load(list.to + target * list.width + c, N, before);
  for (int n = 0; n < N; ++n) {
    double whole = double{total[n]} + before[n];
    for (unsigned each = 0; each < kRowWarps; ++each) whole += sums[each][lane_index() * N + n];
    total[n] = static_cast<float>(whole);
  }
  store(total, N, list.to + target * list.width + c);
}

template <typename Source, int kLists>
void launch_sort(const Context& context, const Source& source, const SumLists<kLists>& lists) {
  std::int64_t most = 0;
  for (const SumList& list : lists.at) most = std::max(most, list.cleared);
  launch(context.stream(), sort_items<Source, kLists>,
         {.blocks = kLists, .threads = kSortThreads, .blocks_y = 1 + blocks_for(most, kSortThreads)}, source, lists);
}

// Sums the rows of each sorted list, none of which has more than `most_items`. Starts and widths are multiples of
// `unit` elements.
template <int kLists>
void launch_sums(const Context& context, const float* dy, const SumLists<kLists>& lists, std::int64_t most_items,
                 std::int64_t unit) {
  std::int64_t width = 0;
  for (const SumList& list : lists.at) width = std::max(width, list.width);
  const std::int64_t chunks = item_chunks(most_items);
  for_pack(unit, [&](auto pack) {
    const auto columns = static_cast<unsigned>((width / pack() + kWarp - 1) / kWarp);
    launch(context.stream(), sum_chunks<pack(), kLists>,
           {.blocks = static_cast<unsigned>((chunks + kRowWarps - 1) / kRowWarps),
            .threads = kRowThreads,
            .blocks_y = columns,
            .blocks_z = kLists},
           dy, lists);
    launch(context.stream(), sum_parts<pack(), kLists>,
           {.blocks = static_cast<unsigned>(chunks), .threads = kRowThreads, .blocks_y = columns, .blocks_z = kLists},
           lists);
  });
}

}  // namespace plimsoll::cuda
