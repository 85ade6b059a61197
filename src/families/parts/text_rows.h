// What encoders whose rows are all text rows have in common: no other rows are packed between them, and none are
// gathered.
//
//   std::vector<InputSpec> inputs = text_row_inputs(capacity, true);     // with boxes
//   const LayerInputs layers = text_row_context(builder);
#pragma once

#include <vector>

#include "families/parts/bert_config.h"
#include "families/parts/bert_layers.h"
#include "model/builder.h"

namespace plimsoll {

// Returns the arrays that such an encoder reads for a capacity; with `boxes` also bbox, without `types` no
// token_type_ids.
std::vector<InputSpec> text_row_inputs(const ModelCapacity& capacity, bool boxes, bool types = true);

// Returns what attention and dropout need to know about the rows.
LayerInputs text_row_context(const ModelBuilder& builder);

// Gives all parameters the config's standard deviation for initial values, and its row of padding.
void initialise_as(const BertValues& values, std::vector<ParameterSpec>& specs);

}  // namespace plimsoll
