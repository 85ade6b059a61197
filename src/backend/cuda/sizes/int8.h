// The scratch of linear_int8: the codes of both operands, and the value of a code of 1 in each row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/scratch.h"
#include "graph/graph.h"

namespace plimsoll::cuda {

struct Int8Scratch {
  Int8Scratch(const TensorType& x, const TensorType& weight)
      : x_codes(layout.add<std::int8_t>(x.shape.elements())),
        x_factors(layout.add<float>(x.shape[0])),
        weight_codes(layout.add<std::int8_t>(weight.shape.elements())),
        weight_factors(layout.add<float>(weight.shape[0])) {}

  ScratchLayout layout{};
  std::size_t x_codes, x_factors, weight_codes, weight_factors;
};

}  // namespace plimsoll::cuda
