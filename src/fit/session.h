// Session: a run's programs bound to its one arena. All memory that a run ever holds on the device is allocated and
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

#include "backend/stored_memory.h"
#include "base/offload_file.h"
#include "fit/choices.h"
#include "fit/fit.h"
#include "model/parameter_place.h"
#include "ranks/communicator.h"
#include "runtime/checked_run.h"
#include "runtime/transfer_queue.h"

namespace plimsoll {

class Session {
 public:
  // With `known`, algorithms that differ in the last bits of results are the recorded ones, or are chosen by time here
  // (see choose); without `known`, they are the libraries' defaults. Throws EnvironmentError if the arena or the disk
  // space cannot be allocated; BudgetError as settle() does. `ranks` connects the processes of a run that has several,
  // and must outlive the session.
  Session(RunPlan plan, Backend& backend, const std::optional<KnownChoices>& known = std::nullopt,
          Communicator* ranks = nullptr);

  const RunPlan& plan() const { return plan_; }
  // Returns nullptr for a single process.
  Communicator* ranks() const { return ranks_; }
  // The choices of this run; empty if none were made.
  const Choices& choices() const { return choices_; }
  bool has(ProgramKind kind) const;
  // Throws InternalError if the run has no such program.
  const Program& program(ProgramKind kind) const;
  // Returns what fit() planned for the program: its loss and logits values, its capacity.
  const PlannedProgram& planned(ProgramKind kind) const;
  // Returns a parameter or state by name; a state must not be offloaded.
  DeviceTensor persistent(const std::string& name) const;
  // Returns whether the run has that parameter or state in memory, or the parameter in its offload store.
  bool has_persistent(const std::string& name) const;
  // Returns a parameter's place, whatever form the run keeps it in.
  // With ranks that keep parts of parameters, the place of this rank's part.
  ParameterPlace parameter(const std::string& name) const;
  bool keeps_part_of(const std::string& parameter) const;

  // Returns the fault with the word embedding as files have it, where its rows have other numbers if only some of them
  // are in memory.
  std::optional<StepFault> as_in_files(std::optional<StepFault> fault) const;

  // Waits for the transfers of a program that was not run to its end.
  void finish_transfers() const;

  // Access to an optimizer state, in memory or offloaded, between steps: its type, and its bytes in order, in one or
  // many pieces, passed to `visit` to be read or filled. Both throw EnvironmentError if the offload file fails.
  TensorType state_type(const std::string& name) const;
  void read_state(const std::string& name, const std::function<void(std::span<const std::byte>)>& visit) const;
  void fill_state(const std::string& name, const std::function<void(std::span<std::byte>)>& visit) const;

 private:
  std::size_t index(ProgramKind kind) const;
  Choices choose_on_ranks(Backend& backend, const KnownChoices& known) const;

  void visit_offloaded(const OffloadLayout::State& state, bool fills, const OffloadStore::Visit& visit) const;

  RunPlan plan_;
  Communicator* ranks_;
  Choices choices_;
  std::unique_ptr<OffloadFile> file_;  // nullptr: nothing is offloaded to a file
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<OffloadStore> store_;  // declared after the memory that its requests touch; nullptr: no offloads
  std::optional<StoredMemory> stored_;   // of store_
  std::vector<Program> programs_;        // in the order of plan_.programs
};

}  // namespace plimsoll
