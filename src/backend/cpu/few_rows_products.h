// The three products of a few rows with a weight in F32: y[n, m] = x[n, k] W[m, k]^T, dx[n, k] = dy[n, m] W and
// dw[m, k] = dy^T x. If the weight is large, like a language model's head, each of its elements takes only n
// multiplications, and the time goes into moving them: oneDNN copies the weight into its own layout and waits for
// memory before and after its arithmetic; here it is multiplied in place, and cache lines are fetched while the ones
// before them are multiplied.
//
//   if (has_few_rows(64, 896)) return make_few_rows_weight_grad(graph, node);
//
// The order of sums depends neither on the team nor on m, so a part of a vocabulary gives the same bits as the whole.
// That is why m does not decide which products come here, though for a small weight oneDNN is as fast.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace plimsoll {

// True for 16 to 128 rows and a width that is a multiple of 16.
bool has_few_rows(std::int64_t n, std::int64_t k);

// Make kernels for linear, linear_input_grad and linear_weight_grad without bias or addend, if all tensors are F32 and
// has_few_rows(capacity, width).
std::unique_ptr<Kernel> make_few_rows_linear(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_few_rows_input_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_few_rows_weight_grad(const Graph& graph, const Node& node);

}  // namespace plimsoll
