// The shapes of a data set's batches for a model and a plan: the arrays that the model declares for a capacity.
#pragma once

#include "data/batch.h"
#include "model/definition.h"

namespace plimsoll {

inline BatchShape batch_shape(const ModelDefinition& model, const ModelCapacity& capacity) {
  const EncoderFacts facts = model.encoder().facts();
  return {.max_samples = model.samples(capacity),
          .max_text_rows = capacity.text_rows,
          .image = facts.image,
          .token = facts.token,
          .inputs = model.inputs(capacity, DType::kF32)};
}

}  // namespace plimsoll
