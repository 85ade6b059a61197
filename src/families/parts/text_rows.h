// What encoders have in common whose rows are all rows of text: nothing is packed between them and nothing is gathered.
//
//   std::vector<InputSpec> inputs = text_row_inputs(capacity, true);     // with boxes
//   const LayerInputs layers = text_row_context(builder);
#pragma once

#include <vector>

#include "families/parts/bert_config.h"
#include "families/parts/bert_layers.h"
#include "model/builder.h"

namespace plimsoll {

// The arrays that such an encoder reads for a capacity; `boxes`: bbox too; without `types`: no token_type_ids.
std::vector<InputSpec> text_row_inputs(const ModelCapacity& capacity, bool boxes, bool types = true);

// What attention and dropout take of them.
LayerInputs text_row_context(const ModelBuilder& builder);

// Gives all parameters the config's spread of random numbers and row of padding.
void initialise_as(const BertValues& values, std::vector<ParameterSpec>& specs);

}  // namespace plimsoll
