#include "fit/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tensor/half.h"
#include "transform/optimizer.h"

namespace plimsoll {

namespace {

std::size_t count_tickets(const RunPlan& plan) {
  std::int64_t most = -1;
  for (const PlannedProgram& program : plan.programs) {
    for (const Node& node : program.prepared.graph.nodes()) {
      if (is_transfer(node.op)) most = std::max(most, std::get<TransferAttributes>(node.attributes).ticket);
    }
  }
  return static_cast<std::size_t>(most + 1);
}

// Returns one more than the largest ticket of a collective.
std::int64_t count_exchanges(const RunPlan& plan) {
  std::int64_t count = 1;
  for (const PlannedProgram& program : plan.programs) {
    for (const Node& node : program.prepared.graph.nodes()) {
      if (is_collective(node.op)) count = std::max(count, std::get<CollectiveAttributes>(node.attributes).ticket + 1);
    }
  }
  return count;
}

// `WidenOne` widens a number of two bytes.
template <float (*WidenOne)(std::uint16_t)>
void widen(std::span<const std::byte> narrow, std::span<std::byte> wide) {
  for (std::size_t i = 0; i < narrow.size() / 2; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, narrow.data() + 2 * i, sizeof bits);
    const float value = WidenOne(bits);
    std::memcpy(wide.data() + 4 * i, &value, sizeof value);
  }
}

// Returns what is read from the model's own files, in the order of the places.
std::vector<OutsidePiece> outside_pieces(const OffloadLayout& layout) {
  std::vector<OutsidePiece> pieces;
  for (const auto& [name, parameter] : layout.parameters()) {
    if (!parameter.stored) continue;
    const StoredTensor& stored = *parameter.stored;
    OutsidePiece piece{.offset = parameter.offset,
                       .bytes = parameter.type.bytes(),
                       .file = stored.file,
                       .descriptor = stored.descriptor,
                       .at = stored.offset_bytes};
    if (stored.dtype != parameter.type.dtype) {
      piece.widen = stored.dtype == DType::kBF16 ? widen<bfloat16_to_float> : widen<half_to_float>;
    }
    pieces.push_back(std::move(piece));
  }
  std::ranges::sort(pieces, {}, &OutsidePiece::offset);
  return pieces;
}

}  // namespace

Session::Session(RunPlan plan, Backend& backend, const std::optional<KnownChoices>& known, Communicator* ranks)
    : plan_(std::move(plan)), ranks_(ranks), memory_(backend.allocate(plan_.arena_bytes)) {
  if (ranks_ != nullptr) ranks_->reserve(count_exchanges(plan_));
  if (known) {
    const bool alone = ranks_ == nullptr || memory_->is_host();
    choices_ = alone ? choose(backend, *memory_, *known) : choose_on_ranks(backend, *known);
  }
  if (!plan_.offload.empty()) {
    if (plan_.offload_target == OffloadTarget::kHost) {
      store_ = backend.make_offload_store(plan_.offload.bytes(), count_tickets(plan_));
    } else {
      file_ =
          std::make_unique<OffloadFile>(plan_.offload_directory, plan_.offload.bytes(), outside_pieces(plan_.offload));
      store_ = std::make_unique<TransferQueue>(*file_, count_tickets(plan_));
    }
    stored_.emplace(*store_);
  }
  for (PlannedProgram& program : plan_.programs) {
    programs_.emplace_back(std::move(program.prepared), program.plan, *memory_, store_.get(), ranks_);
    if (!memory_->is_host()) backend.prepare_bounds(programs_.back().row_bounds());
  }
  settle(plan_, backend);
}

// Rank 0 chooses for all: sums have the same last bits whichever rank computes them.
Choices Session::choose_on_ranks(Backend& backend, const KnownChoices& known) const {
  std::string text;
  if (ranks_->rank() == 0) text = choices_json(choose(backend, *memory_, known)).dump();
  text = broadcast_text(*ranks_, text);
  const std::string where = "the choices of rank 0";
  Choices choices = parse_choices(nlohmann::json::parse(text), where);
  if (ranks_->rank() > 0) choose(backend, *memory_, {.recorded = choices, .recorded_in = where, .cache = {}});
  return choices;
}

