// The memory of a run: bar, map, and the tables behind them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/bytes.h"
#include "base/counted.h"
#include "report/views.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::json;

const Json& items_of(const RunFacts& run, const char* key) {
  static const Json kNone = Json::array();
  if (!run.plan.is_object()) return kNone;
  const auto found = run.plan.find(key);
  return found != run.plan.end() && found->is_array() ? *found : kNone;
}

// The colour of an item of the plan, by the names that fit gives.
std::string class_of_item(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("frozen")) return "frozen";
  if (has("accumulated gradients")) return "summed";
  if (has("optimizer state")) return "state";
  if (has("parameters")) return "parameter";
  if (has("activations")) return "kept";
  if (has("gradients")) return "gradient";
  if (has("staging") || has("offloaded")) return "offloaded";
  if (has("scratch")) return "scratch";
  if (has("batch")) return "batch";
  return "rest";
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

Json bar_of(const RunFacts& run, const std::string& name, const std::string& key, const ViewLimits& limits) {
  const auto predicted = count_at(run.plan, "predicted_peak_bytes").value_or(0);
  if (predicted == 0) return {};
  const auto budget = count_at(run.plan, "budget_bytes").value_or(0);
  const auto measured = count_at(run.summary, "measured_peak_bytes").value_or(0);
  // A budget far above the run's memory would squeeze the bar into a corner.
  const bool framed = budget > 0 && budget < 3 * predicted;
  const double scale = static_cast<double>(std::max({predicted, framed ? budget : 0, measured}));
  std::string caption = fmt::format("predicted peak {}", format_bytes(predicted));
  if (measured > 0) {
    const double off = static_cast<double>(measured) / static_cast<double>(predicted) - 1;
    caption += fmt::format(", measured {} ({:+.1f} %)", format_bytes(measured), 100 * off);
  }
  if (budget > 0) {
    caption += fmt::format("; {} budget of {}", framed ? "the bar's frame is the" : "of a", format_bytes(budget));
  }
  Json items = Json::array();
  for (const Json& item : items_of(run, "items")) {
    const auto bytes = count_at(item, "bytes").value_or(0);
    if (bytes == 0 || items.size() == 40) continue;
    const std::string label = cut_text(text_at(item, "name"), limits.texts);
    items.push_back({{"name", label},
                     {"kind", class_of_item(label)},
                     {"size", format_bytes(bytes)},
                     {"percent", percent_text(static_cast<double>(bytes) / static_cast<double>(predicted))},
                     {"share", fmt::format("{:.3f}", 100 * static_cast<double>(bytes) / scale)}});
  }
  Json mark;
  if (measured > 0) {
    mark = {{"at", fmt::format("{:.2f}", 100 * static_cast<double>(measured) / scale)},
            {"text", "measured " + format_bytes(measured)}};
  }
  return {{"run", name}, {"key", key}, {"caption", caption}, {"items", std::move(items)}, {"measured", mark}};
}

bool is_alive(const Tensor& tensor, std::int64_t node) { return tensor.begin <= node && node < tensor.end; }

std::uint64_t alive_bytes(const ArenaProgram& program, std::int64_t node) {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : program.tensors) sum += is_alive(tensor, node) ? tensor.bytes : 0;
  return sum;
}

const ArenaProgram* largest_program(const Arena& arena) {
  const auto largest = std::ranges::max_element(arena.programs, {}, &ArenaProgram::transient_bytes);
  return largest == arena.programs.end() ? nullptr : &*largest;
}

std::string node_text(const ArenaProgram& program, std::int64_t node) {
  if (node < 0 || node >= static_cast<std::int64_t>(program.nodes.size())) return "the end";
  return program.nodes[static_cast<std::size_t>(node)].name;
}

