// The head that scores links between entities: LayoutXLM's decoder (Xu et al., "LayoutXLM: Multimodal Pre-training for
// Multilingual Visually-rich Document Understanding", 2021, and `REDecoder` of microsoft/unilm).
#pragma once

#include <memory>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// The head scores E x E pairs of entities of each sample, E = config.max_entities. The names of its targets, also in
// files of `plimsoll grad`: entity_tokens i64[B, E], the first token of each entity; entity_labels i64[B, E], its
// label; link_labels i64[B, E, E], by from and to: 1 a link, 0 none. -100 means that there is no such entity, or that
// the pair is left out.
//
inline constexpr const char *kEntityTokens = "entity_tokens", *kEntityLabels = "entity_labels",
                            *kLinkLabels = "link_labels";

// An entity's state is that of its first token, with dropout, beside the embedding of its label. Two networks (linear,
// ReLU, dropout, linear, ReLU, dropout) compute a head, from which links lead, and a tail; a pair has the two logits
// head^T W_c tail + L_c [head; tail] + b_c. The loss is the sum of cross-entropies over the pairs. Logits are f32[B E
// E, 2].
ModelDefinition relation_extraction(std::shared_ptr<const Encoder> encoder, const TaskConfig& config);

}  // namespace plimsoll
