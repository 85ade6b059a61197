#include "cli/doctor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/counted.h"
#include "doctor/advice.h"

namespace plimsoll {

using namespace doctor;

namespace {

constexpr std::size_t kWidth = 100;

// Wraps at blanks; every line after the first begins with `indent` blanks. A word too long for a line is not broken.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string quote(const Evidence& evidence) { return fmt::format("    {:>6}: {}\n", evidence.line, evidence.text); }

void say(std::string& out, const char* head, std::string_view text) {
  if (!text.empty()) out += fmt::format("{:<12}{}\n", head, wrapped(text, 12));
}

// Writes one per line, numbered if there are several, because they are ranked.
void say_list(std::string& out, const char* head, std::span<const std::string> list) {
  if (list.size() == 1) return say(out, head, list.front());
  for (std::size_t i = 0; i < list.size(); ++i)
    out += fmt::format("{:<12}{}\n", i == 0 ? head : "", wrapped(fmt::format("{}. {}", i + 1, list[i]), 15));
}

nlohmann::json evidence_json(std::span<const Evidence> evidence) {
  nlohmann::json list = nlohmann::json::array();
  for (const Evidence& one : evidence) list.push_back({{"line", one.line}, {"text", one.text}});
  return list;
}

void put(nlohmann::json& object, const char* name, const std::optional<std::uint64_t>& bytes) {
  if (bytes) object[name] = *bytes;
}

nlohmann::json numbers_json(const OomNumbers& n) {
  nlohmann::json object = nlohmann::json::object();
  put(object, "tried_bytes", n.tried);
  put(object, "total_bytes", n.total);
  put(object, "free_bytes", n.free);
  put(object, "process_bytes", n.process);
  put(object, "allocated_bytes", n.allocated);
  put(object, "reserved_bytes", n.reserved);
  put(object, "unallocated_bytes", n.unallocated);
  put(object, "others_bytes", n.others);
  put(object, "resident_bytes", n.resident);
  return object;
}

std::string block_text(const LiveBlock& block) {
  std::string out = fmt::format("    {:>10}  {}{}\n", format_bytes(block.bytes), memory_kind_name(block.kind),
                                block.count > 1 ? fmt::format(", {} of them", block.count) : "");
  for (const std::string& frame : block.frames) out += fmt::format("                  {}\n", printable(frame));
  return out;
}
nlohmann::json block_json(const LiveBlock& block) {
  return {
      {"bytes", block.bytes}, {"count", block.count}, {"kind", memory_kind_name(block.kind)}, {"frames", block.frames}};
}
std::string kinds_text(const std::uint64_t (&kinds)[kMemoryKinds]) {
  std::string out;
  for (int i = 0; i < kMemoryKinds; ++i) {
    if (kinds[i] > 0)
      out += fmt::format("    {:<28}{:>10}\n", memory_kind_name(static_cast<MemoryKind>(i)), format_bytes(kinds[i]));
  }
  return out;
}
nlohmann::json kinds_json(const std::uint64_t (&kinds)[kMemoryKinds]) {
  nlohmann::json object = nlohmann::json::object();
  for (int i = 0; i < kMemoryKinds; ++i) object[memory_kind_name(static_cast<MemoryKind>(i))] = kinds[i];
  return object;
}

std::string device_text(const SnapshotDevice& d) {
  std::string out =
      fmt::format("device {}: {} alive in {}; {} reserved in {}\n", d.device, format_bytes(d.live_bytes),
                  counted(d.live_blocks, "block"), format_bytes(d.reserved_bytes), counted(d.segments, "segment"));
  if (d.refused_bytes) out += fmt::format("  an allocation of {} failed\n", format_bytes(*d.refused_bytes));
  if (d.events > 0) {
    out += fmt::format("  peak {} at event {} of {}; by what allocated it:\n{}", format_bytes(d.peak_bytes),
                       d.peak_event, d.events, kinds_text(d.peak_kinds));
    out += "  largest blocks at the peak:\n";
    for (const LiveBlock& block : d.peak_largest) out += block_text(block);
  } else {
    out += "  no trace of allocations (call torch.cuda.memory._record_memory_history() first): no peak, no growth\n";
  }
  out += fmt::format("  alive at the end, by what allocated it:\n{}", kinds_text(d.kinds));
  if (d.events == 0) {
    out += "  largest blocks:\n";
    for (const LiveBlock& block : d.largest) out += block_text(block);
  }
  out += fmt::format(
      "  fragmentation: {} between live blocks (largest gap {}), {} in free segments, {} lost to rounding\n",
      format_bytes(d.between_bytes), format_bytes(d.largest_gap_bytes), format_bytes(d.spare_bytes),
      format_bytes(d.rounding_bytes));
  if (d.between_bytes * 10 > d.reserved_bytes) {
    out += "    over a tenth of what is reserved lies in gaps: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n";
  }
  if (d.events > 0 && d.steps < 4) {
    out += fmt::format("  growth: the trace holds {}; at least 4 are needed to tell\n", counted(d.steps, "step"));
  } else if (d.events > 0 && d.growing.empty()) {
    out += fmt::format("  growth: nothing grows over the {} of the trace\n", counted(d.steps, "step"));
  }
  for (const GrowingSite& site : d.growing) {
    out += fmt::format("  grows from step to step: {} -> {}, {} alive, over {}; one of them:\n{}",
                       format_bytes(site.first_bytes), format_bytes(site.last_bytes), counted(site.blocks, "block"),
                       counted(d.steps, "step"), block_text(site.block));
  }
  if (!d.growing.empty()) {
    out +=
        "    something keeps these tensors: a loss added up without .item(), outputs in a list, a hook's closure. Use "
        ".item() or\n"
        "    .detach().cpu(), or delete them at the end of the step.\n";
  }
  return out;
}

}  // namespace

std::string environment_text(std::span<const Check> checks) {
  std::string out;
  for (const Check& check : checks) {
    out += fmt::format("{:<9}{:<15}{}\n", state_name(check.state), check.topic, wrapped(check.found, 24));
    if (!check.remedy.empty()) out += fmt::format("{:24}to do: {}\n", "", wrapped(check.remedy, 24));
  }
  const auto count = [&](State state) {
    return std::count_if(checks.begin(), checks.end(), [&](const Check& check) { return check.state == state; });
  };
  return out + fmt::format("{} ok, {}, {} broken", count(State::kOk), counted(count(State::kWarning), "warning"),
                           count(State::kBroken));
}

nlohmann::json environment_json(std::span<const Check> checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& check : checks) {
    list.push_back({{"topic", check.topic},
                    {"state", state_name(check.state)},
                    {"found", check.found},
                    {"remedy", check.remedy},
                    {"needed", check.needed}});
  }
  return {{"checks", list}};
}

