// Functions that compute one item of attention, a (sample, head), forward and backward, on bfloat16 rows by dot
// products of pairs (attention_dot.cpp, attention_dot_grad.cpp); the general forms are local to attention.cpp and
// attention_grad.cpp.
#pragma once

#include "backend/cpu/attention_scratch.h"

namespace plimsoll {

// `own` is this thread's scratch.
using AttentionItem = void (*)(const AttentionProblem& problem, const AttentionData& data, void* output,
                               float* log_sum_exp, std::int64_t sample, std::int64_t head, ScratchCursor own);
// `shared` is a head of k and v; the item covers all heads that share it. `bin_sums` holds the bins of the tables whose
// gradients are wanted, for one head of the sample after the other, `item_bins` per head.
using AttentionGradItem = void (*)(const AttentionProblem& problem, const AttentionData& data,
                                   const AttentionGradData& grad, std::int64_t sample, std::int64_t shared,
                                   std::int64_t item_bins, ScratchCursor own, double* bin_sums);

// These serve problems with `dots`; their scratch is DotForwardScratch and DotBackwardScratch.
AttentionItem attention_dot_item();
AttentionGradItem attention_dot_grad_item();

}  // namespace plimsoll
