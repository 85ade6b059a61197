#include "tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/block_code.h"

namespace plimsoll {

std::size_t TensorType::bytes() const {
  if (!is_coded(dtype)) return static_cast<std::size_t>(shape.elements()) * dtype_bytes(dtype);
  if (shape.elements() == 0) return 0;
  const std::int64_t columns = shape[shape.rank() - 1];
  return static_cast<std::size_t>(shape.elements() / columns) * coded_row_bytes(dtype, columns);
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }
std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", dtype_name(type.dtype), to_string(type.shape));
}

}  // namespace plimsoll