// Some tensors as rows, the largest first.
Json tensor_rows(std::vector<const Tensor*> tensors, std::size_t most, const ArenaProgram* program,
                 const ViewLimits& limits) {
  std::ranges::stable_sort(tensors, std::greater(), &Tensor::bytes);
  if (tensors.size() > most) tensors.resize(most);
  Json rows = Json::array();
  for (const Tensor* tensor : tensors) {
    Json row = {cut_text(tensor->name, limits.texts), format_bytes(tensor->bytes), tensor->kind, tensor->lever,
                format_bytes(tensor->offset)};
    if (program != nullptr) {
      row.push_back(cut_text(node_text(*program, tensor->begin), limits.texts));
      row.push_back(cut_text(node_text(*program, tensor->end - 1), limits.texts));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json tables_of(const Arena& arena, const ViewLimits& limits) {
  constexpr std::size_t kRows = 40;
  Json tables = Json::array();
  for (const ArenaProgram& program : arena.programs) {
    std::vector<const Tensor*> alive;
    for (const Tensor& tensor : program.tensors) {
      if (is_alive(tensor, program.peak_node)) alive.push_back(&tensor);
    }
    if (alive.empty()) continue;
    const std::string title = fmt::format(
        "{}: what is alive at its peak, {} in all{}", program.kind,
        format_bytes(alive_bytes(program, program.peak_node)),
        alive.size() > kRows ? fmt::format(" (the largest {} of {})", kRows, counted(alive.size(), "tensor")) : "");
    tables.push_back({{"title", title},
                      {"head", {"tensor", "size", "kind", "lever", "at", "from", "to"}},
                      {"rows", tensor_rows(std::move(alive), kRows, &program, limits)}});
  }
  std::vector<const Tensor*> always;
  for (const Tensor& tensor : arena.persistent) always.push_back(&tensor);
  if (!always.empty()) {
    const std::string title =
        fmt::format("Always in memory, {} in all (the largest {} of {})", format_bytes(arena.persistent_bytes),
                    std::min(always.size(), kRows), counted(always.size(), "tensor"));
    tables.push_back({{"title", title},
                      {"head", {"tensor", "size", "kind", "lever", "at"}},
                      {"rows", tensor_rows(std::move(always), kRows, nullptr, limits)}});
  }
  return tables;
}

std::string map_caption(const RunFacts& run, const Arena& arena, const ViewLimits& limits) {
  std::string text = fmt::format("{} in all", format_bytes(arena.bytes));
  if (arena.persistent_bytes > 0) text += fmt::format(", {} of it always in use", format_bytes(arena.persistent_bytes));
  const ArenaProgram* const largest = largest_program(arena);
  if (largest != nullptr && largest->peak_node >= 0) {
    const ArenaNode& node = largest->nodes.at(static_cast<std::size_t>(largest->peak_node));
    text += fmt::format(". The peak is in {}, at {} ({})", node.phase, cut_text(node.name, limits.texts), node.op);
  }
  text += ". Across: the step's estimated time, where the shortest nodes are widened; up: bytes.";
  std::size_t left_out = 0;
  for (const ArenaProgram& program : arena.programs) {
    left_out += program.tensors.size() - std::min(program.tensors.size(), limits.tensors);
  }
  left_out += arena.persistent.size() - std::min(arena.persistent.size(), limits.tensors);
  if (left_out > 0) text += fmt::format(" The smallest are left out: {}.", counted(left_out, "tensor"));
  if (run.is_plan) text += " Nothing has run yet.";
  return text;
}

// Returns the colours of the map that some tensor has.
Json kinds_of(const Arena& arena) {
  static const std::map<std::string, std::string> kNames = {{"parameter", "parameters"},
                                                            {"frozen", "frozen parameters"},
                                                            {"state", "optimizer state"},
                                                            {"summed", "summed gradients"},
                                                            {"batch", "batch"},
                                                            {"kept", "activations kept for backward"},
                                                            {"brief", "activations needed briefly"},
                                                            {"gradient", "gradients"},
                                                            {"again", "recomputed"},
                                                            {"offloaded", "offloaded"},
                                                            {"scratch", "kernels' scratch"}};
  static constexpr const char* kOrder[] = {"parameter", "frozen",   "state", "summed",    "batch",  "kept",
                                           "brief",     "gradient", "again", "offloaded", "scratch"};
  const auto class_of = [](const Tensor& tensor) -> std::string {
    if (tensor.lever == "recomputed") return "again";
    if (tensor.lever == "offloaded") return "offloaded";
    if (tensor.kind == "frozen parameter") return "frozen";
    if (tensor.kind == "optimizer state") return "state";
    if (tensor.kind == "summed gradient") return "summed";
    if (kNames.contains(tensor.kind)) return tensor.kind;
    return tensor.lever == "kept" ? "kept" : "brief";
  };
  std::set<std::string> seen;
  for (const Tensor& tensor : arena.persistent) seen.insert(class_of(tensor));
  for (const ArenaProgram& program : arena.programs) {
    for (const Tensor& tensor : program.tensors) seen.insert(class_of(tensor));
  }
  Json kinds = Json::array();
  for (const char* name : kOrder) {
    if (seen.contains(name)) kinds.push_back({{"class", name}, {"name", kNames.at(name)}});
  }
  return kinds;
}

// The numbers of names in a list that the page's script holds once.
int number_in(const Json& names, const std::string& name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].get_ref<const std::string&>() == name) return static_cast<int>(i);
  }
  return 0;
}

