#include "train/gradients.h"

#include <algorithm>
#include <vector>

#include "fit/step_graphs.h"
#include "formats/safetensors.h"
#include "model/file_values.h"
#include "model/parameter_place.h"
#include "plan/memory_plan.h"
#include "runtime/program.h"
#include "train/batch_binding.h"
#include "train/batch_file.h"

namespace plimsoll {
namespace {

// Writes the dense form of a row gradient in pieces: rows without an id are zeros.
void write_row_gradient(SafetensorsWriter& writer, const Program& program, const Gradient& gradient, Shape table) {
  const HostCopy ids(program.tensor(gradient.row_ids)), rows(program.tensor(gradient.rows));
  const auto count = program.tensor(gradient.row_count).get<std::int32_t>();
  const auto width = static_cast<std::size_t>(table[1]);
  const std::vector<float> zeros(width);
  std::int32_t next = 0;
  for (std::int64_t row = 0; row < table[0]; ++row) {
    const bool named = next < count && ids.view().data<std::int32_t>()[next] == row;
    writer.write(std::as_bytes(
        named ? std::span<const float>(rows.view().data<float>() + static_cast<std::size_t>(next) * width, width)
              : std::span<const float>(zeros)));
    if (named) ++next;
  }
}

// Returns the shape of logits by samples instead of rows: [B T, C] as [B, T, C].
Shape logits_shape(const Shape& shape, std::int64_t samples) {
  return shape[0] == samples ? shape : Shape{samples, shape[0] / samples, shape[1]};
}

}  // namespace

GradientReport compute_gradients(const ModelBundle& bundle, const std::filesystem::path& batch_file,
                                 const std::filesystem::path& output_file, Backend& backend,
                                 const GradientOptions& gradient_options) {
  ModelOptions options = bundle.options;
  options.train_relative_position_tables |= gradient_options.train_relative_position_tables;
  const std::unique_ptr<Batch> padded = read_batch_file(batch_file, bundle);
  const Batch& batch = *padded;
  const std::int64_t samples = batch.shape().max_samples, tokens = batch.shape().max_text_rows / samples;
  StepGraph step = build_step_graph(
      ProgramKind::kGradients,
      {.definition = bundle.definition(), .model = options, .optimizer = {}, .precision = gradient_options.precision},
      {.samples = samples / bundle.definition().samples_per_example(), .text_rows = batch.shape().max_text_rows}, 0);
  PersistentLayout layout;
  layout.add(step.graph);
  PreparedGraph prepared = prepare(std::move(step.graph), backend);
  MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  const auto memory = backend.allocate(plan.arena_bytes());
  const Program program(std::move(prepared), std::move(plan), *memory);
  load_model(bundle, 0, [&](const std::string& name) { return ParameterPlace(program.source(name)); });

  const BatchBinding binding(program, batch, options.word_rows);
  binding.copy(batch);
  // A batch without labels has no loss to divide; its gradients are zero, not NaN.
  binding.set_loss_scale(batch.loss_terms() > 0 ? static_cast<float>(1 / batch.loss_weight()) : 1.0F);
  binding.set_dropout_key({0, 0});
  program.run();

  const std::vector<ParameterSpec> specs = bundle.definition().specs(options);
  const auto trained = [&](const ParameterSpec& spec) {
    return step.gradients.count(program.graph().find_source(spec.name)) > 0;
  };
  std::vector<TensorDeclaration> tensors = {
      {"loss", {DType::kF32, Shape{}}},
      {"logits", {DType::kF32, logits_shape(program.graph().type(step.logits).shape, samples)}}};
  for (const ParameterSpec& spec : specs) {
    if (trained(spec)) tensors.push_back({spec.name, {DType::kF32, spec.file_shape}});
  }
  SafetensorsWriter writer(output_file, tensors);
  const auto write = [&](ValueId value) {
    read_in_pieces(program.tensor(value), [&](std::span<const std::byte> bytes) { writer.write(bytes); });
  };
  write(step.loss);
  write(step.logits);
  for (const ParameterSpec& spec : specs) {
    if (!trained(spec)) continue;
    const Gradient& gradient = step.gradients.at(program.graph().find_source(spec.name));
    if (gradient.by_rows()) {
      write_row_gradient(writer, program, gradient, spec.shape);
    } else {
      const ParameterPlace place(program.tensor(gradient.dense));
      write_values(writer, spec, [&](std::int64_t first, std::span<float> values) { place.read(first, values); });
    }
  }
  writer.finish();
  return {.loss = program.tensor(step.loss).get<float>(),
          .samples = samples,
          .tokens = tokens,
          .loss_terms = batch.loss_terms(),
          .parameters = static_cast<std::int64_t>(tensors.size()) - 2};
}

}  // namespace plimsoll
