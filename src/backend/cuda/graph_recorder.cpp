#include "backend/cuda/graph_recorder.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/rank_exchange.h"
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

void GraphRecorder::fork(std::size_t node, const std::function<void(std::size_t)>& run) {
  if (!beside_) beside_.emplace();
  const Context::Fork fork(context_, *beside_, forked_);
  run(node);
  ended_[node].record(context_.stream());
}

void GraphRecorder::join(std::size_t node) {
  check_cuda(cudaStreamWaitEvent(context_.stream(), ended_.at(node).get(), 0), "kernels beside others");
}

void GraphRecorder::add(Run& run) {
  if (!std::exchange(run.counts, false)) return;
  context_.wait(run.end, "the end of a step");
  seconds_ += 1e-3 * double{run.end.milliseconds_since(run.begin)};
}

double GraphRecorder::device_seconds() {
  for (Run& run : runs_) add(run);
  return seconds_;
}

void GraphRecorder::start_or_launch(std::int64_t variant, const std::function<void()>& start) {
  const auto [found, is_new] = recordings_.try_emplace(variant);
  Recording& recording = found->second;
  const bool records = !is_new && recording.graph == nullptr && !recording.was_refused;
  if (records) capture(start, recording);
  if (recording.graph == nullptr) return start();
  // The capture has counted the first launch.
  if (!records && context_.exchange() != nullptr) context_.exchange()->communicator().add_traffic(recording.traffic);
  check_cuda(cudaGraphLaunch(recording.graph, context_.stream()), "the start of a step");
}

bool GraphRecorder::all_have(bool has_graph, bool exchanges) const {
  if (!exchanges) return has_graph;
  const std::vector<char> all = all_gather(context_.exchange()->communicator(), has_graph ? char{1} : char{0});
  return std::ranges::all_of(all, [](char each) { return each != 0; });
}

void GraphRecorder::capture(const std::function<void()>& start, Recording& to) {
  check_cuda(cudaStreamBeginCapture(context_.stream(), cudaStreamCaptureModeThreadLocal), "the recording of a step");
  cudaGraph_t graph = nullptr;
  const RankExchange* const exchange = context_.exchange();
  const std::uint64_t begun_before = exchange == nullptr ? 0 : exchange->begun();
  const Communicator::Traffic before =
      exchange == nullptr ? Communicator::Traffic() : exchange->communicator().traffic();
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
  if (error != cudaErrorMemoryAllocation) check_cuda(error, "a step that was recorded");
  const bool exchanges = exchange != nullptr && exchange->begun() > begun_before;
  if (exchanges) {
    to.traffic = exchange->communicator().traffic() - before;
    to.traffic.wait_seconds = 0;
  }
  if (all_have(error == cudaSuccess, exchanges)) return;
  cudaGetLastError();
  if (to.graph != nullptr) cudaGraphExecDestroy(to.graph);
  to = {.was_refused = true};
  if (!has_warned_) {
    log_warning(error == cudaSuccess
                    ? "another rank's GPU has no memory left to record a step in: kernels are started one by one"
                    : "the GPU has no memory left to record a step in: kernels are started one by one");
  }
  has_warned_ = true;
}

}  // namespace plimsoll::cuda