// Returns the largest tensors, in their order.
std::vector<const Tensor*> largest_of(const std::vector<Tensor>& tensors, std::size_t most) {
  std::vector<const Tensor*> kept;
  for (const Tensor& tensor : tensors) kept.push_back(&tensor);
  if (kept.size() <= most) return kept;
  std::ranges::nth_element(kept, kept.begin() + static_cast<std::ptrdiff_t>(most), std::greater(), &Tensor::bytes);
  kept.resize(most);
  std::ranges::sort(kept);  // pointers into one list: its order
  return kept;
}

Json tensor_facts(const Tensor& tensor, bool lives, const ViewLimits& limits) {
  Json row = {cut_text(tensor.name, limits.texts), number_in(map_kinds(), tensor.kind),
              number_in(map_levers(), tensor.lever), tensor.offset, tensor.bytes};
  if (lives) {
    row.push_back(tensor.begin);
    row.push_back(tensor.end);
  }
  return row;
}

double three_digits(double value) { return value == 0 ? 0 : std::stod(fmt::format("{:.3g}", value)); }

}  // namespace

const Json& map_kinds() {
  static const Json kKinds = {"activation",      "parameter", "frozen parameter", "optimizer state",
                              "summed gradient", "batch",     "gradient",         "scratch"};
  return kKinds;
}
const Json& map_levers() {
  static const Json kLevers = {"brief", "kept", "recomputed", "offloaded"};
  return kLevers;
}
const Json& map_phases() {
  static const Json kPhases = {"forward", "backward", "update"};
  return kPhases;
}

Json memory_view(const std::vector<RunFacts>& runs, const ViewLimits& limits) {
  const std::vector<std::string> names = run_names(runs);
  Json bars = Json::array(), maps = Json::array();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const RunFacts& run = runs[r];
    if (Json bar = bar_of(run, names[r], run_key(r), limits); !bar.is_null()) bars.push_back(std::move(bar));
    if (!run.arena || run.arena->programs.empty()) continue;
    maps.push_back({{"run", names[r]},
                    {"key", run_key(r)},
                    {"index", r},
                    {"caption", map_caption(run, *run.arena, limits)},
                    {"kinds", kinds_of(*run.arena)},
                    {"tables", tables_of(*run.arena, limits)}});
  }
  Json charts = memory_charts(runs);
  if (bars.empty() && maps.empty() && charts.empty()) return {};
  return {{"bars", std::move(bars)}, {"maps", std::move(maps)}, {"charts", std::move(charts)}};
}

Json arena_facts(const RunFacts& run, const ViewLimits& limits) {
  if (!run.arena || run.arena->programs.empty()) return {};
  Json persistent = Json::array(), programs = Json::array();
  for (const Tensor* tensor : largest_of(run.arena->persistent, limits.tensors)) {
    persistent.push_back(tensor_facts(*tensor, false, limits));
  }
  for (const ArenaProgram& program : run.arena->programs) {
    Json nodes = Json::array(), ops = Json::array(), phases = Json::array(), seconds = Json::array();
    for (const ArenaNode& node : program.nodes) {
      nodes.push_back(cut_text(node.name, limits.texts));
      ops.push_back(cut_text(node.op, limits.texts));
      phases.push_back(number_in(map_phases(), node.phase));
      seconds.push_back(three_digits(node.seconds));
    }
    Json tensors = Json::array();
    for (const Tensor* tensor : largest_of(program.tensors, limits.tensors)) {
      tensors.push_back(tensor_facts(*tensor, true, limits));
    }
    programs.push_back({{"kind", program.kind},
                        {"bytes", program.transient_bytes},
                        {"peak", program.peak_node},
                        {"peak_bytes", alive_bytes(program, program.peak_node)},
                        {"nodes", std::move(nodes)},
                        {"ops", std::move(ops)},
                        {"phases", std::move(phases)},
                        {"seconds", std::move(seconds)},
                        {"tensors", std::move(tensors)}});
  }
  return {{"bytes", run.arena->bytes},
          {"persistent_bytes", run.arena->persistent_bytes},
          {"persistent", std::move(persistent)},
          {"programs", std::move(programs)}};
}

}  // namespace plimsoll::report
