#include "backend/cuda/sizes/row_gradients.h"

#include <limits>

namespace plimsoll::cuda {
namespace {

// Offsets of rows are kept in 32 bits.
const TensorType& checked(const TensorType& dy) {
  check(dy.dtype == DType::kF32 && dy.shape.elements() <= std::numeric_limits<std::int32_t>::max(),
        "a gradient of an embedding is F32 of at most 2^31 elements");
  return dy;
}

}  // namespace

EmbeddingGradScratch::EmbeddingGradScratch(const TensorType& dy) : list(layout, checked(dy).shape[0], dy.shape[1]) {}

SpatialGradScratch::SpatialGradScratch(const TensorType& dy, const SpatialAttributes& attributes)
    : lists{SumListScratch(layout, 2 * checked(dy).shape[0], attributes.coordinate_size),
            SumListScratch(layout, 2 * dy.shape[0], attributes.coordinate_size),
            SumListScratch(layout, dy.shape[0], attributes.shape_size),
            SumListScratch(layout, dy.shape[0], attributes.shape_size)} {}

MergeScratch::MergeScratch(const TensorType& sum, const TensorType& added)
    : tile_rows((sum.shape[0] + kTiles - 1) / kTiles),
      place(layout.add<std::int32_t>(added.shape[0])),
      news(layout.add<std::int32_t>(added.shape[0])),
      merged(layout.add<std::int32_t>(1)),
      origins(layout.add<Origin>(sum.shape[0])),
      result(layout.add<std::int32_t>(sum.shape[0])),
      tile(layout.add<float>(tile_rows * sum.shape[1])) {
  check(sum.dtype == DType::kF32, "row gradients are F32");
}

}  // namespace plimsoll::cuda
