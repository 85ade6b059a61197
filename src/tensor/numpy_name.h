// Names types as NumPy and PyTorch do: "float64", "bfloat16", "uint8".
#pragma once

#include <string>

#include "tensor/dtype.h"

namespace plimsoll {

std::string numpy_name(DType dtype);

}  // namespace plimsoll
