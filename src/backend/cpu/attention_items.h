// What computes one item of attention, a (sample, head), forward and backward, on bfloat16 rows by dot products of
// pairs (attention_dot.cpp, attention_dot_grad.cpp); the general forms are attention.cpp's and attention_grad.cpp's
// own.
#pragma once

#include "backend/cpu/attention_scratch.h"

namespace plimsoll {

// `own`: this thread's scratch.
using AttentionItem = void (*)(const AttentionProblem& problem, const AttentionData& data, void* output,
                               float* log_sum_exp, std::int64_t sample, std::int64_t head, ScratchCursor own);
// `bin_sums`: of this (sample, head), the three tables' bins one after the other, if `table_gradients`.
using AttentionGradItem = void (*)(const AttentionProblem& problem, const AttentionData& data,
                                   const AttentionGradData& grad, std::int64_t sample, std::int64_t head,
                                   bool table_gradients, ScratchCursor own, double* bin_sums);

// For problems with `dots`; scratch is DotForwardScratch, DotBackwardScratch.
AttentionItem attention_dot_item();
AttentionGradItem attention_dot_grad_item();

}  // namespace plimsoll
