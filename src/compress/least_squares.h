// Ridge regression by its normal equations.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll {

// Solves (A + ridge diag(A)) x = b for every row b of `right` [M, K], and overwrites it with x. `gram` [K, K] is A,
// symmetric and positive semidefinite; only its lower triangle is read, and all of it is overwritten (Cholesky
// decomposition). Columns that are always 0 get x = 0. It takes O(K^3 / 6 + M K^2) multiply-adds.
void solve_ridge(std::span<double> gram, std::span<double> right, std::int64_t columns, double ridge);

}  // namespace plimsoll
