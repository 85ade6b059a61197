#include "doctor/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/pickle.h"

namespace plimsoll::doctor {
namespace {

using Kind = PickleValue::Kind;
using StackId = std::uint32_t;

constexpr std::size_t kShownFrames = 6;
constexpr std::size_t kMaxSamples = 32;
// The most keys of a dictionary that are read; those that PyTorch writes have about ten.
constexpr std::size_t kMaxKeys = 64;
// Fewer steps than this cannot show what grows.
constexpr std::uint64_t kMinSteps = 4;

struct Stack {
  MemoryKind kind = MemoryKind::kNoFrames;
  std::vector<std::string> frames{};
};

struct Event {
  enum class Action { kAllocate, kFree, kRefused } action = Action::kAllocate;
  std::uint64_t address = 0, bytes = 0;
  StackId stack = 0;
};

struct Block {
  std::uint64_t address = 0, bytes = 0, requested = 0;
  StackId stack = 0;
};

bool any_of(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

class Reader {
 public:
  Reader(const Pickle& pickle, std::string where, std::size_t largest)
      : pickle_(pickle), where_(std::move(where)), largest_(largest) {
    stacks_.emplace_back();
    stack_ids_[{}] = 0;
  }

  Snapshot read() {
    const PickleValue& root = pickle_[pickle_.root()];
    // Until 1.13 a snapshot was only the list of segments.
    const PickleValue* segments = root.kind == Kind::kList   ? &root
                                  : root.kind == Kind::kDict ? get(root, "segments")
                                                             : nullptr;
    if (segments == nullptr || !is_list(*segments))
      refuse("the file holds no memory snapshot", "a dictionary with 'segments'");
    for (const PickleRef ref : segments->items) read_segment(pickle_[ref]);
    const PickleValue* traces = root.kind == Kind::kDict ? get(root, "device_traces") : nullptr;
    if (traces != nullptr && is_list(*traces)) {
      for (std::size_t i = 0; i < traces->items.size(); ++i) {
        const PickleValue& trace = pickle_[traces->items[i]];
        if (is_list(trace) && !trace.items.empty()) replay(static_cast<std::int64_t>(i), read_trace(trace));
      }
    }
    Snapshot snapshot;
    for (auto& [device, report] : devices_) {
      report.device = device;
      report.largest = largest_of(blocks_[device]);
      snapshot.devices.push_back(std::move(report));
    }
    return snapshot;
  }

 private:
  [[noreturn]] void refuse(std::string what, std::string allowed) const {
    throw DataError({.what = std::move(what),
                     .where = where_,
                     .allowed = std::move(allowed),
                     .remedy = "make one with torch.cuda.memory._record_memory_history() before and "
                               "torch.cuda.memory._dump_snapshot('snapshot.pickle') after the steps in question"});
  }

  static bool is_list(const PickleValue& value) { return value.kind == Kind::kList || value.kind == Kind::kTuple; }
  const PickleValue* get(const PickleValue& dict, std::string_view name) const {
    if (dict.kind != Kind::kDict) return nullptr;
    if (dict.pairs.size() > 2 * kMaxKeys)
      refuse("a dictionary is wider than any of a snapshot", counted(kMaxKeys, "key"));
    for (std::size_t i = 0; i + 1 < dict.pairs.size(); i += 2) {
      const PickleValue& key = pickle_[dict.pairs[i]];
      if (key.kind == Kind::kText && key.text == name) return &pickle_[dict.pairs[i + 1]];
    }
    return nullptr;
  }
  std::uint64_t size(const PickleValue& dict, std::string_view name) const {
    const PickleValue* const value = get(dict, name);
    if (value != nullptr && value->kind == Kind::kInteger && value->integer < 0) {
      refuse("a size in the snapshot is negative", "a number of bytes");
    }
    return number(dict, name);
  }
  // Reads addresses and places; 0 if absent or negative.
  std::uint64_t number(const PickleValue& dict, std::string_view name) const {
    const PickleValue* value = get(dict, name);
    return value == nullptr || value->kind != Kind::kInteger || value->integer < 0
               ? 0
               : static_cast<std::uint64_t>(value->integer);
  }
  std::string_view text(const PickleValue& dict, std::string_view name) const {
    const PickleValue* value = get(dict, name);
    return value == nullptr || value->kind != Kind::kText ? std::string_view() : std::string_view(value->text);
  }
  // Adds sizes from a possibly hostile file without overflow.
  void add(std::uint64_t& sum, std::uint64_t bytes) const {
    if (__builtin_add_overflow(sum, bytes, &sum)) refuse("sizes in the snapshot make no sense", "bytes of one device");
  }

  // Segments, blocks and events must be separate values. Otherwise a file could refer to one of them many times, two
  // bytes each, in nested lists that take hours to walk.
  void visit() {
    if (++visited_ > pickle_.size()) refuse("the snapshot repeats itself", "a value for each block and each event");
  }

  StackId stack_of(const PickleValue* frames) {
    if (frames == nullptr || !is_list(*frames)) return 0;
    const auto known = lists_.find(frames);
    if (known != lists_.end()) return known->second;
    const auto place = stack_ids_.find(frames->items);
    if (place != stack_ids_.end()) return lists_[frames] = place->second;
    Stack stack;
    bool optimizer = false, backward = false, weights = false, forward = false, inputs = false;
    for (const PickleRef ref : frames->items) {
      const PickleValue& frame = pickle_[ref];
      const std::string_view file = text(frame, "filename"), name = text(frame, "name");
      if (any_of(file, {"/optim/", "\\optim\\", "bitsandbytes/optim"})) optimizer = true;
      if (any_of(name, {"backward"})) backward = true;
      if (any_of(name, {"from_pretrained", "load_state_dict", "_load_state", "_load_pretrained_model",
                        "set_module_tensor_to_device", "caching_allocator_warmup"}) ||
          (name == "_apply" || name == "convert") || (name == "__init__" && any_of(file, {"nn/modules/"}))) {
        weights = true;
      }
      if (name == "forward" || any_of(name, {"_call_impl"})) forward = true;
      if (any_of(name,
                 {"pin_memory", "_prepare_input", "collate", "send_to_device", "__next__", "prefetch", "preload"}))
        inputs = true;
      // Python's internal frames are not informative.
      if (any_of(name, {"_call_impl", "decorate_context", "_run_module_as_main", "<module>"}) &&
          !stack.frames.empty() && !any_of(name, {"<module>"}))
        continue;
      if (stack.frames.size() == kShownFrames || any_of(name, {"_call_impl"})) continue;
      const std::size_t slash = file.find("site-packages/");
      std::string_view shown = slash == std::string_view::npos ? file : file.substr(slash + 14);
      if (shown.size() > 120) shown.remove_prefix(shown.size() - 120);
      if (file != "??")
        stack.frames.push_back(fmt::format("{}:{} {}", shown, number(frame, "line"), name.substr(0, 80)));
    }
    if (!stack.frames.empty()) {
      stack.kind = optimizer  ? MemoryKind::kOptimizer
                   : backward ? MemoryKind::kBackward
                   : weights  ? MemoryKind::kWeights
                   : forward  ? MemoryKind::kActivations
                   : inputs   ? MemoryKind::kInputs
                              : MemoryKind::kOther;
    }
    stacks_.push_back(std::move(stack));
    const auto id = static_cast<StackId>(stacks_.size() - 1);
    stack_ids_.emplace(frames->items, id);
    return lists_[frames] = id;
  }

  void read_segment(const PickleValue& segment) {
    visit();
    const PickleValue* blocks = get(segment, "blocks");
    if (blocks == nullptr || !is_list(*blocks)) refuse("a segment of the snapshot has no blocks", "a list of blocks");
    const auto device = static_cast<std::int64_t>(number(segment, "device"));
    SnapshotDevice& report = devices_[device];
    ++report.segments;
    add(report.reserved_bytes, size(segment, "total_size"));
    std::uint64_t address = number(segment, "address"), gaps = 0, live = 0;
    for (const PickleRef ref : blocks->items) {
      visit();
      const PickleValue& value = pickle_[ref];
      Block block{number(value, "address"), size(value, "size"), size(value, "requested_size"), 0};
      if (block.address == 0) block.address = address;  // until 2.0 blocks had none
      address = block.address + block.bytes;
      if (!text(value, "state").starts_with("active")) {
        add(gaps, block.bytes);
        report.largest_gap_bytes = std::max(report.largest_gap_bytes, block.bytes);
        continue;
      }
      const PickleValue* frames = get(value, "frames");
      if (const PickleValue* history = get(value, "history");
          frames == nullptr && history != nullptr && is_list(*history) && !history->items.empty()) {
        frames = get(pickle_[history->items.front()], "frames");  // 1.13 and 2.0
        if (block.requested == 0) block.requested = size(pickle_[history->items.front()], "real_size");
      }
      block.stack = stack_of(frames);
      if (block.requested == 0 || block.requested > block.bytes) block.requested = block.bytes;
      ++report.live_blocks;
      ++live;
      add(report.live_bytes, block.bytes);
      report.rounding_bytes += block.bytes - block.requested;
      report.kinds[static_cast<int>(stacks_[block.stack].kind)] += block.bytes;
      blocks_[device].push_back(block);
    }
    add(live > 0 ? report.between_bytes : report.spare_bytes, gaps);
  }

  std::vector<Event> read_trace(const PickleValue& trace) {
    std::vector<Event> events;
    for (const PickleRef ref : trace.items) {
      visit();
      const PickleValue& value = pickle_[ref];
      const std::string_view action = text(value, "action");
      Event event{Event::Action::kAllocate, number(value, "addr"), number(value, "size"), 0};
      // The address has had two names: "addr" in newer versions, "address" in some.
      if (event.address == 0) event.address = number(value, "address");
      if (action == "alloc") {
        event.stack = stack_of(get(value, "frames"));
      } else if (action == "free_completed" || action == "free") {
        event.action = Event::Action::kFree;
      } else if (action == "oom") {
        event.action = Event::Action::kRefused;
      } else {
        continue;
      }
      events.push_back(event);
    }
    return events;
  }

  std::vector<LiveBlock> largest_of(std::vector<Block> blocks) const {
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return std::tie(b.bytes, a.stack, a.address) < std::tie(a.bytes, b.stack, b.address);
    });
    std::vector<LiveBlock> shown;
    for (std::size_t i = 0; i < blocks.size() && shown.size() < largest_;) {
      shown.push_back(describe(blocks[i].bytes, blocks[i].stack));
      std::size_t end = i + 1;
      while (end < blocks.size() && blocks[end].bytes == blocks[i].bytes && blocks[end].stack == blocks[i].stack) ++end;
      shown.back().count = end - i;
      i = end;
    }
    return shown;
  }
  LiveBlock describe(std::uint64_t bytes, StackId stack) const {
    return {bytes, 1, stacks_[stack].kind, stacks_[stack].frames};
  }

