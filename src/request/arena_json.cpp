#include "request/arena_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "formats/json.h"
#include "model/grad_cache.h"
#include "transform/optimizer.h"

namespace plimsoll {
namespace {

// Names come from models' files and are written as JSON text.
std::string json_string(std::string_view text) { return json_text(nlohmann::json(text)); }

// A session's programs own the graphs that their plans were made from.
struct ArenaProgram {
  const PlannedProgram& planned;
  const Graph& graph;
};
using ArenaPrograms = std::vector<ArenaProgram>;

// Returns the parameters that some program changes; the others are frozen.
std::set<std::string> trained_names(const ArenaPrograms& programs) {
  std::set<std::string> names;
  for (const ArenaProgram& program : programs) {
    for (const Value& value : program.graph.values()) {
      if (value.role == Role::kParameter && value.producer != kNoNode) names.insert(value.name);
    }
  }
  return names;
}

void write_persistent(const RunPlan& plan, const ArenaPrograms& programs, const TextSink& write) {
  const std::set<std::string> trained = trained_names(programs);
  const bool trains =
      std::ranges::any_of(plan.programs, [](const auto& each) { return each.kind != ProgramKind::kEvaluate; });
  const char* comma = "";
  for (const auto& [name, entry] : plan.layout.entries()) {
    const bool is_parameter = entry.role == Role::kParameter || name.ends_with(kLowHalfSuffix);
    const bool sums = name.find(".gradient") != std::string::npos || name == kEmbeddingTable;
    const char* kind = !is_parameter && sums                                                 ? "summed gradient"
                       : !is_parameter                                                       ? "optimizer state"
                       : trains && entry.role == Role::kParameter && !trained.contains(name) ? "frozen parameter"
                                                                                             : "parameter";
    write(fmt::format("{}\n[{},\"{}\",\"kept\",{},{}]", comma, json_string(name), kind, entry.offset,
                      round_up(entry.type.bytes(), kAlignmentBytes)));
    comma = ",";
  }
}

class ProgramWriter {
 public:
  ProgramWriter(const ArenaProgram& program, const OpSpeeds& speeds, const TextSink& write)
      : graph_(program.graph), plan_(program.planned.plan), speeds_(speeds), write_(write) {
    for (const Node& node : graph_.nodes()) {
      if (node.name.ends_with(kAgain)) again_.insert(node.name.substr(0, node.name.size() - kAgain.size()));
    }
  }

  void write_nodes() const {
    const char* comma = "";
    TransferTimes transfers(speeds_);
    double now = 0;  // since the program's first node
    for (const Node& node : graph_.nodes()) {
      const double seconds = is_transfer(node.op) ? transfers.waited(node, now) : speeds_.seconds(graph_, node);
      now += seconds;
      write_(fmt::format("{}\n[{},\"{}\",\"{}\",{:.3g}]", comma, json_string(node.name), op_name(node.op),
                         phase_name(node.phase), seconds));
      comma = ",";
    }
  }

  void write_tensors() const {
    const char* comma = "";
    for (const Buffer& buffer : plan_.buffers) {
      write_(fmt::format("{}\n[{},\"{}\",\"{}\",{},{},{},{}]", comma, json_string(buffer.name), kind_of(buffer),
                         lever_of(buffer), offset_of(buffer), buffer.life.bytes, buffer.life.begin, buffer.life.end));
      comma = ",";
    }
  }

 private:
  static constexpr std::string_view kAgain = ".again";  // transform/recompute.h
  static constexpr std::string_view kPart = ".part";    // for an update whose states are offloaded

  static const char* kind_of(const Buffer& buffer) {
    if (buffer.scratch_of != kNoNode) return "scratch";
    if (buffer.role == Role::kInput) return "batch";
    if (buffer.staging && buffer.name.find(kPart) != std::string::npos) return "optimizer state";
    return buffer.role == Role::kActivation ? "activation" : "gradient";
  }

  std::size_t offset_of(const Buffer& buffer) const {
    return buffer.scratch_of != kNoNode ? plan_.scratch_offsets.at(static_cast<std::size_t>(buffer.scratch_of))
                                        : plan_.value_offsets.at(static_cast<std::size_t>(buffer.values.front()));
  }

  bool is_recomputed(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    if (producer == kNoNode) return false;
    const std::string& name = graph_.node(producer).name;
    return name.ends_with(kAgain) || again_.contains(name);
  }
  bool is_stored(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    return producer != kNoNode && graph_.node(producer).op == Op::kStoreBegin;
  }

  const char* lever_of(const Buffer& buffer) const {
    const auto any = [&](auto is) { return std::ranges::any_of(buffer.values, is); };
    if (buffer.staging || any([&](ValueId id) { return is_stored(id); })) return "offloaded";
    if (any([&](ValueId id) { return is_recomputed(id); })) return "recomputed";
    return phase_at(buffer.life.begin) == phase_at(buffer.life.end - 1) ? "brief" : "kept";
  }
  Phase phase_at(std::int64_t time) const {
    const auto nodes = static_cast<std::int64_t>(graph_.nodes().size());
    return nodes == 0 ? Phase::kForward
                      : graph_.node(static_cast<NodeId>(std::clamp<std::int64_t>(time, 0, nodes - 1))).phase;
  }

  const Graph& graph_;
  const MemoryPlan& plan_;
  const OpSpeeds& speeds_;
  const TextSink& write_;
  std::set<std::string> again_;  // nodes that backward computes again
};

void write_all(const RunPlan& plan, const ArenaPrograms& programs, const OpSpeeds& speeds, const TextSink& write) {
  write(fmt::format("{{\"version\":1,\"arena_bytes\":{},\"persistent_bytes\":{},\"persistent\":[", plan.arena_bytes,
                    plan.layout.bytes()));
  write_persistent(plan, programs, write);
  write("],\"programs\":[");
  const char* comma = "";
  for (const ArenaProgram& program : programs) {
    const PlannedProgram& planned = program.planned;
    write(fmt::format("{}\n{{\"kind\":\"{}\",\"runs\":{},\"transient_bytes\":{},\"peak_node\":{},\"nodes\":[", comma,
                      program_kind_name(planned.kind), runs_per_update(plan, planned.kind),
                      planned.plan.transient_bytes, planned.plan.peak_node));
    const ProgramWriter writer(program, speeds, write);
    writer.write_nodes();
    write("],\"tensors\":[");
    writer.write_tensors();
    write("]}");
    comma = ",";
  }
  write("]}\n");
}

}  // namespace

void write_arena(const RunPlan& plan, const OpSpeeds& speeds, const TextSink& write) {
  ArenaPrograms programs;
  for (const PlannedProgram& planned : plan.programs) programs.push_back({planned, planned.prepared.graph});
  write_all(plan, programs, speeds, write);
}

void write_arena(const Session& session, const OpSpeeds& speeds, const TextSink& write) {
  ArenaPrograms programs;
  for (const PlannedProgram& planned : session.plan().programs) {
    programs.push_back({planned, session.program(planned.kind).graph()});
  }
  write_all(session.plan(), programs, speeds, write);
}

void write_arena_file(const Session& session, const OpSpeeds& speeds, const std::filesystem::path& path) {
  write_text_parts(path, [&](const TextSink& write) { write_arena(session, speeds, write); });
}

}  // namespace plimsoll
