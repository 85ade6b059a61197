// What a run will write to its output directory, known before it begins: whether there is room is said then, not when
// the first checkpoint, or the last, is written.
#pragma once

#include <cstdint>
#include <filesystem>

namespace plimsoll {

// Sizes of what a run writes, bytes.
struct WrittenBytes {
  std::uint64_t checkpoint = 0, model = 0;  // each; a checkpoint holds a model too
  std::uint64_t largest_file = 0;           // of all that are written
};

struct DiskNeed {
  std::int64_t checkpoints = 0;  // more than there are now, at once
  std::uint64_t bytes = 0;       // with the model at the end
};

// The checkpoints of a run that goes on after update `step`.
struct PlannedSaves {
  std::int64_t every = 0;  // updates from one to the next (RunSchedule::save_every); 0: none
  std::int64_t limit = 0;  // checkpoints that are kept; 0: all
  std::int64_t step = 0, total_steps = 0;
  std::int64_t existing = 0;  // checkpoints that are there
};

// A new checkpoint, and the model, lie beside what they replace until they are whole. Those that
// --load-best-model-at-end and --save-strategy best add are not counted.
DiskNeed disk_need(const PlannedSaves& saves, const WrittenBytes& written);

// Throws EnvironmentError if the disk of `output_dir` has less than that free, or if the process may not write files as
// large as the largest (`ulimit -f`); says what would fit. A disk that does not tell has room.
void check_disk(const std::filesystem::path& output_dir, const PlannedSaves& saves, const WrittenBytes& written);
// The same of a disk with so much free.
void check_disk(const std::filesystem::path& output_dir, const PlannedSaves& saves, const WrittenBytes& written,
                std::uint64_t free_bytes);

}  // namespace plimsoll
