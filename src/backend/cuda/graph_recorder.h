// Records what a program starts as a CUDA graph, one a variant, so that a step costs the host one call.
#pragma once

#include <map>

#include "backend/cuda/context.h"

namespace plimsoll::cuda {

class GraphRecorder final : public Recorder {
 public:
  explicit GraphRecorder(const Context& context) : context_(context) {}
  ~GraphRecorder() override;

  // The first time a variant runs it is started as it is: libraries make their own preparations in a first call, which
  // a capture does not take. The second time it is captured. Throws EnvironmentError where the device refuses.
  void run(std::int64_t variant, const std::function<void()>& start) override;

 private:
  cudaGraphExec_t capture(const std::function<void()>& start) const;

  const Context& context_;
  std::map<std::int64_t, cudaGraphExec_t> graphs_;  // nullptr: has run once
};

}  // namespace plimsoll::cuda
