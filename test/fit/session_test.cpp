#include "fit/session.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "fit/small_request.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

Session make_session(std::int64_t micro, Backend& backend) {
  FitRequest request = small_request(4);
  request.evaluates = true;
  return Session(plan_run(request, {.micro_batch_size = micro}, backend), backend);
}

TEST(Session, EverythingPersistentStartsAtZero) {
  ReferenceBackend reference;
  CpuBackend cpu(1);
  for (Backend* backend : {static_cast<Backend*>(&reference), static_cast<Backend*>(&cpu)}) {
    const Session session = make_session(2, *backend);
    std::size_t states = 0;
    for (const auto& [name, entry] : session.plan().layout.entries()) {
      const TensorView view = session.persistent(name).view();
      EXPECT_EQ(view.type(), entry.type);
      const auto bytes = view.byte_span();
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }))
          << backend->name() << ": " << name;
      states += entry.role == Role::kState ? 1 : 0;
    }
    EXPECT_GT(states, 100U);  // two moments and a gradient for each parameter
  }
}

TEST(Session, ProgramsShareParametersAndStates) {
  ReferenceBackend backend;
  const Session session = make_session(2, backend);
  const Program& accumulate = session.program(ProgramKind::kAccumulate);
  const Program& step = session.program(ProgramKind::kAccumulateAndStep);
  const Program& evaluate = session.program(ProgramKind::kEvaluate);
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    const void* place = session.persistent(name).view().raw();
    for (const Program* program : {&accumulate, &step, &evaluate}) {
      EXPECT_TRUE(!program->has_source(name) || program->source(name).view().raw() == place) << name;
    }
    EXPECT_TRUE(step.has_source(name)) << name;
    EXPECT_EQ(evaluate.has_source(name), entry.role == Role::kParameter) << name;
    const bool is_moment = name.ends_with(".exp_avg") || name.ends_with(".exp_avg_sq");
    EXPECT_EQ(accumulate.has_source(name), !is_moment) << name;
  }
}

TEST(Session, KnowsItsProgramsByKind) {
  ReferenceBackend backend;
  const Session session = make_session(4, backend);
  EXPECT_TRUE(session.has(ProgramKind::kStep));
  EXPECT_TRUE(session.has(ProgramKind::kEvaluate));
  EXPECT_FALSE(session.has(ProgramKind::kAccumulate));
  EXPECT_EQ(session.planned(ProgramKind::kEvaluate).capacity.text_rows, 120);
  const PlannedProgram& planned = session.planned(ProgramKind::kStep);
  EXPECT_EQ(session.program(ProgramKind::kStep).graph().value(planned.gradient_norm).name, "gradient_norm:0");
  expect_error<InternalError>([&] { session.program(ProgramKind::kAccumulate); },
                              {"the run has no 'accumulate' program"});
  expect_error<InternalError>([&] { session.planned(ProgramKind::kGradients); },
                              {"the run has no 'gradients' program"});
  expect_error<InternalError>([&] { session.persistent("layoutlmv3.nothing"); }, {"'layoutlmv3.nothing'"});
}

}  // namespace
}  // namespace plimsoll::test
