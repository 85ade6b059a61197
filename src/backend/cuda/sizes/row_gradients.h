// The scratch of kernels that compute gradients of embedding tables, dense or by rows, and that merge two of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/scratch.h"
#include "graph/graph.h"

namespace plimsoll::cuda {

// A row of dy and the row of a table that it is added to (grouped_sums.h).
struct Item {
  std::int32_t target;  // negative: none, the item is left out
  std::int32_t start;   // in dy, elements
};
inline constexpr std::int64_t kChunkItems = 32;  // sorted items that a warp adds up
constexpr std::int64_t item_chunks(std::int64_t items) { return (items + kChunkItems - 1) / kChunkItems; }

// The places of a list's parts in a kernel's scratch.
struct SumListScratch {
  SumListScratch(ScratchLayout& layout, std::int64_t most_items, std::int64_t row_width)
      : width(row_width),
        items(layout.add<Item>(most_items)),
        spare(layout.add<Item>(most_items)),
        length(layout.add<std::int32_t>(1)),
        heads(layout.add<float>(item_chunks(most_items) * row_width)),
        tails(layout.add<float>(item_chunks(most_items) * row_width)) {}

  std::int64_t width;
  std::size_t items, spare, length, heads, tails;
};

// embedding_grad and embedding_row_grad have one list. Throws InternalError if starts do not fit into 32 bits.
struct EmbeddingGradScratch {
  explicit EmbeddingGradScratch(const TensorType& dy);

  ScratchLayout layout{};
  SumListScratch list;
};

// spatial_embedding_grad has lists for the tables x, y, h and w; each row looks up x and y twice.
struct SpatialGradScratch {
  SpatialGradScratch(const TensorType& dy, const SpatialAttributes& attributes);

  ScratchLayout layout{};
  std::array<SumListScratch, 4> lists;
};

// The rows that a row of a merged gradient is summed from.
struct Origin {
  std::int32_t old_row, added_row;  // -1: none
};

// merge_row_grads moves rows in kTiles tiles.
struct MergeScratch {
  static constexpr std::int64_t kTiles = 8;

  MergeScratch(const TensorType& sum, const TensorType& added);

  ScratchLayout layout{};
  std::int64_t tile_rows;
  std::size_t place, news;  // i32 [added rows]
  std::size_t merged;       // i32 [1]
  std::size_t origins;      // Origin [rows of the sum]
  std::size_t result;       // i32 [rows of the sum]
  std::size_t tile;         // float [tile_rows][width]
};

}  // namespace plimsoll::cuda
