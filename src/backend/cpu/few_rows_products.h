// The three products of a few rows with a weight in F32: y[n, m] = x[n, k] W[m, k]^T, dx[n, k] = dy[n, m] W and
// dw[m, k] = dy^T x. Where the weight is large, as a language model's head is, its elements take n multiplications
// each, and the time goes into moving them: oneDNN copies the weight into a layout of its own and waits for memory
// before and behind its arithmetic; here it is multiplied as it lies, and lines are fetched while those before them are
// multiplied.
//
//   if (has_few_rows(64, 896)) return make_few_rows_weight_grad(graph, node);
//
// Sums are taken in an order that neither the team nor m changes: a part of a vocabulary gets the whole's bits. That is
// why m does not say which products come here, though with a small weight oneDNN is as fast.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace plimsoll {

// True for 16 to 128 rows and a width that is a multiple of 16.
bool has_few_rows(std::int64_t n, std::int64_t k);

// For nodes of linear, linear_input_grad and linear_weight_grad without bias or addend, all of whose tensors are F32
// and whose capacity and width are such.
std::unique_ptr<Kernel> make_few_rows_linear(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_few_rows_input_grad(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_few_rows_weight_grad(const Graph& graph, const Node& node);

}  // namespace plimsoll
