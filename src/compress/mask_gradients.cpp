#include "compress/mask_gradients.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/error.h"
#include "train/batch_binding.h"

namespace plimsoll {

std::int64_t measure_mask_gradients(const Session& session, const WindowPass& pass, std::vector<WeighedUnits>& groups) {
  const Program& program = session.program(ProgramKind::kGradients);
  const PlannedProgram& planned = session.planned(ProgramKind::kGradients);
  check(planned.capacity.samples == 1, "gradients are those of single windows");
  std::optional<BatchBinding> binding;
  std::int64_t windows = 0;
  std::vector<float> columns;
  pass.run(planned.capacity.text_rows, [&](const Batch& batch) {
    if (!binding) binding.emplace(program, batch, session.plan().word_rows);
    binding->copy(batch);
    binding->set_loss_scale(static_cast<float>(1 / batch.loss_weight()));
    binding->set_dropout_key({0, 0});
    program.run();
    if (!std::isfinite(program.tensor(planned.loss).get<float>())) {
      throw DivergedError(
          {.what = "the model's loss is NaN or infinite",
           .where = pass.bundle->origin,
           .found = fmt::format("on {}", place(pass.dataset->source().read(batch.references()[0].page))),
           .allowed = "finite numbers",
           .remedy = "prune an earlier checkpoint, whose weights have not overflowed"});
    }
    for (WeighedUnits& group : groups) {
      if (!group.units.used) continue;
      const auto units = static_cast<std::size_t>(group.units.units);
      const std::size_t first = group.gradients.size();
      group.gradients.resize(first + units, 0);
      for (const PrunableUnits::Stream& stream : group.units.streams) {
        const ValueId mask = program.graph().find_source(mask_name(stream.consumer));
        const auto gradient = planned.gradients.find(mask);
        if (mask == kNoValue || gradient == planned.gradients.end()) continue;  // a stream that is never computed
        const DeviceTensor tensor = program.tensor(gradient->second.dense);
        columns.resize(static_cast<std::size_t>(tensor.elements()));
        tensor.read(std::as_writable_bytes(std::span(columns)));
        // A unit's factor multiplies all its columns.
        const auto width = static_cast<std::size_t>(stream.width);
        for (std::size_t c = 0; c < columns.size(); ++c) group.gradients[first + c / width] += columns[c];
      }
    }
    ++windows;
  });
  return windows;
}

}  // namespace plimsoll
