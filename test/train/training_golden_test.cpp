// Twenty AdamW updates of the golden models against PyTorch's (test/data/model/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/dropout.h"
#include "fit/session.h"
#include "harness/paths.h"
#include "train/batch_binding.h"
#include "train/batch_file.h"
#include "train/model_bundle.h"

namespace plimsoll {
namespace {

void expect_golden_training(const std::string& head, Backend& backend, std::size_t updates) {
  const std::filesystem::path directory = test_data_dir() / "model" / head;
  std::ifstream file(directory / "training.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const ModelBundle bundle = open_weights_only(directory.string());
  std::vector<std::unique_ptr<Batch>> batches;
  for (int i = 0; i < 5; ++i) {
    batches.push_back(read_batch_file(directory / ("batch" + std::to_string(i) + ".safetensors"), bundle.config));
  }
  const BatchShape shape = batches[0]->shape();
  FitRequest request;
  request.step.config = bundle.config;
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
  const BatchBinding binding(program, *batches[0]);
  for (std::size_t update = 0; update < updates; ++update) {
    const Batch& batch = *batches[update % batches.size()];
    binding.copy(batch);
    binding.set_loss_scale(1.0F / static_cast<float>(batch.labelled_tokens()));
    binding.set_dropout_key(dropout_key(0, update));
    binding.set_update(golden["learning_rates"][update].get<double>(), static_cast<std::int64_t>(update) + 1,
                       golden["recipe"]["max_grad_norm"].get<double>());
    program.run();
    // 1e-5: PyTorch's own float32 run strays by that order from its float64 run.
    const double loss = golden["losses"][update].get<double>();
    EXPECT_NEAR(*program.view(planned.loss).data<float>(), loss, 1e-5 * loss) << head << ", update " << update;
    const double norm = golden["gradient_norms"][update].get<double>();
    EXPECT_NEAR(*program.view(planned.gradient_norm).data<float>(), norm, 1e-4 * norm) << head << ", update " << update;
  }
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

}  // namespace
}  // namespace plimsoll
