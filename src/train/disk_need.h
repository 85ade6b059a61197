// What a run will write to its output directory, computed before it begins, so that a lack of room is reported then and
// not when the first checkpoint, or the last, is written.
#pragma once

#include <cstdint>
#include <filesystem>

namespace plimsoll {

// Sizes of what a run writes, bytes.
struct WrittenBytes {
  std::uint64_t checkpoint = 0, model = 0;  // size of each; a checkpoint holds a model, too
  std::uint64_t largest_file = 0;           // of all files that are written
};

struct DiskNeed {
  std::int64_t checkpoints = 0;  // the most at once, beyond those that exist now
  std::uint64_t bytes = 0;       // including the final model
};

// The checkpoints of a run that continues after update `step`.
struct PlannedSaves {
  std::int64_t every = 0;  // updates from one to the next (RunSchedule::save_every); 0: none
  std::int64_t limit = 0;  // checkpoints that are kept; 0: all
  std::int64_t step = 0, total_steps = 0;
  std::int64_t existing = 0;  // checkpoints that exist
};

// Returns the space that these saves need: a new checkpoint, and the model, exist beside the ones they replace until
// they are complete. Checkpoints that --load-best-model-at-end and --save-strategy best add are not counted.
DiskNeed disk_need(const PlannedSaves& saves, const WrittenBytes& written);

// Throws EnvironmentError if the disk of `output_dir` has less than that free, or if the process may not write files as
// large as the largest (`ulimit -f`); the error says what would fit. A disk that does not report its free space counts
// as having room.
void check_disk(const std::filesystem::path& output_dir, const PlannedSaves& saves, const WrittenBytes& written);
// Does the same for a disk with this much free.
void check_disk(const std::filesystem::path& output_dir, const PlannedSaves& saves, const WrittenBytes& written,
                std::uint64_t free_bytes);

}  // namespace plimsoll
