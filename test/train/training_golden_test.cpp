// Compares 20 updates of the golden models with PyTorch's AdamW and transformers' Adafactor: test/data/model/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/dropout.h"
#include "bundle/model_bundle.h"
#include "fit/session.h"
#include "formats/safetensors.h"
#include "harness/paths.h"
#include "train/batch_binding.h"
#include "train/batch_file.h"

namespace plimsoll {
namespace {

std::vector<float> floats_of(const TensorSource& file, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(file.at(name).type.shape.elements()));
  file.read(name, std::as_writable_bytes(std::span(values)));
  return values;
}

// The tensors of more than two dimensions; each must have moved from its start as in the reference.
void expect_same_ends(const std::filesystem::path& directory, const Session& session) {
  const SafetensorsReader begins(directory / "model.safetensors"), ends(directory / "training_adafactor.safetensors");
  ASSERT_EQ(ends.entries().size(), 3U);
  for (const TensorEntry& entry : ends.entries()) {
    const std::vector<float> begin = floats_of(begins, entry.name), end = floats_of(ends, entry.name);
    const std::span<const float> found = session.persistent(entry.name).view().span<float>();
    ASSERT_EQ(found.size(), end.size()) << entry.name;
    double error = 0, way = 0;
    for (std::size_t i = 0; i < end.size(); ++i) {
      error += std::pow(double{found[i]} - double{end[i]}, 2);
      way += std::pow(double{begin[i]} - double{end[i]}, 2);
    }
    EXPECT_GT(way, 0) << entry.name;
    EXPECT_LE(std::sqrt(error), 1e-3 * std::sqrt(way)) << entry.name;
  }
}

void expect_golden_training(const std::string& head, Backend& backend, std::size_t updates,
                            OptimizerKind optimizer = OptimizerKind::kAdamW) {
  const std::filesystem::path directory = test_data_dir() / "model" / head;
  const bool is_adafactor = optimizer == OptimizerKind::kAdafactor;
  std::ifstream file(directory / (is_adafactor ? "training_adafactor.json" : "training.json"));
  const nlohmann::json golden = nlohmann::json::parse(file);
  const ModelBundle bundle = open_weights_only(directory.string());
  std::vector<std::unique_ptr<Batch>> batches;
  for (int i = 0; i < 5; ++i) {
    batches.push_back(read_batch_file(directory / ("batch" + std::to_string(i) + ".safetensors"), bundle));
  }
  const BatchShape shape = batches[0]->shape();
  FitRequest request;
  request.step.definition = bundle.definition();
  request.step.optimizer.kind = optimizer;
  request.step.optimizer.adamw.weight_decay = golden["recipe"]["weight_decay"].get<double>();
  request.train_batch_size = shape.max_samples;
  request.text_rows = [&](std::int64_t) { return shape.max_text_rows; };
  request.update_text_rows = shape.max_text_rows;
  const Session session(plan_run(request, {.micro_batch_size = shape.max_samples}, backend), backend);
  const Program& program = session.program(ProgramKind::kStep);
  const PlannedProgram& planned = session.planned(ProgramKind::kStep);
  load_model(bundle, 0, [&](const std::string& name) { return session.persistent(name).view().span<float>(); });
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    if (entry.role == Role::kState) session.persistent(name).fill_zeros();
  }
  const BatchBinding binding(program, *batches[0], nullptr);
  for (std::size_t update = 0; update < updates; ++update) {
    const Batch& batch = *batches[update % batches.size()];
    binding.copy(batch);
    binding.set_loss_scale(1.0F / static_cast<float>(batch.loss_terms()));
    binding.set_dropout_key(dropout_key(0, update));
    binding.set_update(golden["learning_rates"][update].get<double>(), static_cast<std::int64_t>(update) + 1,
                       golden["recipe"]["max_grad_norm"].get<double>());
    program.run();
    // The tolerance is 1e-5, because PyTorch's own float32 run differs by that order from its float64 run.
    const double loss = golden["losses"][update].get<double>();
    EXPECT_NEAR(*program.view(planned.loss).data<float>(), loss, 1e-5 * loss) << head << ", update " << update;
    const double norm = golden["gradient_norms"][update].get<double>();
    EXPECT_NEAR(*program.view(planned.gradient_norm).data<float>(), norm, 1e-4 * norm) << head << ", update " << update;
  }
  if (is_adafactor) expect_same_ends(directory, session);
}

TEST(GoldenTraining, LinearHeadOnCpu) {
  CpuBackend backend(1);
  expect_golden_training("linear", backend, 20);
}

TEST(GoldenTraining, MlpHeadOnCpu) {
  CpuBackend backend(2);
  expect_golden_training("mlp", backend, 20);
}

TEST(GoldenTraining, ReferenceBackend) {
  ReferenceBackend backend;
  expect_golden_training("linear", backend, 20);
}

TEST(GoldenTraining, AdafactorOnCpu) {
  CpuBackend backend(2);
  expect_golden_training("linear", backend, 20, OptimizerKind::kAdafactor);
}

TEST(GoldenTraining, AdafactorOnReferenceBackend) {
  ReferenceBackend backend;
  expect_golden_training("linear", backend, 20, OptimizerKind::kAdafactor);
}

}  // namespace
}  // namespace plimsoll
