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
  if (session.ranks() == nullptr || session.plan().levers.zero_stage == 0) return;
  rank_states_.emplace(session, state_names_);
  state_names_ = rank_states_->names();
}

// What a parameter's low half is without its high one, nobody asks: its owner alone keeps it as it is updated.
void RunMemory::complete_parameters() const {
  if (!rank_states_) return;
  Communicator& ranks = *session_.ranks();
  const Shards& shards = session_.plan().shards;
  for (const auto& [name, entry] : session_.plan().layout.entries()) {
    if (!name.ends_with(kLowHalfSuffix)) continue;
    const std::string parameter = name.substr(0, name.size() - kLowHalfSuffix.size());
    if (!shards.has(parameter)) continue;
    const std::span<std::byte> bytes = session_.persistent(name).host_bytes();
    check(!bytes.empty() || entry.type.bytes() == 0, "ranks keep their parameters in the host's memory");
    const auto part = [&](int rank) {
      const Shards::Range range = shards.range(parameter, rank);
      const std::size_t each = dtype_bytes(entry.type.dtype);
      return bytes.subspan(static_cast<std::size_t>(range.first) * each, static_cast<std::size_t>(range.count) * each);
    };
    for (int other = 0; other < ranks.size(); ++other) {
      if (other == ranks.rank()) continue;
      ranks.receive(Communicator::kHostTicket, other, part(other));
      ranks.send(Communicator::kHostTicket, other, part(ranks.rank()));
    }
    ranks.wait(Communicator::kHostTicket);
  }
}

ParameterMemory RunMemory::parameters() const {
  return [this](const std::string& name) { return session_.parameter(name); };
}

StateAccess RunMemory::states() const {
  if (rank_states_) return rank_states_->access();
  return {.type = [this](const std::string& name) { return session_.state_type(name); },
          .read = [this](const std::string& name, const auto& visit) { session_.read_state(name, visit); },
          .fill = [this](const std::string& name, const auto& visit) { session_.fill_state(name, visit); }};
}

void RunMemory::fill_fresh(std::uint64_t seed) {
  original_ = bundle_.source(seed);
  load_model(bundle_, seed, parameters());
  for (const std::string& name : state_names_) {
    states().fill(name, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); });
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
    if (bundle_.options.lora.enabled() && !spec.trains) continue;  // an adapter leaves them out
    written.model += static_cast<std::uint64_t>(spec.shape.elements()) * dtype_bytes(DType::kF32);
  }
  std::uint64_t state_bytes = 0;
  for (const std::string& name : state_names_) state_bytes += states().type(name).bytes();
  written.checkpoint = written.model + (only_model ? 0 : state_bytes);
  // Weights are one file, the optimizer's state another; a run that is interrupted writes both.
  written.largest_file = std::max(written.model - kSmallFiles, state_bytes) + 64 * kKiB;  // its header
  return written;
}

}  // namespace plimsoll
