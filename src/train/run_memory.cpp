#include "train/run_memory.h"

#include <algorithm>
#include <iterator>

#include "base/bytes.h"
#include "train/moment_rows.h"
#include "transform/distillation.h"
#include "transform/optimizer.h"

namespace plimsoll {

RunMemory::RunMemory(const Session& session, const ModelBundle& bundle) : session_(session), bundle_(bundle) {
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    if (entry.role != Role::kState || !is_optimizer_state(name)) continue;
    (name.ends_with(kSlotsSuffix) ? slot_names_ : state_names_).push_back(name);
  }
  for (const auto& [name, state] : session.plan().offload.states()) state_names_.push_back(name);
  std::sort(state_names_.begin(), state_names_.end());  // a checkpoint does not depend on what is offloaded
  if (session.ranks() != nullptr && session.plan().levers.zero_stage > 0) {
    rank_states_.emplace(session, state_names_);
    state_names_ = rank_states_->names();
  }
  std::ranges::merge(state_names_, slot_names_, std::back_inserter(saved_names_));
  if (!rank_states_) return;
  for (const ParameterSpec& spec : bundle.specs()) {
    const bool trains_split = session.plan().precision == DType::kBF16 && session.plan().shards.has(spec.name) &&
                              session.persistent(spec.name).dtype() == DType::kBF16;
    if (session.keeps_part_of(spec.name) || trains_split) divided_.push_back(spec.name);
  }
}

namespace {

// Rank 0's request to another rank: values of a parameter. Below 0: no more requests.
struct Asked {
  std::int64_t parameter = -1, first = 0, count = 0;
};
// How many values of a part are requested at a time.
constexpr std::int64_t kAskedElements = RankStates::kPieceBytes / sizeof(float);

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

ParameterMemory RunMemory::whole_parameters() const {
  if (divided_.empty()) return parameters();
  return [this](const std::string& name) {
    const auto found = std::ranges::find(divided_, name);
    if (found == divided_.end()) return session_.parameter(name);
    const std::vector<std::int64_t>& bounds = session_.plan().shards.bounds(name);
    const auto read = [this, name, number = found - divided_.begin(), bounds](std::int64_t first,
                                                                              std::span<float> values) {
      Communicator& ranks = *session_.ranks();
      while (!values.empty()) {
        const auto owner = static_cast<int>(std::ranges::upper_bound(bounds, first) - bounds.begin()) - 1;
        const std::int64_t left = bounds[static_cast<std::size_t>(owner) + 1] - first;
        const std::int64_t count = std::min({left, static_cast<std::int64_t>(values.size()), kAskedElements});
        const std::span<float> part = values.first(static_cast<std::size_t>(count));
        if (owner == ranks.rank()) {
          const ParameterPlace own = session_.parameter(name);
          own.read(first - own.first(), part);
        } else {
          Asked asked{.parameter = number, .first = first, .count = count};
          ranks.receive(Communicator::kHostTicket, owner, std::as_writable_bytes(part));
          ranks.send(Communicator::kHostTicket, owner, bytes_of(asked));
          ranks.wait(Communicator::kHostTicket);
        }
        first += count;
        values = values.subspan(part.size());
      }
    };
    return ParameterPlace(bounds.back(), read);
  };
}

void RunMemory::serve_parameters() const {
  if (divided_.empty()) return;
  Communicator& ranks = *session_.ranks();
  std::vector<float> values(static_cast<std::size_t>(kAskedElements));
  for (Asked asked;;) {
    ranks.receive(Communicator::kHostTicket, 0, bytes_of(asked));
    ranks.wait(Communicator::kHostTicket);
    if (asked.parameter < 0) return;
    const ParameterPlace own = session_.parameter(divided_.at(static_cast<std::size_t>(asked.parameter)));
    const std::span<float> part = std::span(values).first(static_cast<std::size_t>(asked.count));
    own.read(asked.first - own.first(), part);
    ranks.send(Communicator::kHostTicket, 0, std::as_bytes(part));
    ranks.wait(Communicator::kHostTicket);
  }
}

void RunMemory::end_serving() const {
  if (divided_.empty()) return;
  Communicator& ranks = *session_.ranks();
  Asked nothing;
  for (int other = 1; other < ranks.size(); ++other) ranks.send(Communicator::kHostTicket, other, bytes_of(nothing));
  ranks.wait(Communicator::kHostTicket);
}

ParameterMemory RunMemory::parameters() const {
  return [this](const std::string& name) { return session_.parameter(name); };
}

StateAccess RunMemory::states() const {
  StateAccess own = {.type = [this](const std::string& name) { return session_.state_type(name); },
                     .read = [this](const std::string& name, const auto& visit) { session_.read_state(name, visit); },
                     .fill = [this](const std::string& name, const auto& visit) { session_.fill_state(name, visit); },
                     .slots = [this](const std::string& parameter) { return slots(parameter); }};
  if (!rank_states_) return own;
  // Every rank has all slots.
  StateAccess access = rank_states_->access();
  access.begin = [this] { end_serving(); };
  access.slots = own.slots;
  access.type = [of_ranks = access.type, own = own.type](const std::string& name) {
    return name.ends_with(kSlotsSuffix) ? own(name) : of_ranks(name);
  };
  access.read = [of_ranks = access.read, own = own.read](const std::string& name, const auto& visit) {
    return name.ends_with(kSlotsSuffix) ? own(name, visit) : of_ranks(name, visit);
  };
  return access;
}

std::vector<std::int32_t> RunMemory::slots(const std::string& parameter) const {
  const std::string name = parameter + std::string(kSlotsSuffix);
  if (std::ranges::find(slot_names_, name) == slot_names_.end()) return {};
  return slots_of(*session_.plan().rows_with_moments, session_.state_type(name).shape.elements());
}

void RunMemory::fill_slots() const {
  for (const std::string& name : slot_names_) {
    const std::vector<std::int32_t> of_rows = slots(name.substr(0, name.size() - kSlotsSuffix.size()));
    std::span<const std::byte> left = std::as_bytes(std::span(of_rows));
    session_.fill_state(name, [&](std::span<std::byte> bytes) {
      std::ranges::copy(left.first(bytes.size()), bytes.begin());
      left = left.subspan(bytes.size());
    });
  }
}

void RunMemory::fill_fresh(std::uint64_t seed) {
  original_ = bundle_.source(seed);
  load_model(bundle_, seed, parameters());
  for (const std::string& name : state_names_) {
    // std::fill sets bytes by memset, std::ranges::fill one by one.
    states().fill(name, [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); });
  }
  fill_slots();
}

