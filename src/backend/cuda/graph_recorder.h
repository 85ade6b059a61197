// Records a program's launches as a CUDA graph, one per variant, so that a step costs the host one call.
//
// With several ranks, a step whose exchanges are recorded on one rank must be recorded on all (NVIDIA: "Using NCCL with
// CUDA Graphs"). So all ranks run the same variant, which Program ensures, and if one has no memory for the graph, none
// uses it.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "backend/cuda/context.h"
#include "ranks/communicator.h"

namespace plimsoll::cuda {

class GraphRecorder final : public Recorder {
 public:
  explicit GraphRecorder(const Context& context) : context_(context) {}
  ~GraphRecorder() override;

  // The first time, a variant is launched without recording: libraries prepare themselves in a first call, which must
  // not be captured. The second time it is captured; if other processes have left no memory for the graph, the variant
  // is never recorded, which is logged once. Throws EnvironmentError if the device refuses.
  void run(std::int64_t variant, const std::function<void()>& start) override;
  void fork(std::size_t node, const std::function<void(std::size_t)>& run) override;
  void join(std::size_t node) override;
  double device_seconds() override;

 private:
  struct Recording {
    cudaGraphExec_t graph = nullptr;
    bool was_refused = false;
    Communicator::Traffic traffic{};  // of a launch
  };
  void capture(const std::function<void()>& start, Recording& to);
  void start_or_launch(std::int64_t variant, const std::function<void()>& start);
  // Returns whether every rank has a graph of what was recorded, if that has exchanges.
  bool all_have(bool has_graph, bool exchanges) const;

  // The last runs are kept: more than are in progress at a time, so that no run waits for another.
  struct Run {
    Event begin, end;
    bool counts = false;  // and is not in the sum yet
  };
  void add(Run& run);

  const Context& context_;
  std::map<std::int64_t, Recording> recordings_;  // of variants that have run
  bool has_warned_ = false;
  std::optional<Stream> beside_;  // for forked nodes
  Event forked_;
  std::map<std::size_t, Event> ended_;  // the ends of forked nodes, by node
  std::array<Run, 8> runs_;
  std::size_t next_run_ = 0;
  double seconds_ = 0;
};

}  // namespace plimsoll::cuda
