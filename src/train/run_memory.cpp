#include "train/run_memory.h"

#include <algorithm>
#include <span>

#include "base/bytes.h"
#include "bundle/adapter.h"
#include "train/moment_rows.h"
#include "transform/distillation.h"
#include "transform/optimizer.h"

namespace plimsoll {

RunMemory::RunMemory(const Session& session, const ModelBundle& bundle) : session_(session), bundle_(bundle) {
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    if (entry.role == Role::kState && is_optimizer_state(name)) state_names_.push_back(name);
  }
  for (const auto& [name, state] : session.plan().offload.states()) state_names_.push_back(name);
  std::sort(state_names_.begin(), state_names_.end());  // a checkpoint does not depend on what is offloaded
  if (session.ranks() != nullptr && session.plan().levers.zero_stage > 0) {
    rank_states_.emplace(session, state_names_);
    state_names_ = rank_states_->names();
  }
  saved_names_ = state_names_;
  if (const std::string table = table_with_slots(); !table.empty()) {
    slots_name_ = table + std::string(kSlotsSuffix);
    saved_names_.insert(std::ranges::upper_bound(saved_names_, slots_name_), slots_name_);
  }
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

std::string RunMemory::table_with_slots() const {
  if (session_.plan().word_rows == nullptr || state_names_.empty()) return {};
  for (const ParameterSpec& spec : bundle_.specs()) {
    if (spec.rows != nullptr && spec.trains) return spec.name;
  }
  return {};
}

std::vector<std::int32_t> RunMemory::slots(const std::string& parameter) const {
  if (slots_name_.empty() || parameter + std::string(kSlotsSuffix) != slots_name_) return {};
  return slots_of(*session_.plan().word_rows, session_.plan().vocabulary);
}

StateAccess RunMemory::own_states() const {
  return {.type = [this](const std::string& name) { return session_.state_type(name); },
          .read = [this](const std::string& name, const auto& visit) { session_.read_state(name, visit); },
          .fill = [this](const std::string& name, const auto& visit) { session_.fill_state(name, visit); }};
}

StateAccess RunMemory::states() const {
  StateAccess access = rank_states_ ? rank_states_->access() : own_states();
  if (rank_states_) access.begin = [this] { end_serving(); };
  if (slots_name_.empty()) return access;
  access.slots = [this](const std::string& parameter) { return slots(parameter); };
  access.type = [this, of_states = access.type](const std::string& name) {
    return name == slots_name_ ? TensorType{DType::kI32, {session_.plan().vocabulary}} : of_states(name);
  };
  access.read = [this, of_states = access.read](const std::string& name, const auto& visit) {
    if (name != slots_name_) return of_states(name, visit);
    const std::vector<std::int32_t> of_rows = slots(name.substr(0, name.size() - kSlotsSuffix.size()));
    visit(std::as_bytes(std::span(of_rows)));
  };
  return access;
}

void RunMemory::fill_fresh(std::uint64_t seed) {
  original_ = bundle_.source(seed);
  load_model(bundle_, seed, parameters());
  original_.table_hash = hash_table(bundle_.specs(), original_);
  begin_from_original();
  for (const std::string& name : state_names_) {
    // std::fill sets bytes by memset, std::ranges::fill one by one.
    states().fill(name, [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); });
  }
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
  take_as_original(checkpoint, seed);
  begin_from_original();
}

void RunMemory::fill_parameters_from(const std::filesystem::path& checkpoint) {
  load_checkpoint_parameters(checkpoint, bundle_, parameters());
  take_as_original(checkpoint, original_.seed);
  begin_from_original();
}

void RunMemory::begin_from_original() {
  first_ = original_;
  first_file_ = original_file_;
  decays_.clear();
  noted_at_ = 0;
}

void RunMemory::take_as_original(const std::filesystem::path& checkpoint, std::uint64_t seed) {
  if (bundle_.options.lora.enabled()) {
    original_file_ = open_adapter(checkpoint, bundle_.definition()).weights;
    original_ = bundle_.source(seed);
    original_.adapter = original_file_.get();
  } else {
    original_file_ = std::make_shared<WeightsFile>(open_weights(checkpoint));
    original_ = {.weights = original_file_.get(), .seed = seed};
  }
  original_.table_hash = hash_table(bundle_.specs(), original_);
}

void RunMemory::expect_updates(std::int64_t updates) {
  if (notes_updates() && updates > 0) decays_.reserve(static_cast<std::size_t>(updates));
}

void RunMemory::note_update(double learning_rate) {
  if (!notes_updates()) return;
  const RunPlan& plan = session_.plan();
  // As every backend computes it.
  const double rate = plan.word_rate_factor * double{static_cast<float>(learning_rate)};
  decays_.push_back(static_cast<float>(1.0 - rate * plan.word_decay));
  original_.decays = std::span(decays_).subspan(noted_at_);
}

void RunMemory::note_checkpoint(const std::filesystem::path& checkpoint) {
  if (!notes_updates()) return;
  take_as_original(checkpoint, original_.seed);
  noted_at_ = decays_.size();
}

bool RunMemory::fall_back() {
  if (noted_at_ == 0) return false;
  original_ = first_;
  original_file_ = first_file_;
  noted_at_ = 0;
  original_.decays = decays_;
  return true;
}

WrittenBytes RunMemory::written_bytes(bool only_model) const {
  // Configuration, tokenizer and the run's state: a few MiB at most.
  constexpr std::uint64_t kSmallFiles = 4 * kMiB;
  WrittenBytes written{.checkpoint = 0, .model = kSmallFiles};
  for (const ParameterSpec& spec : bundle_.specs()) {
    if (bundle_.options.lora.enabled() && !spec.in_adapter_file()) continue;
    written.model += static_cast<std::uint64_t>(spec.file_shape.elements()) * dtype_bytes(DType::kF32);
  }
  std::uint64_t state_bytes = 0;
  for (const std::string& name : saved_names_) state_bytes += states().type(name).bytes();
  written.checkpoint = written.model + (only_model ? 0 : state_bytes);
  // Weights are one file, the optimizer's state another; a run that is interrupted writes both.
  written.largest_file = std::max(written.model - kSmallFiles, state_bytes) + 64 * kKiB;  // the header
  return written;
}

}  // namespace plimsoll
