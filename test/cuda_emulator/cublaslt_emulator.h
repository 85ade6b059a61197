// cuBLASLt on the host, for tests: the functions that the backend calls, as obvious loops that sum in double. It is
// strict where the library may be: types of its table alone, a bias of the result's type, aligned pointers, a workspace
// that is large enough. What an algorithm writes there, and what it reads of C where beta is 0, is the worst that is
// allowed.
//
// Of a product it proposes three algorithms, 0 to 2, which differ in the last bits: 0 sums in double; 1 splits `inner`
// in two and keeps both sums in a workspace as floats; 2 sums from the end in float. Halves with a pitch that is no
// multiple of 4 bytes it refuses, as tensor cores do.
#pragma once

#include <cstdint>

#include "backend/cuda/cublaslt.h"

namespace cuda_emulator {

plimsoll::cuda::CublasLt cublaslt();

struct LtCalls {
  int descriptions = 0, heuristics = 0, products = 0;  // descriptions: of operations and layouts that are not freed
  int last_algorithm = -1;
};
LtCalls& lt_calls();

// It has no algorithm for anything.
void refuse_products(bool refuse);
// Algorithm 1 does not run for products with fewer rows.
void refuse_rows_below(std::int64_t rows);
// Algorithm 1 needs at least so much workspace, whatever the sizes.
void need_workspace(std::size_t bytes);
// What a product takes by each algorithm, for events.
void set_product_times(float first, float second, float third);
// Of the library that it claims to be.
void set_lt_version(std::size_t version);

}  // namespace cuda_emulator