std::string diagnosis_text(const Diagnosis& d, const std::string& name) {
  std::string out, also;
  if (!d.others.empty()) also = "also seen\n";
  for (const Finding& other : d.others)
    also += fmt::format("    {:>6}: {} ({})\n", other.trigger.line, other.rule->what, other.rule->name);
  if (d.no_failure) {
    out = fmt::format("no failure found in {} ({}): ", name, counted(d.lines, "line"));
    if (d.others.empty()) return out + "it shows training and no error";
    return out + "none of what is listed here ended the run\n" + also.substr(0, also.size() - 1);
  }
  if (d.rule == nullptr) {
    out = fmt::format("not recognised: Plimsoll knows no failure that explains {} ({})\n", name,
                      counted(d.lines, "line"));
    if (!d.errors.empty()) {
      out += "errors in it:\n";
      for (const Evidence& evidence : d.errors) out += quote(evidence);
    }
    return out + also +
           "pass the whole log, standard error included (2>&1); CUDA_LAUNCH_BLOCKING=1 makes CUDA name the right line";
  }
  const Rule& rule = *d.rule;
  say(out, "what", (d.doubt.empty() ? "" : "perhaps: ") + headline(d));
  say(out, "but", d.doubt);
  if (d.unexplained) out += quote(*d.unexplained);
  say(out, "message", d.ending.text);
  say(out, "where", d.ending.where);
  out += "evidence\n";
  for (const Evidence& evidence : d.evidence) out += quote(evidence);
  const std::vector<std::string> numbers = meanings(d);
  if (!numbers.empty()) {
    out += "numbers\n";
    for (const std::string& line : numbers) out += "    " + line + "\n";
  }
  say_list(out, "cause", causes(d));
  say(out, "confirm", confirmation(d));
  say_list(out, "fix", fixes(d));
  say(out, "note", note(d));
  say(out, "plimsoll", command(d));
  return out + also + fmt::format("({}; {} of {})", rule.name, counted(d.lines, "line"), name);
}

