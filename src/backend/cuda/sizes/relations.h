// The scratch of relation_loss: for each head and row the logarithms of both sums of exponentials, and the divergence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "backend/scratch.h"
#include "graph/graph.h"

namespace plimsoll::cuda {

struct RelationScratch {
  RelationScratch(const TensorType& x, const RelationAttributes& attributes)
      : log_sums(layout.add<float>(2 * attributes.heads * x.shape[0])),
        partial(layout.add<double>(attributes.heads * x.shape[0])) {}

  ScratchLayout layout{};
  std::size_t log_sums;  // float [heads][n][2]: of x, of the teacher
  std::size_t partial;   // double [heads][n]
};

}  // namespace plimsoll::cuda
