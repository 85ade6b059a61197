// cuBLASLt on the host, for tests: the functions that the backend calls, as simple loops that sum in double. It is
// as strict as the library may be: only types of its table, a bias of the result's type, aligned pointers, a
// workspace that is large enough. An algorithm writes the worst values allowed there, and reads C even where beta is
// 0.
//
// For a product it proposes three algorithms, 0 to 2, which differ in the last bits: 0 sums in double; 1 splits `inner`
// in two and keeps both sums in a workspace as floats; 2 sums from the end in float. It refuses halves whose pitch is
// not a multiple of 4 bytes, as tensor cores do.
#pragma once

#include <cstdint>

#include "backend/cuda/cublaslt.h"

namespace cuda_emulator {

plimsoll::cuda::CublasLt cublaslt();

struct LtCalls {
  int descriptions = 0, heuristics = 0, products = 0;  // descriptions of operations and layouts that are not freed
  int last_algorithm = -1, batches = 0;                // batches: calls for several products at once
};
LtCalls& lt_calls();

// Makes the library have no algorithm for any product.
void refuse_products(bool refuse);
// Algorithm 1 does not run for products with fewer rows.
void refuse_rows_below(std::int64_t rows);
// Algorithm 1 needs at least so much workspace, whatever the sizes.
void need_workspace(std::size_t bytes);
// Sets the time that a product takes with each algorithm, for events.
void set_product_times(float first, float second, float third);
// Makes the library have no algorithm for several products at once.
void refuse_batches(bool refuse);
// Several products at once have other last bits than each alone.
void sum_otherwise_in_batches(bool differ);
// Sets the time of several products at once, in times that of a single one.
void set_batch_time(float factor);
// Sets the version that the library reports.
void set_lt_version(std::size_t version);

}  // namespace cuda_emulator
