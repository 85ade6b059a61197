// A memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot, or pickle of torch.cuda.memory._snapshot()) read as
// data: what is alive, what was alive at the peak, what is unused between blocks, what grows from step to step.
//
//   for (const SnapshotDevice& device : read_snapshot("snapshot.pickle").devices) use(device.peak_bytes);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::doctor {

// Guessed from the Python frames that allocated a block.
enum class MemoryKind { kWeights, kOptimizer, kBackward, kActivations, kInputs, kOther, kNoFrames };
inline constexpr int kMemoryKinds = 7;
const char* memory_kind_name(MemoryKind kind);

struct LiveBlock {
  std::uint64_t bytes = 0;  // of each
  std::uint64_t count = 1;  // blocks of that size from that line of code
  MemoryKind kind = MemoryKind::kOther;
  std::vector<std::string> frames{};  // "model.py:120 forward", innermost first, only the informative ones
};

// A line of code whose blocks are not freed and accumulate.
struct GrowingSite {
  std::uint64_t first_bytes = 0, last_bytes = 0;  // alive at the first and the last step's beginning
  std::uint64_t blocks = 0;                       // alive at the end
  LiveBlock block{};                              // one of them
};

struct SnapshotDevice {
  std::int64_t device = 0;
  std::uint64_t segments = 0, reserved_bytes = 0, live_bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t rounding_bytes = 0;  // how much larger live blocks are than requested
  // Free bytes in segments with live blocks, which cannot be given back; and in completely free segments.
  std::uint64_t between_bytes = 0, spare_bytes = 0, largest_gap_bytes = 0;
  std::vector<LiveBlock> largest{};
  std::uint64_t kinds[kMemoryKinds] = {};  // of live bytes at the end

  // From the trace of allocations; without one, events is 0.
  std::uint64_t events = 0, steps = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_event = 0;
  std::uint64_t peak_kinds[kMemoryKinds] = {};
  std::vector<LiveBlock> peak_largest{};
  std::vector<GrowingSite> growing{};
  std::optional<std::uint64_t> refused_bytes{};  // the first allocation that failed
};

struct Snapshot {
  std::vector<SnapshotDevice> devices{};
};

// Throws DataError if the file is not such a snapshot, is damaged, larger than 1 GiB, or names code.
Snapshot read_snapshot(const std::filesystem::path& path, std::size_t largest = 10);

}  // namespace plimsoll::doctor