  // Goes through the trace twice: once to learn what had been alive before it began, once to find the peak.
  void replay(std::int64_t device, const std::vector<Event>& events) {
    SnapshotDevice& report = devices_[device];
    report.events = events.size();
    std::unordered_map<std::uint64_t, std::size_t> live;  // address: event that allocated it
    std::unordered_map<std::uint64_t, bool> freed_first;  // events that free what came before the trace
    std::vector<Block> before;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      if (event.action == Event::Action::kAllocate) live[event.address] = i;
      if (event.action == Event::Action::kFree && live.erase(event.address) == 0) {
        before.push_back({event.address, event.bytes, event.bytes, 0});
        freed_first[i] = true;
      }
      if (event.action == Event::Action::kRefused && !report.refused_bytes) report.refused_bytes = event.bytes;
    }
    std::uint64_t now = 0;
    for (const Block& block : before) add(now, block.bytes);
    std::vector<Block> old;
    for (const Block& block : blocks_[device]) {
      if (live.contains(block.address)) continue;
      old.push_back(block);
      add(now, block.requested);
    }
    report.peak_bytes = now;
    live.clear();
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      if (event.action == Event::Action::kAllocate) {
        // An address that is allocated twice: the trace lost its free.
        const auto place = live.find(event.address);
        if (place != live.end()) now -= events[place->second].bytes;
        live[event.address] = i;
        add(now, event.bytes);
      } else if (event.action == Event::Action::kFree) {
        const auto place = live.find(event.address);
        if (place != live.end()) {
          now -= events[place->second].bytes;
          live.erase(place);
        } else if (freed_first.contains(i)) {
          now -= event.bytes;
        }
      }
      if (now > report.peak_bytes) {
        report.peak_bytes = now;
        report.peak_event = i + 1;
      }
    }
    at_peak(events, report, std::move(old));
    find_growth(events, report);
  }

  void at_peak(const std::vector<Event>& events, SnapshotDevice& report, std::vector<Block> alive) const {
    std::unordered_map<std::uint64_t, std::size_t> live;
    std::set<std::uint64_t> allocated;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      if (i < report.peak_event) {
        if (event.action == Event::Action::kAllocate) live[event.address] = i;
        if (event.action == Event::Action::kFree) live.erase(event.address);
        continue;
      }
      // An address that is freed but never allocated existed before the trace.
      if (event.action == Event::Action::kAllocate) allocated.insert(event.address);
      if (event.action == Event::Action::kFree && !live.contains(event.address) &&
          allocated.insert(event.address).second) {
        alive.push_back({event.address, event.bytes, event.bytes, 0});
      }
    }
    for (const auto& [address, i] : live) alive.push_back({address, events[i].bytes, events[i].bytes, events[i].stack});
    for (const Block& block : alive) report.peak_kinds[static_cast<int>(stacks_[block.stack].kind)] += block.requested;
    report.peak_largest = largest_of(std::move(alive));
  }

  // A step begins where the first activation is allocated after something else.
  void find_growth(const std::vector<Event>& events, SnapshotDevice& report) const {
    std::vector<std::size_t> begins;
    bool forward = false;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].action != Event::Action::kAllocate) continue;
      const bool is_forward = stacks_[events[i].stack].kind == MemoryKind::kActivations;
      if (is_forward && !forward) begins.push_back(i);
      forward = is_forward;
    }
    report.steps = begins.size();
    if (begins.size() < kMinSteps) return;
    while (begins.size() > kMaxSamples) {
      std::vector<std::size_t> half;
      for (std::size_t i = begins.size() % 2; i < begins.size(); i += 2) half.push_back(begins[i]);
      begins = std::move(half);
    }
    struct Site {
      std::vector<std::uint64_t> samples{};
      std::uint64_t bytes = 0, blocks = 0;
    };
    std::map<StackId, Site> sites;
    std::unordered_map<std::uint64_t, std::size_t> live;
    std::size_t sample = 0;
    const auto release = [&](std::size_t i) {
      Site& site = sites[events[i].stack];
      site.bytes -= events[i].bytes;
      --site.blocks;
    };
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (sample < begins.size() && begins[sample] == i) {
        for (auto& [stack, site] : sites) {
          site.samples.resize(sample, 0);
          site.samples.push_back(site.bytes);
        }
        ++sample;
      }
      const Event& event = events[i];
      const auto place = live.find(event.address);
      if (event.action != Event::Action::kRefused && place != live.end()) {
        release(place->second);
        live.erase(place);
      }
      if (event.action != Event::Action::kAllocate) continue;
      live[event.address] = i;
      sites[event.stack].bytes += event.bytes;
      ++sites[event.stack].blocks;
    }
    for (const auto& [stack, site] : sites) {
      if (site.blocks < 3 || site.samples.size() < kMinSteps) continue;
      // The first step allocates what stays: optimizer state, workspaces. After it, this finds what grows at most steps
      // and never shrinks.
      std::size_t grew = 0, shrank = 0;
      for (std::size_t i = 2; i < site.samples.size(); ++i) {
        if (site.samples[i] > site.samples[i - 1]) ++grew;
        if (site.samples[i] < site.samples[i - 1]) ++shrank;
      }
      if (shrank > 0 || grew * 5 < (site.samples.size() - 2) * 4) continue;
      report.growing.push_back({site.samples[1], site.bytes, site.blocks, describe(site.bytes / site.blocks, stack)});
    }
    std::sort(report.growing.begin(), report.growing.end(),
              [](const GrowingSite& a, const GrowingSite& b) { return a.last_bytes > b.last_bytes; });
    if (report.growing.size() > largest_) report.growing.resize(largest_);
  }

  const Pickle& pickle_;
  std::string where_;
  std::size_t largest_;
  std::size_t visited_ = 0;
  std::map<std::int64_t, SnapshotDevice> devices_;
  std::map<std::int64_t, std::vector<Block>> blocks_;
  std::vector<Stack> stacks_;  // the first: no frames
  std::map<std::vector<PickleRef>, StackId> stack_ids_;
  std::unordered_map<const PickleValue*, StackId> lists_;
};

}  // namespace

const char* memory_kind_name(MemoryKind kind) {
  constexpr const char* kNames[kMemoryKinds] = {
      "weights", "optimizer", "backward", "activations", "inputs", "other", "unknown (no Python frames)"};
  return kNames[static_cast<int>(kind)];
}

Snapshot read_snapshot(const std::filesystem::path& path, std::size_t largest) {
  const std::string bytes = read_text_file(path, kGiB);
  const PickleLimits limits{.bytes = kGiB,
                            .values = 8'000'000,
                            .huge_integers = true,
                            .kind = "memory snapshot",
                            .remedy =
                                "the file is damaged, or no memory snapshot; a smaller one comes from "
                                "_record_memory_history(max_entries=100000)"};
  const Pickle pickle = parse_pickle(
      std::as_bytes(std::span(bytes.data(), bytes.size())), path.string(), [](std::string_view) { return false; },
      limits);
  return Reader(pickle, path.string(), largest).read();
}

}  // namespace plimsoll::doctor
