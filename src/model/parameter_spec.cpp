#include "model/parameter_spec.h"

#include <algorithm>

namespace plimsoll {

std::optional<std::int32_t> word_row(std::span<const std::int32_t> word_rows, std::int32_t token) {
  const auto found = std::ranges::lower_bound(word_rows, token);
  if (found == word_rows.end() || *found != token) return std::nullopt;
  return static_cast<std::int32_t>(found - word_rows.begin());
}

std::int64_t parameter_count(const std::vector<ParameterSpec>& specs) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : specs) count += spec.file_shape.elements();
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
