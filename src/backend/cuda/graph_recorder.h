// Records what a program starts as a CUDA graph, one a variant, so that a step costs the host one call.
//
// Among ranks, a step whose exchanges are recorded on one must be recorded on all (NVIDIA: "Using NCCL with CUDA
// Graphs"). So all of them run the same variant, as Program sees to, and if one has no memory for the graph, none has
// it.
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

  // The first time a variant runs it is started as it is: libraries make their own preparations in a first call, which
  // a capture does not take. The second time it is captured; where others have left no memory for the graph meanwhile,
  // the variant is started as it is for good, which is said once. Throws EnvironmentError where the device refuses.
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
  // Whether every rank has a graph of what was recorded, if that has exchanges.
  bool all_have(bool has_graph, bool exchanges) const;

  // The last runs are kept: more than are under way at a time, so that nobody waits for one.
  struct Run {
    Event begin, end;
    bool counts = false;  // and is not yet part of the sum
  };
  void add(Run& run);

  const Context& context_;
  std::map<std::int64_t, Recording> recordings_;  // of variants that have run
  bool has_warned_ = false;
  std::optional<Stream> beside_;  // for what forks
  Event forked_;
  std::map<std::size_t, Event> ended_;  // what has forked, by its node
  std::array<Run, 8> runs_;
  std::size_t next_run_ = 0;
  double seconds_ = 0;
};

}  // namespace plimsoll::cuda
