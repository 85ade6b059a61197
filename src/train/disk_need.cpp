#include "train/disk_need.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <system_error>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {

DiskNeed disk_need(const PlannedSaves& saves, const WrittenBytes& written) {
  DiskNeed need{.checkpoints = 0, .bytes = written.model};
  if (saves.every > 0 && saves.step < saves.total_steps) {
    const std::int64_t at_the_end = saves.total_steps % saves.every != 0 ? 1 : 0;
    const std::int64_t count = saves.total_steps / saves.every - saves.step / saves.every + at_the_end;
    const std::int64_t room = saves.limit - saves.existing;  // before one is removed for the next one
    need.checkpoints = saves.limit > 0 ? std::min(count, std::max<std::int64_t>(room, 0) + 1) : count;
  }
  need.bytes += static_cast<std::uint64_t>(need.checkpoints) * written.checkpoint;
  return need;
}

namespace {

void check_file_limit(const std::filesystem::path& output_dir, const WrittenBytes& written) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (written.largest_file <= limit.rlim_cur) return;
  throw EnvironmentError({.what = "the run will write files larger than this process's limit (ulimit -f)",
                          .where = output_dir.string(),
                          .found = fmt::format("a limit of {}", format_bytes(limit.rlim_cur)),
                          .allowed = fmt::format("{} or more, the largest file", format_bytes(written.largest_file)),
                          .remedy = limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= written.largest_file
                                        ? "raise it for this shell: ulimit -f unlimited"
                                        : "ask the machine's administrator for a higher limit (ulimit -H -f)"});
}

}  // namespace

void check_disk(const std::filesystem::path& output_dir, const PlannedSaves& saves, const WrittenBytes& written) {
  check_file_limit(output_dir, written);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(output_dir, error);
  if (error || space.capacity == 0) return;
  check_disk(output_dir, saves, written, space.available);
}

void check_disk(const std::filesystem::path& output_dir, const PlannedSaves& saves, const WrittenBytes& written,
                std::uint64_t free_bytes) {
  const DiskNeed need = disk_need(saves, written);
  if (need.bytes <= free_bytes) return;
  const auto with = [&](std::int64_t every, std::int64_t limit) {
    PlannedSaves other = saves;
    other.every = every;
    other.limit = limit;
    return disk_need(other, written).bytes;
  };
  std::string remedy = "free that much space, or pass an --output-dir on another disk";
  if (need.checkpoints > 1 && with(saves.every, 1) <= free_bytes) {
    remedy += fmt::format("; or pass --save-total-limit 1, which needs {}", format_bytes(with(saves.every, 1)));
  } else if (need.checkpoints > 0 && with(0, 0) <= free_bytes) {
    remedy += fmt::format("; or pass --save-steps 0, which needs {} but leaves nothing to resume from",
                          format_bytes(with(0, 0)));
  }
  const std::string checkpoints =
      need.checkpoints == 0
          ? ""
          : fmt::format("{} of {} and ", counted(need.checkpoints, "checkpoint"), format_bytes(written.checkpoint));
  throw EnvironmentError({.what = "not enough disk space for the run's output",
                          .where = output_dir.string(),
                          .found = fmt::format("{} free; {}the model of {}", format_bytes(free_bytes), checkpoints,
                                               format_bytes(written.model)),
                          .allowed = fmt::format("{} or more", format_bytes(need.bytes)),
                          .remedy = remedy});
}

}  // namespace plimsoll
