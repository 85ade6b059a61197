// The time of a step on a GPU, as a model: each kernel takes as long as the slowest of its matrix products, its device
// memory and its instructions, and a gap follows each launch. gpu_rates.h has the assumed figures.
//
//   StepModel model = model_step(graph, *find_gpu("h200"));
//   model.seconds();   model.starts();   model.kinds[0].seconds;
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "backend/cuda/sizes/gpu_rates.h"
#include "backend/cuda/sizes/kernel_work.h"

namespace plimsoll::cuda {

// Returns nullptr if kGpuRates does not have the name.
const GpuRates* find_gpu(std::string_view name);

// Returns the instructions that a thread of a GPU spends on a score or a value, counted in the machine code of sm_90
// (tools/kernel_instructions.py, which writes instructions.inc).
double instructions_each(CountedWork counted);

enum class Limit : std::uint8_t { kProducts, kMemory, kInstructions, kGap };
std::string_view limit_name(Limit limit);

struct ModelledKernel {
  std::string_view node;  // the graph's name, which must outlive this
  KernelWork work;
  double seconds = 0;  // gaps included
  Limit limit = Limit::kGap;
};

struct KindSum {
  int starts = 0;
  double flops = 0, bytes = 0, seconds = 0;
};

struct StepModel {
  std::vector<ModelledKernel> kernels;
  std::array<KindSum, kWorkKinds> kinds{};

  int starts() const;
  double flops() const, seconds() const;
};

// Models the kernels of one run of the graph, with all rows real. Neighbouring updates, and products that may be one
// batch, are launched together, as in a recorded step whose plan puts their operands at regular distances.
StepModel model_step(const Graph& graph, const GpuRates& gpu);

}  // namespace plimsoll::cuda