void RunMemory::fill_teacher(const ModelBundle& teacher) const {
  const auto name_of = [](const std::string& name) { return std::string(kTeacherPrefix) + name; };
  std::vector<ParameterSpec> specs = teacher.specs();
  std::erase_if(specs, [&](const ParameterSpec& spec) { return !session_.has_persistent(name_of(spec.name)); });
  verify_weights(teacher);
  load_parameters(specs, teacher.source(0), [&](const std::string& name) { return session_.parameter(name_of(name)); });
}

void RunMemory::fill_from(const std::filesystem::path& checkpoint, std::uint64_t seed) {
  load_checkpoint(checkpoint, bundle_, parameters(), state_names_, states());
  fill_slots();
  if (!bundle_.options.lora.enabled()) resumed_ = std::make_shared<WeightsFile>(open_weights(checkpoint));
  original_ = {.weights = resumed_.get(), .seed = seed};
}

void RunMemory::fill_parameters_from(const std::filesystem::path& checkpoint) const {
  load_checkpoint_parameters(checkpoint, bundle_, parameters());
}

WrittenBytes RunMemory::written_bytes(bool only_model) const {
  // Configuration, tokenizer and the run's state: a few MiB at most.
  constexpr std::uint64_t kSmallFiles = 4 * kMiB;
  WrittenBytes written{.checkpoint = 0, .model = kSmallFiles};
  for (const ParameterSpec& spec : bundle_.specs()) {
    if (bundle_.options.lora.enabled() && !spec.in_adapter_file()) continue;
    written.model += static_cast<std::uint64_t>(spec.shape.elements()) * dtype_bytes(DType::kF32);
  }
  std::uint64_t state_bytes = 0;
  for (const std::string& name : saved_names_) state_bytes += states().type(name).bytes();
  written.checkpoint = written.model + (only_model ? 0 : state_bytes);
  // Weights are one file, the optimizer's state another; a run that is interrupted writes both.
  written.largest_file = std::max(written.model - kSmallFiles, state_bytes) + 64 * kKiB;  // the header
  return written;
}

}  // namespace plimsoll
