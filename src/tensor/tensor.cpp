#include "tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plimsoll {

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }
std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", dtype_name(type.dtype), to_string(type.shape));
}

}  // namespace plimsoll
