#include "tensor/numpy_name.h"

namespace plimsoll {

std::string numpy_name(DType dtype) {
  const std::string name(dtype_name(dtype));
  if (dtype == DType::kBool) return "bool";
  if (dtype == DType::kBF16) return "bfloat16";
  return (is_floating(dtype) ? "float"
          : name[0] == 'U'   ? "uint"
                             : "int") +
         name.substr(name.find_first_of("0123456789"));
}

}  // namespace plimsoll
