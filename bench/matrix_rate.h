// The rate at which this processor multiplies matrices if nothing else limits it: a loop of fused multiply-adds, dot
// products or tile products whose operands never leave the registers. Products of real matrices are compared with it.
//
//   for (const MatrixUnit& unit : matrix_units(DType::kF32)) fmt::print("{:.1f}\n", matrix_rate(unit, 2));
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace plimsoll {

struct MatrixUnit {
  const char* name;                  // name of the instructions
  double flop_per_round;             // multiplications and additions of one round of the loop, on one thread
  void (*run)(std::int64_t rounds);  // has no effect except its time
};

// Returns this processor's units that multiply `dtype` (F32 or BF16) and sum in F32; F32's serve both. Empty if this
// file has no loop for the processor.
std::vector<MatrixUnit> matrix_units(DType dtype);

// Returns the GFLOP/s of `unit` on `threads` OpenMP threads at once, over about `seconds`.
double matrix_rate(const MatrixUnit& unit, int threads, double seconds = 0.05);

// Returns the rate of the fastest unit of `dtype`; 0 if there is none.
double best_matrix_rate(DType dtype, int threads);

}  // namespace plimsoll
