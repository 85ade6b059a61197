#include "fit/session.h"

#include <fmt/format.h>

#include "transform/optimizer.h"

namespace plimsoll {

Session::Session(RunPlan plan, Backend& backend)
    : plan_(std::move(plan)), memory_(backend.allocate(plan_.arena_bytes)) {
  for (PlannedProgram& program : plan_.programs) {
    programs_.emplace_back(std::move(program.prepared), program.plan, memory_->bytes());
  }
}

bool Session::has(ProgramKind kind) const {
  for (const PlannedProgram& program : plan_.programs) {
    if (program.kind == kind) return true;
  }
  return false;
}

std::size_t Session::index(ProgramKind kind) const {
  for (std::size_t i = 0; i < plan_.programs.size(); ++i) {
    if (plan_.programs[i].kind == kind) return i;
  }
  check(false, fmt::format("the run has no '{}' program", program_kind_name(kind)));
  return 0;
}

const Program& Session::program(ProgramKind kind) const { return programs_[index(kind)]; }
const PlannedProgram& Session::planned(ProgramKind kind) const { return plan_.programs[index(kind)]; }

ParameterPlace Session::parameter(const std::string& name) const {
  const std::string low = name + std::string(kLowHalfSuffix);
  return ParameterPlace(persistent(name), plan_.layout.entries().count(low) > 0 ? persistent(low) : TensorView());
}

TensorView Session::persistent(const std::string& name) const {
  const PersistentLayout::Entry& entry = plan_.layout.at(name);
  return {entry.type, memory_->bytes().data() + entry.offset};
}

}  // namespace plimsoll
