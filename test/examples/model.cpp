// Compiles the examples of src/model.
#include <span>

#include "model/config.h"
#include "model/lora.h"
#include "model/parameter_place.h"
#include "model/trained_parts.h"

namespace plimsoll::examples {

void of_lora(const LayoutLMv3Config& config) {
#include "model/lora.h.inc"
}

void of_parameter_place(const DeviceTensor& value, const DeviceTensor& low, std::span<float> floats) {
#include "model/parameter_place.h.inc"
}

void of_trained_parts() {
#include "model/trained_parts.h.inc"
}

}  // namespace plimsoll::examples
