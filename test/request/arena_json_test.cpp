// The map of the arena says the same as the plan that it is made of.
#include "request/arena_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "backend/reference/reference_backend.h"
#include "fit/small_request.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {
namespace {

nlohmann::json arena_of(const RunPlan& plan, const FitRequest& request) {
  std::string text;
  write_arena(plan, request.speeds, [&text](std::string_view piece) { text += piece; });
  return nlohmann::json::parse(text);
}

std::set<std::string> levers_of(const nlohmann::json& program) {
  std::set<std::string> levers;
  for (const auto& tensor : program["tensors"]) levers.insert(tensor[2].get<std::string>());
  return levers;
}

TEST(ArenaJson, HasEveryByteOfThePlan) {
  ReferenceBackend backend;
  FitRequest request = small_request(4);
  request.evaluates = true;
  request.micro_batch_size = 2;  // two programs that train, and the evaluation
  const RunPlan plan = fit(request, backend);
  const nlohmann::json arena = arena_of(plan, request);
  EXPECT_EQ(arena["arena_bytes"], plan.arena_bytes);
  std::size_t persistent = 0;
  std::set<std::string> kinds;
  for (const auto& tensor : arena["persistent"]) {
    persistent += tensor[4].get<std::size_t>();
    kinds.insert(tensor[1]);
    EXPECT_LE(tensor[3].get<std::size_t>() + tensor[4].get<std::size_t>(), plan.layout.bytes());
  }
  EXPECT_EQ(persistent, plan.layout.bytes());
  // The tables of relative positions have no gradient in this model, so that they count as frozen.
  EXPECT_EQ(kinds, (std::set<std::string>{"parameter", "frozen parameter", "optimizer state", "summed gradient"}));
  ASSERT_EQ(arena["programs"].size(), plan.programs.size());
  for (std::size_t p = 0; p < plan.programs.size(); ++p) {
    const PlannedProgram& planned = plan.programs[p];
    const nlohmann::json& program = arena["programs"][p];
    EXPECT_EQ(program["kind"], program_kind_name(planned.kind));
    EXPECT_EQ(program["runs"], planned.kind == ProgramKind::kEvaluate ? 0 : 1);
    ASSERT_EQ(program["nodes"].size(), planned.prepared.graph.nodes().size());
    ASSERT_EQ(program["tensors"].size(), planned.plan.buffers.size());
    std::size_t alive = 0;
    for (const auto& tensor : program["tensors"]) {
      EXPECT_GE(tensor[3].get<std::size_t>(), plan.layout.bytes());
      EXPECT_LE(tensor[3].get<std::size_t>() + tensor[4].get<std::size_t>(), plan.arena_bytes);
      const bool at_peak = tensor[5] <= planned.plan.peak_node && tensor[6] > planned.plan.peak_node;
      alive += at_peak ? tensor[4].get<std::size_t>() : 0;
    }
    EXPECT_EQ(alive, planned.plan.lower_bound_bytes);
  }
}

TEST(ArenaJson, NamesLevers) {
  ReferenceBackend backend;
  FitRequest request = small_request(2);
  use_model(request, small_config(3));
  const nlohmann::json cheap = arena_of(fit(request, backend), request);
  EXPECT_TRUE(levers_of(cheap["programs"][0]).contains("recomputed"));
  EXPECT_TRUE(levers_of(cheap["programs"][0]).contains("kept"));
  EXPECT_FALSE(levers_of(cheap["programs"][0]).contains("offloaded"));
  request.recompute = RecomputeMode::kLayers;
  const nlohmann::json layers = arena_of(fit(request, backend), request);
  const auto recomputed = [](const nlohmann::json& arena) {
    std::size_t bytes = 0;
    for (const auto& tensor : arena["programs"][0]["tensors"]) {
      bytes += tensor[2] == "recomputed" ? tensor[4].get<std::size_t>() : 0;
    }
    return bytes;
  };
  EXPECT_GT(recomputed(layers), recomputed(cheap));
}

TEST(ArenaJson, NamesOffloadedAndFrozenTensors) {
  ReferenceBackend backend;
  const ScratchFolder folder;
  FitRequest request = small_request(1);
  use_model(request, wide_config());
  request.step.model.freeze = {"*.embeddings.*"};
  Levers levers;
  levers.offload = rank_step_offloads(ProgramKind::kStep, request.step, {.samples = 1, .text_rows = 32}, 32);
  ASSERT_FALSE(levers.offload.empty());
  request.offload = OffloadTarget::kFile;
  request.offload_directory = folder.path();
  request.speeds.offload_read_seconds_per_byte = request.speeds.offload_write_seconds_per_byte = 1e-8;
  const RunPlan plan = plan_run(request, levers, backend);
  const nlohmann::json arena = arena_of(plan, request);
  EXPECT_TRUE(levers_of(arena["programs"][0]).contains("offloaded"));
  double seconds = 0;
  for (const auto& node : arena["programs"][0]["nodes"]) seconds += node[3].get<double>();
  const double estimated = estimate_seconds(plan.programs[0].prepared.graph, request.speeds);
  EXPECT_NEAR(seconds, estimated, 0.01 * estimated) << "with the time that nodes wait for the disk";
  std::set<std::string> staged;
  for (const auto& tensor : arena["programs"][0]["tensors"]) {
    if (tensor[2] == "offloaded") staged.insert(tensor[1].get<std::string>());
  }
  EXPECT_TRUE(staged.contains("optimizer state")) << testing::PrintToString(staged);
  std::set<std::string> frozen;
  for (const auto& tensor : arena["persistent"]) {
    if (tensor[1] == "frozen parameter") frozen.insert(tensor[0].get<std::string>());
  }
  EXPECT_TRUE(frozen.contains("layoutlmv3.embeddings.word_embeddings.weight")) << testing::PrintToString(frozen);
  for (const std::string& name : frozen) EXPECT_EQ(name.find(".dense."), std::string::npos) << name;
}

}  // namespace
}  // namespace plimsoll::test
