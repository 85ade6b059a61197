#include "model/parameter_spec.h"

namespace plimsoll {

std::int64_t parameter_count(const std::vector<ParameterSpec>& specs) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : specs) count += spec.shape.elements();
  return count;
}

DType parameter_type(const ParameterSpec& spec, DType dtype, const ModelOptions& options) {
  const bool encoder_matrix = spec.part == ParameterSpec::Part::kEncoderMatrix;
  // An adapter's file has its saved modules exactly, even those that do not train.
  if (!spec.trains && spec.saved) return wide(dtype);
  if (!spec.trains && is_coded(options.frozen_weights)) {
    if (encoder_matrix && !options.kept_in_floats.contains(spec.name)) return options.frozen_weights;
    const bool looks_up_words = spec.part == ParameterSpec::Part::kWordEmbedding;
    if (looks_up_words && is_coded(options.frozen_embedding)) return options.frozen_embedding;
  }
  return dtype == DType::kBF16 && (encoder_matrix || spec.scores_tokens) ? dtype : wide(dtype);
}

}  // namespace plimsoll
