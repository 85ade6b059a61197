#include "train/run_memory.h"

#include <algorithm>

#include "base/bytes.h"
#include "transform/optimizer.h"

namespace plimsoll {

RunMemory::RunMemory(const Session& session, const ModelBundle& bundle) : session_(session), bundle_(bundle) {
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    if (entry.role == Role::kState && is_optimizer_state(name)) state_names_.push_back(name);
  }
  for (const auto& [name, state] : session.plan().offload.states()) state_names_.push_back(name);
  std::sort(state_names_.begin(), state_names_.end());  // a checkpoint does not depend on what is offloaded
}

ParameterMemory RunMemory::parameters() const {
  return [this](const std::string& name) { return session_.parameter(name); };
}

StateAccess RunMemory::states() const {
  return {.type = [this](const std::string& name) { return session_.state_type(name); },
          .read = [this](const std::string& name, const auto& visit) { session_.read_state(name, visit); },
          .fill = [this](const std::string& name, const auto& visit) { session_.fill_state(name, visit); }};
}

void RunMemory::fill_fresh(std::uint64_t seed) {
  original_ = bundle_.source(seed);
  load_model(bundle_, seed, parameters());
  for (const std::string& name : state_names_) {
    session_.fill_state(name, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); });
  }
}

void RunMemory::fill_from(const std::filesystem::path& checkpoint, std::uint64_t seed) {
  load_checkpoint(checkpoint, bundle_, parameters(), state_names_, states());
  if (!bundle_.options.lora.enabled()) resumed_ = std::make_shared<WeightsFile>(open_weights(checkpoint));
  original_ = {.weights = resumed_.get(), .seed = seed};
}

void RunMemory::fill_parameters_from(const std::filesystem::path& checkpoint) const {
  load_checkpoint_parameters(checkpoint, bundle_, parameters());
}

WrittenBytes RunMemory::written_bytes(bool only_model) const {
  // Configuration, tokenizer, where the run stands: a few MiB at most.
  constexpr std::uint64_t kSmallFiles = 4 * kMiB;
  WrittenBytes written{.checkpoint = 0, .model = kSmallFiles};
  for (const ParameterSpec& spec : bundle_.specs()) {
    if (bundle_.options.lora.enabled() && !spec.in_adapter_file()) continue;
    written.model += static_cast<std::uint64_t>(spec.shape.elements()) * dtype_bytes(DType::kF32);
  }
  std::uint64_t state_bytes = 0;
  for (const std::string& name : state_names_) state_bytes += session_.state_type(name).bytes();
  written.checkpoint = written.model + (only_model ? 0 : state_bytes);
  // Weights are one file, the optimizer's state another; a run that is interrupted writes both.
  written.largest_file = std::max(written.model - kSmallFiles, state_bytes) + 64 * kKiB;  // its header
  return written;
}

}  // namespace plimsoll