nlohmann::json diagnosis_json(const Diagnosis& d) {
  nlohmann::json others = nlohmann::json::array();
  for (const Finding& other : d.others)
    others.push_back({{"rule", other.rule->name}, {"what", other.rule->what}, {"line", other.trigger.line}});
  nlohmann::json object = {{"recognised", d.rule != nullptr},
                           {"no_failure", d.no_failure},
                           {"lines", d.lines},
                           {"bytes", d.bytes},
                           {"others", others}};
  if (d.rule == nullptr) {
    object["errors"] = evidence_json(d.errors);
    return object;
  }
  object["doubtful"] = !d.doubt.empty();
  object["doubt"] = d.doubt;
  if (d.unexplained) object["errors"] = evidence_json(std::span(&*d.unexplained, 1));
  object.update({{"rule", d.rule->name},
                 {"what", headline(d)},
                 {"message", d.ending.text},
                 {"where", d.ending.where},
                 {"evidence", evidence_json(d.evidence)},
                 {"numbers", numbers_json(d.numbers)},
                 {"meaning", meanings(d)},
                 {"causes", causes(d)},
                 {"confirm", confirmation(d)},
                 {"fixes", fixes(d)},
                 {"note", note(d)},
                 {"command", command(d)}});
  return object;
}

std::string snapshot_text(const Snapshot& snapshot) {
  if (snapshot.devices.empty()) return "the snapshot is empty: no memory was reserved on any device";
  std::string out;
  for (const SnapshotDevice& device : snapshot.devices) out += device_text(device);
  out.pop_back();
  return out;
}

nlohmann::json snapshot_json(const Snapshot& snapshot) {
  nlohmann::json devices = nlohmann::json::array();
  for (const SnapshotDevice& d : snapshot.devices) {
    nlohmann::json largest = nlohmann::json::array(), peak = nlohmann::json::array(), growing = nlohmann::json::array();
    for (const LiveBlock& block : d.largest) largest.push_back(block_json(block));
    for (const LiveBlock& block : d.peak_largest) peak.push_back(block_json(block));
    for (const GrowingSite& site : d.growing) {
      growing.push_back({{"first_bytes", site.first_bytes},
                         {"last_bytes", site.last_bytes},
                         {"blocks", site.blocks},
                         {"block", block_json(site.block)}});
    }
    nlohmann::json device = {{"device", d.device},
                             {"segments", d.segments},
                             {"reserved_bytes", d.reserved_bytes},
                             {"live_bytes", d.live_bytes},
                             {"live_blocks", d.live_blocks},
                             {"between_bytes", d.between_bytes},
                             {"spare_bytes", d.spare_bytes},
                             {"largest_gap_bytes", d.largest_gap_bytes},
                             {"rounding_bytes", d.rounding_bytes},
                             {"kinds", kinds_json(d.kinds)},
                             {"largest", largest},
                             {"events", d.events},
                             {"steps", d.steps},
                             {"peak_bytes", d.peak_bytes},
                             {"peak_event", d.peak_event},
                             {"peak_kinds", kinds_json(d.peak_kinds)},
                             {"peak_largest", peak},
                             {"growing", growing}};
    if (d.refused_bytes) device["refused_bytes"] = *d.refused_bytes;
    devices.push_back(std::move(device));
  }
  return {{"devices", devices}};
}

}  // namespace plimsoll
