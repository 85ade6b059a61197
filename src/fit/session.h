// Session: a run's programs bound to its one arena. Everything that a run will ever hold on the device is allocated and
// touched here, before the first step.
//
//   Session session(fit(request, backend), backend);
//   session.program(ProgramKind::kStep).run();
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fit/fit.h"
#include "model/parameter_place.h"

namespace plimsoll {

class Session {
 public:
  // Throws EnvironmentError if the arena cannot be had.
  Session(RunPlan plan, Backend& backend);

  const RunPlan& plan() const { return plan_; }
  bool has(ProgramKind kind) const;
  // Throws InternalError if the run has no such program.
  const Program& program(ProgramKind kind) const;
  // What fit() knew of the program: its loss and logits values, capacity.
  const PlannedProgram& planned(ProgramKind kind) const;
  // A parameter or state by name.
  TensorView persistent(const std::string& name) const;
  // A parameter's place, whatever form the run keeps it in.
  ParameterPlace parameter(const std::string& name) const;

 private:
  std::size_t index(ProgramKind kind) const;

  RunPlan plan_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<Program> programs_;  // in the order of plan_.programs
};

}  // namespace plimsoll
