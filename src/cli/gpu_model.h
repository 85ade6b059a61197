// plan --gpu: how long an update takes on a GPU that is absent, as a model of its kernels
// (backend/cuda/sizes/roofline.h).
//
//   const GpuModel model(plan, *cuda::find_gpu("h200"));   // while the plan has its programs
//   print_text(model.text());
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "backend/cuda/sizes/roofline.h"
#include "fit/fit.h"

namespace plimsoll {

// Returns the speeds by which plans for that GPU are compared.
OpSpeeds gpu_speeds(const cuda::GpuRates& gpu);

class GpuModel {
 public:
  GpuModel(const RunPlan& plan, const cuda::GpuRates& gpu);

  // Returns a table of kinds of kernels, and the assumptions. It says that this is a model.
  std::string text() const;
  // Returns the same, with every kernel of each program.
  nlohmann::json json() const;

 private:
  struct Part {
    ProgramKind kind;
    std::int64_t runs = 1;  // in an update
    cuda::StepModel model;
    std::vector<std::string> nodes;  // names of the kernels' nodes
  };
  const cuda::GpuRates& gpu_;
  std::vector<Part> parts_;
};

}  // namespace plimsoll
