#include "backend/cuda/graph_recorder.h"

#include <utility>

#include "base/log.h"

namespace plimsoll::cuda {

GraphRecorder::~GraphRecorder() {
  for (const auto& [variant, recording] : recordings_) {
    if (recording.graph != nullptr) cudaGraphExecDestroy(recording.graph);
  }
}

void GraphRecorder::run(std::int64_t variant, const std::function<void()>& start) {
  Run& run = runs_[next_run_];
  next_run_ = (next_run_ + 1) % runs_.size();
  add(run);
  run.begin.record(context_.stream());
  start_or_launch(variant, start);
  run.end.record(context_.stream());
  run.counts = true;
}

void GraphRecorder::add(Run& run) {
  if (!std::exchange(run.counts, false)) return;
  run.end.wait();
  seconds_ += 1e-3 * double{run.end.milliseconds_since(run.begin)};
}

double GraphRecorder::device_seconds() {
  for (Run& run : runs_) add(run);
  return seconds_;
}

void GraphRecorder::start_or_launch(std::int64_t variant, const std::function<void()>& start) {
  const auto [found, is_new] = recordings_.try_emplace(variant);
  Recording& recording = found->second;
  if (!is_new && recording.graph == nullptr && !recording.was_refused) capture(start, recording);
  if (recording.graph == nullptr) return start();
  check_cuda(cudaGraphLaunch(recording.graph, context_.stream()), "the start of a step");
}

void GraphRecorder::capture(const std::function<void()>& start, Recording& to) {
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
  cudaError_t error = cudaGraphInstantiate(&to.graph, graph, 0);
  cudaGraphDestroy(graph);
  if (error == cudaSuccess) error = cudaGraphUpload(to.graph, context_.stream());  // takes its memory now
  if (error != cudaErrorMemoryAllocation) return check_cuda(error, "a step that was recorded");
  cudaGetLastError();
  if (to.graph != nullptr) cudaGraphExecDestroy(to.graph);
  to = {.was_refused = true};
  if (!has_warned_) log_warning("the GPU has no memory left to record a step in: kernels are started one by one");
  has_warned_ = true;
}

}  // namespace plimsoll::cuda
