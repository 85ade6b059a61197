#include "backend/cuda/graph_recorder.h"

namespace plimsoll::cuda {

GraphRecorder::~GraphRecorder() {
  for (const auto& [variant, graph] : graphs_) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
}

void GraphRecorder::run(std::int64_t variant, const std::function<void()>& start) {
  const auto [found, is_new] = graphs_.try_emplace(variant, nullptr);
  if (is_new) return start();
  if (found->second == nullptr) found->second = capture(start);
  check_cuda(cudaGraphLaunch(found->second, context_.stream()), "the start of a step");
}

cudaGraphExec_t GraphRecorder::capture(const std::function<void()>& start) const {
  check_cuda(cudaStreamBeginCapture(context_.stream(), cudaStreamCaptureModeThreadLocal), "the recording of a step");
  cudaGraph_t graph = nullptr;
  try {
    start();
  } catch (...) {
    cudaStreamEndCapture(context_.stream(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check_cuda(cudaStreamEndCapture(context_.stream(), &graph), "the recording of a step");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(error, "a step that was recorded");
  return exec;
}

}  // namespace plimsoll::cuda
