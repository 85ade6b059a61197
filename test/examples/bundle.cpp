// Compiles the examples of src/bundle.
#include <filesystem>

#include "bundle/adapter_config.h"
#include "bundle/model_bundle.h"
#include "bundle/model_place.h"

namespace plimsoll::examples {

namespace fs = std::filesystem;

void of_adapter_config() {
#include "bundle/adapter_config.h.inc"
}

void of_model_place(const ModelBundle& bundle, const ParameterSource& original, const ParameterMemory& memory) {
#include "bundle/model_place.h.inc"
}

}  // namespace plimsoll::examples
