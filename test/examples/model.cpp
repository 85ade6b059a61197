// Compiles the examples of src/model.
#include <span>

#include "examples/use.h"
#include "model/builder.h"
#include "model/definition.h"
#include "model/file_values.h"
#include "model/grad_cache.h"
#include "model/learning_rates.h"
#include "model/lora.h"
#include "model/parameter_place.h"
#include "model/trained_parts.h"

namespace plimsoll::examples {

void of_lora(const ModelDefinition& model) {
#include "model/lora.h.inc"
}

void of_file_values(const WeightsFile& weights, const ParameterSpec& spec, std::span<float> values,
                    std::span<std::byte> staging, SafetensorsWriter& writer, const ParameterPlace& place) {
#include "model/file_values.h.inc"
}

void of_learning_rates(const std::vector<ParameterSpec>& specs) {
#include "model/learning_rates.h.inc"
  use(factors);
}

void of_builder(ModelBuilder& builder, ValueId first, ValueId samples) {
#include "model/builder.h.inc"
}

void of_definition(const std::shared_ptr<const Encoder>& encoder, const std::shared_ptr<const Head>& head,
                   const ModelOptions& options) {
#include "model/definition.h.inc"
}

void of_grad_cache(const ModelDefinition& model, std::int64_t update_samples) {
#include "model/grad_cache.h.inc"
  use(embeds, compares);
}

void of_parameter_place(const DeviceTensor& value, const DeviceTensor& low, std::span<float> floats) {
#include "model/parameter_place.h.inc"
}

void of_trained_parts() {
#include "model/trained_parts.h.inc"
}

}  // namespace plimsoll::examples
