// The heads that `transformers` builds for labels, of tokens and of pages: ClassifierForm says how.
//
//   std::vector<ParameterSpec> specs = classifier_specs(form, hidden_size, labels);
//   const ValueId logits = append_classifier(builder, form, {.rows = first, .keys = keys, .row_count = samples});
#pragma once

#include <cstdint>
#include <vector>

#include "model/builder.h"
#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// Rows [n, D] in F32, their dropout keys i32[n, 2], and the value that counts the used rows.
struct ClassifierRows {
  ValueId rows, keys, row_count;
};

// Returns the parameters in the order of `transformers`; `outputs` is how many numbers each row gets.
std::vector<ParameterSpec> classifier_specs(const ClassifierForm& form, std::int64_t hidden_size, std::int64_t outputs);
// Returns the arrays that say which rows represent samples: ModelBuilder::sample_rows reads them, and dropout their
// keys.
std::vector<InputSpec> sample_row_inputs(const ClassifierForm& form, const Encoder& encoder,
                                         const ModelCapacity& capacity);
// Returns logits f32[n, outputs].
ValueId append_classifier(ModelBuilder& builder, const ClassifierForm& form, const ClassifierRows& rows);

// Returns the arrays that append_class_loss reads besides logits and labels.
std::vector<InputSpec> class_loss_inputs(const LossOptions& loss);
// Returns the cross-entropy of logits f32[n, C] over `labels` i32[n], as LossOptions say. `row_count` may be kNoValue.
ValueId append_class_loss(ModelBuilder& builder, const LossOptions& loss, ValueId logits, ValueId labels,
                          ValueId row_count);

}  // namespace plimsoll