bool Session::keeps_part_of(const std::string& parameter) const {
  return plan_.levers.zero_stage >= 3 && plan_.shards.divides(parameter);
}

TensorType Session::state_type(const std::string& name) const {
  const auto offloaded = plan_.offload.states().find(name);
  return offloaded != plan_.offload.states().end() ? offloaded->second.type : plan_.layout.at(name).type;
}

std::optional<StepFault> Session::as_in_files(std::optional<StepFault> fault) const {
  if (!fault || plan_.word_rows == nullptr || fault->tensor != plan_.word_table || fault->index.empty()) return fault;
  fault->type.shape = {plan_.vocabulary, fault->type.shape[1]};
  fault->index.front() = plan_.word_rows->at(static_cast<std::size_t>(fault->index.front()));
  return fault;
}

void Session::finish_transfers() const {
  if (store_ != nullptr) store_->drain();
}

void Session::visit_offloaded(const OffloadLayout::State& state, bool fills, const OffloadStore::Visit& visit) const {
  store_->drain();
  for (const OffloadLayout::Piece& piece : state.pieces) store_->visit(piece.offset, piece.bytes, fills, visit);
}

void Session::read_state(const std::string& name, const std::function<void(std::span<const std::byte>)>& visit) const {
  const auto offloaded = plan_.offload.states().find(name);
  if (offloaded != plan_.offload.states().end()) {
    return visit_offloaded(offloaded->second, false, [&](std::span<std::byte> bytes) { visit(bytes); });
  }
  read_in_pieces(persistent(name), visit);
}

void Session::fill_state(const std::string& name, const std::function<void(std::span<std::byte>)>& visit) const {
  const auto offloaded = plan_.offload.states().find(name);
  if (offloaded != plan_.offload.states().end()) return visit_offloaded(offloaded->second, true, visit);
  write_in_pieces(persistent(name), visit);
}

bool Session::has(ProgramKind kind) const {
  for (const PlannedProgram& program : plan_.programs) {
    if (program.kind == kind) return true;
  }
  return false;
}

std::size_t Session::index(ProgramKind kind) const {
  for (std::size_t i = 0; i < plan_.programs.size(); ++i) {
    if (plan_.programs[i].kind == kind) return i;
  }
  check(false, [&] { return fmt::format("the run has no '{}' program", program_kind_name(kind)); });
  return 0;
}

const Program& Session::program(ProgramKind kind) const { return programs_[index(kind)]; }
const PlannedProgram& Session::planned(ProgramKind kind) const { return plan_.programs[index(kind)]; }

ParameterPlace Session::parameter(const std::string& name) const {
  const std::string low = name + std::string(kLowHalfSuffix);
  ParameterPlace place(persistent(name), has_persistent(low) ? persistent(low) : DeviceTensor(),
                       keeps_part_of(name) ? plan_.shards.own(name).first : 0);
  const auto offloaded = plan_.offload.parameters().find(name);
  if (offloaded != plan_.offload.parameters().end()) place.set_stored(offloaded->second.stored);
  return place;
}

bool Session::has_persistent(const std::string& name) const {
  return plan_.layout.entries().contains(name) || plan_.offload.parameters().contains(name);
}

DeviceTensor Session::persistent(const std::string& name) const {
  if (const auto stored = plan_.offload.parameters().find(name); stored != plan_.offload.parameters().end()) {
    return stored_->tensor(stored->second.type, stored->second.offset);
  }
  const PersistentLayout::Entry& entry = plan_.layout.at(name);
  return {TensorView(entry.type, memory_->bytes().data() + entry.offset), *memory_};
}

}  // namespace plimsoll
