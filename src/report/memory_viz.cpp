#include "report/memory_viz.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "formats/pickle_writer.h"

namespace plimsoll::report {
namespace {

// The arena's pretended address, similar to those of a GPU's allocator.
constexpr std::int64_t kBase = 0x7f0000000000;

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const TextSink& write) : pickle_(write) {}

  void write(const Arena& arena) {
    pickle_.begin_dict();
    write_segments(arena);
    pickle_.text("device_traces");
    pickle_.begin_list();
    pickle_.begin_list();
    const Tensor whole{.name = "the arena", .kind = "arena", .lever = "kept", .bytes = arena.bytes};
    record("segment_alloc", whole, nullptr);
    for (const Tensor& tensor : arena.persistent) record("alloc", tensor, nullptr);
    for (const ArenaProgram& program : arena.programs) write_program(program);
    pickle_.end_list();
    pickle_.end_list();
    pickle_.text("allocator_settings");
    pickle_.begin_dict();
    pickle_.text("PYTORCH_CUDA_ALLOC_CONF");
    pickle_.text("");
    pair("max_split_size", -1);
    pickle_.text("garbage_collection_threshold");
    pickle_.real(0);
    flag("expandable_segments", false);
    pickle_.end_dict();
    pickle_.text("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  void pair(std::string_view key, std::int64_t value) {
    pickle_.text(key);
    pickle_.integer(value);
  }
  void flag(std::string_view key, bool value) {
    pickle_.text(key);
    pickle_.boolean(value);
  }
  void word(std::string_view key, std::string_view value) {
    pickle_.text(key);
    pickle_.text(value);
  }

  void write_frame(std::string_view file, std::int64_t line, std::string_view name) {
    pickle_.begin_dict();
    word("filename", file);
    pair("line", line);
    word("name", name);
    pickle_.end_dict();
  }

  // `program` is nullptr for tensors that always exist. The frames of a tensor are written once.
  void write_frames(const Tensor& tensor, const ArenaProgram* program) {
    if (const auto known = frames_.find(&tensor); known != frames_.end()) return pickle_.recall(known->second);
    pickle_.begin_list();
    write_frame(tensor.name, tensor.begin, tensor.kind + ", " + tensor.lever);
    if (program != nullptr && !program->nodes.empty()) {
      const auto last = static_cast<std::int64_t>(program->nodes.size()) - 1;
      const ArenaNode& node = program->nodes[static_cast<std::size_t>(std::min(tensor.begin, last))];
      write_frame(node.name + " (" + node.op + ")", tensor.begin, node.phase);
      write_frame("plimsoll plan", 0, program->kind);
    } else {
      write_frame("plimsoll plan", 0, "always in memory");
    }
    pickle_.end_list();
    frames_[&tensor] = pickle_.remember();
  }

  void record(std::string_view action, const Tensor& tensor, const ArenaProgram* program) {
    pickle_.begin_dict();
    word("action", action);
    pair("addr", kBase + static_cast<std::int64_t>(tensor.offset));
    pair("size", static_cast<std::int64_t>(tensor.bytes));
    pair("stream", 0);
    pair("time_us", static_cast<std::int64_t>(std::llround(seconds_ * 1e6)));
    pickle_.text("frames");
    write_frames(tensor, program);
    pickle_.end_dict();
  }

  void write_program(const ArenaProgram& program) {
    const std::size_t nodes = program.nodes.size();
    std::vector<std::vector<const Tensor*>> begins(nodes + 1), ends(nodes + 1);
    for (const Tensor& tensor : program.tensors) {
      begins[static_cast<std::size_t>(tensor.begin)].push_back(&tensor);
      ends[static_cast<std::size_t>(tensor.end)].push_back(&tensor);
    }
    // Tensors that die before a node give their bytes to those that it makes.
    for (std::size_t n = 0; n <= nodes; ++n) {
      for (const Tensor* tensor : ends[n]) {
        if (tensor->begin == tensor->end) continue;
        record("free_requested", *tensor, &program);
        record("free_completed", *tensor, &program);
      }
      for (const Tensor* tensor : begins[n]) {
        if (tensor->begin != tensor->end) record("alloc", *tensor, &program);
      }
      if (n < nodes) seconds_ += program.nodes[n].seconds;
    }
  }

  void write_block(std::int64_t address, std::int64_t bytes, const Tensor* tensor) {
    pickle_.begin_dict();
    pair("address", address);
    pair("size", bytes);
    pair("requested_size", tensor == nullptr ? 0 : bytes);
    word("state", tensor == nullptr ? "inactive" : "active_allocated");
    pickle_.text("frames");
    if (tensor != nullptr) {
      write_frames(*tensor, nullptr);
    } else {
      pickle_.begin_list();
      pickle_.end_list();
    }
    pickle_.end_dict();
  }

  // The arena is one segment; what is left in it at the end are the tensors that always exist.
  void write_segments(const Arena& arena) {
    std::vector<const Tensor*> always;
    for (const Tensor& tensor : arena.persistent) always.push_back(&tensor);
    std::ranges::sort(always, {}, &Tensor::offset);
    std::int64_t used = 0;
    for (const Tensor* tensor : always) used += static_cast<std::int64_t>(tensor->bytes);
    const auto total = static_cast<std::int64_t>(arena.bytes);
    pickle_.text("segments");
    pickle_.begin_list();
    pickle_.begin_dict();
    pair("device", 0);
    pair("address", kBase);
    pair("total_size", total);
    pair("allocated_size", used);
    pair("active_size", used);
    pair("requested_size", used);
    pair("stream", 0);
    word("segment_type", "large");
    pickle_.text("segment_pool_id");
    pickle_.begin_tuple();
    pickle_.integer(0);
    pickle_.integer(0);
    pickle_.end_tuple();
    flag("is_expandable", false);
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.text("blocks");
    pickle_.begin_list();
    std::int64_t end = 0;
    for (const Tensor* tensor : always) {
      const auto offset = static_cast<std::int64_t>(tensor->offset), bytes = static_cast<std::int64_t>(tensor->bytes);
      if (offset > end) write_block(kBase + end, offset - end, nullptr);
      write_block(kBase + offset, bytes, tensor);
      end = offset + bytes;
    }
    if (total > end) write_block(kBase + end, total - end, nullptr);
    pickle_.end_list();
    pickle_.end_dict();
    pickle_.end_list();
  }

  PickleWriter pickle_;
  std::map<const Tensor*, std::uint32_t> frames_;  // that have been written
  double seconds_ = 0;
};

}  // namespace

void write_memory_viz(const Arena& arena, const TextSink& write) { SnapshotWriter(write).write(arena); }

}  // namespace plimsoll::report
