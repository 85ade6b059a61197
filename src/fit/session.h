// Session: a run's programs bound to its one arena. Everything that a run will ever hold on the device is allocated and
// touched here, before the first step; so is the offload file, if the plan has one.
//
//   Session session(fit(request, backend), backend);
//   session.program(ProgramKind::kStep).run();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/offload_file.h"
#include "fit/choices.h"
#include "fit/fit.h"
#include "model/parameter_place.h"
#include "runtime/transfer_queue.h"

namespace plimsoll {

class Session {
 public:
  // With `known`, algorithms that differ in the last bits of results are the same as ever, or chosen by time here (see
  // choose); without, they are those that libraries propose first. Throws EnvironmentError if the arena, or room on the
  // disk, cannot be had; BudgetError as settle() does.
  Session(RunPlan plan, Backend& backend, const std::optional<KnownChoices>& known = std::nullopt);

  const RunPlan& plan() const { return plan_; }
  // Of this run; empty where none were chosen.
  const Choices& choices() const { return choices_; }
  bool has(ProgramKind kind) const;
  // Throws InternalError if the run has no such program.
  const Program& program(ProgramKind kind) const;
  // What fit() knew of the program: its loss and logits values, capacity.
  const PlannedProgram& planned(ProgramKind kind) const;
  // A parameter or state by name; not one that is offloaded.
  DeviceTensor persistent(const std::string& name) const;
  // A parameter's place, whatever form the run keeps it in.
  ParameterPlace parameter(const std::string& name) const;

  // Waits for the transfers of a program that was not run to its end.
  void finish_transfers() const;

  // An optimizer state, in memory or offloaded, between steps: its type, and its bytes in order, in one piece or in
  // many, shown to `visit` to be read, or to be filled. Throw EnvironmentError where the offload file fails.
  TensorType state_type(const std::string& name) const;
  void read_state(const std::string& name, const std::function<void(std::span<const std::byte>)>& visit) const;
  void fill_state(const std::string& name, const std::function<void(std::span<std::byte>)>& visit) const;

 private:
  std::size_t index(ProgramKind kind) const;

  void visit_offloaded(const OffloadLayout::State& state, bool fills, const OffloadStore::Visit& visit) const;

  RunPlan plan_;
  Choices choices_;
  std::unique_ptr<OffloadFile> file_;  // nullptr: nothing is offloaded to a file
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<OffloadStore> store_;  // after what its requests touch; nullptr: nothing is offloaded
  std::vector<Program> programs_;        // in the order of plan_.programs
};

}  // namespace plimsoll
