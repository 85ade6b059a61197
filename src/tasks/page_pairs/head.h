// The heads of tasks that read pairs of pages. An example is two samples of the encoder, rows 2k and 2k+1 of the first
// rows; each head joins the first rows of its two pages. Row 2k has a pair's target, row 2k+1 has none.
#pragma once

#include <memory>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// Predicts a class of the pair by dropout of [a, b, |a - b|, a b] and a linear map, `classifier` (as Sentence-BERT
// joins two sentences: Reimers, Gurevych 2019). Logits are f32[B, C], where only rows 2k count; targets are `labels`
// i32[B].
ModelDefinition pair_classification(std::shared_ptr<const Encoder> encoder, const TaskConfig& config);

// Predicts which page is the better one, by a linear map without bias, `score`, of each page's first row after dropout.
// The loss is -log sigmoid(score_a - score_b), as for reward models (Ouyang et al. 2022). Logits are f32[B, 2]: row 2k
// has score_a, score_b; targets are `labels` i32[B], 0 in rows 2k.
ModelDefinition pair_ranking(std::shared_ptr<const Encoder> encoder, const TaskConfig& config);

// Predicts which pages belong together: the embedding of a page is its first row, divided by its length; the head has
// no parameters. The loss is that of ContrastiveAttributes (graph/op.h), with the temperature of LossOptions. Logits
// are the first rows f32[B, D], not yet divided; targets are the pages' groups, `labels` i32[B].
ModelDefinition pair_similarity(std::shared_ptr<const Encoder> encoder, const TaskConfig& config);

}  // namespace plimsoll
