// Compiles the examples of src/tensor.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fit/fit.h"
#include "formats/weights.h"
#include "runtime/program.h"
#include "tensor/block_code.h"
#include "tensor/code_table.h"
#include "tensor/device_tensor.h"
#include "tensor/dynamic_code.h"
#include "tensor/half.h"
#include "tensor/input_spec.h"
#include "tensor/split_float.h"
#include "tensor/stored_tensor.h"

namespace plimsoll::examples {

void of_block_code(std::span<const float> weights, std::vector<std::byte>& bytes, std::span<float> part) {
#include "tensor/block_code.h.inc"
}

void of_code_table(float x, std::uint32_t rank) {
#include "tensor/code_table.h.inc"
}

void of_device_tensor(const DeviceTensor& tensor, const std::vector<std::int32_t>& ids, const Program& program,
                      const PlannedProgram& planned) {
#include "tensor/device_tensor.h.inc"
}

void of_dynamic_code() {
#include "tensor/dynamic_code.h.inc"
}

void of_half() {
#include "tensor/half.h.inc"
}

void of_input_spec() {
#include "tensor/input_spec.h.inc"
}

void of_split_float(){
#include "tensor/split_float.h.inc"
}

std::optional<StoredTensor> of_stored_tensor(const WeightsFile& weights) {
#include "tensor/stored_tensor.h.inc"
  return place;
}

}  // namespace plimsoll::examples
