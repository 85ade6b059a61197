// Ridge regression by its normal equations.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll {

// Solves (A + ridge diag(A)) x = b for every row b of `right` [M, K], and leaves x there. `gram` [K, K] is A, symmetric
// and not negative; its lower triangle is read, and the whole of it is overwritten (Cholesky's decomposition). Columns
// that never differ from 0 get x = 0. O(K^3 / 6 + M K^2) multiply-adds.
void solve_ridge(std::span<double> gram, std::span<double> right, std::int64_t columns, double ridge);

}  // namespace plimsoll
