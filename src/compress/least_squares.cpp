#include "compress/least_squares.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plimsoll {
namespace {

double product(const double* a, const double* b, std::size_t count) {
  double parts[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t p = 0; p < 4; ++p) parts[p] += a[i + p] * b[i + p];
  }
  for (; i < count; ++i) parts[0] += a[i] * b[i];
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

}  // namespace

void solve_ridge(std::span<double> gram, std::span<double> right, std::int64_t columns, double ridge) {
  const auto k = static_cast<std::size_t>(columns);
  check(gram.size() == k * k && right.size() % k == 0, "a Gram matrix is square, and right sides are rows of it");
  double largest = 0;
  for (std::size_t i = 0; i < k; ++i) largest = std::max(largest, gram[i * k + i]);
  for (std::size_t i = 0; i < k; ++i) {
    double& diagonal = gram[i * k + i];
    // A column this small is only rounding noise; setting its diagonal makes its x 0.
    const bool empty = !(diagonal > 1e-12 * largest);
    if (empty) {
      for (std::size_t j = 0; j < k; ++j) gram[i * k + j] = gram[j * k + i] = 0;
      for (std::size_t r = 0; r < right.size(); r += k) right[r + i] = 0;
      diagonal = 1;
    } else {
      diagonal *= 1 + ridge;
    }
  }
  // A = L L^T, row by row.
  for (std::size_t i = 0; i < k; ++i) {
    double* const row = &gram[i * k];
    for (std::size_t j = 0; j < i; ++j) row[j] = (row[j] - product(row, &gram[j * k], j)) / gram[j * k + j];
    const double rest = row[i] - product(row, row, i);
    check(rest > 0, "the ridge makes the normal equations definite");
    row[i] = std::sqrt(rest);
    std::fill(row + i + 1, row + k, 0.0);
  }
  for (std::size_t i = 0; i < k; ++i) {  // the upper triangle becomes L^T, so that both sweeps read rows
    for (std::size_t j = 0; j < i; ++j) gram[j * k + i] = gram[i * k + j];
  }
  for (std::size_t r = 0; r < right.size(); r += k) {
    double* const x = &right[r];
    for (std::size_t i = 0; i < k; ++i) x[i] = (x[i] - product(&gram[i * k], x, i)) / gram[i * k + i];
    for (std::size_t i = k; i-- > 0;) {
      x[i] = (x[i] - product(&gram[i * k + i + 1], x + i + 1, k - i - 1)) / gram[i * k + i];
    }
  }
}

}  // namespace plimsoll
