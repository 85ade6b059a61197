#include "train/disk_need.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <system_error>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {

DiskNeed disk_need(const TrainOptions& options, std::int64_t step, std::int64_t total_steps, std::int64_t existing,
                   const WrittenBytes& written) {
  DiskNeed need{.checkpoints = 0, .bytes = written.model};
  if (options.save_steps > 0 && step < total_steps) {
    const std::int64_t at_the_end = total_steps % options.save_steps != 0 ? 1 : 0;
    const std::int64_t saves = total_steps / options.save_steps - step / options.save_steps + at_the_end;
    const std::int64_t room = options.save_total_limit - existing;  // before one is removed for the next
    need.checkpoints = options.save_total_limit > 0 ? std::min(saves, std::max<std::int64_t>(room, 0) + 1) : saves;
  }
  need.bytes += static_cast<std::uint64_t>(need.checkpoints) * written.checkpoint;
  return need;
}

namespace {

void check_file_limit(const TrainOptions& options, const WrittenBytes& written) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (written.largest_file <= limit.rlim_cur) return;
  throw EnvironmentError({.what = "the run will write files larger than this process's limit (ulimit -f)",
                          .where = options.output_dir.string(),
                          .found = fmt::format("a limit of {}", format_bytes(limit.rlim_cur)),
                          .allowed = fmt::format("{} or more, the largest file", format_bytes(written.largest_file)),
                          .remedy = limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= written.largest_file
                                        ? "raise it for this shell: ulimit -f unlimited"
                                        : "ask the machine's administrator for a higher limit (ulimit -H -f)"});
}

}  // namespace

void check_disk(const TrainOptions& options, std::int64_t step, std::int64_t total_steps, std::int64_t existing,
                const WrittenBytes& written) {
  check_file_limit(options, written);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(options.output_dir, error);
  if (error || space.capacity == 0) return;
  check_disk(options, step, total_steps, existing, written, space.available);
}

void check_disk(const TrainOptions& options, std::int64_t step, std::int64_t total_steps, std::int64_t existing,
                const WrittenBytes& written, std::uint64_t free_bytes) {
  const DiskNeed need = disk_need(options, step, total_steps, existing, written);
  if (need.bytes <= free_bytes) return;
  const auto with = [&](std::int64_t save_steps, std::int64_t limit) {
    TrainOptions other = options;
    other.save_steps = save_steps;
    other.save_total_limit = limit;
    return disk_need(other, step, total_steps, existing, written).bytes;
  };
  std::string remedy = "free that much space, or pass an --output-dir on another disk";
  if (need.checkpoints > 1 && with(options.save_steps, 1) <= free_bytes) {
    remedy += fmt::format("; or pass --save-total-limit 1, which needs {}", format_bytes(with(options.save_steps, 1)));
  } else if (need.checkpoints > 0 && with(0, 0) <= free_bytes) {
    remedy += fmt::format("; or pass --save-steps 0, which needs {} but leaves nothing to resume from",
                          format_bytes(with(0, 0)));
  }
  const std::string checkpoints =
      need.checkpoints == 0
          ? ""
          : fmt::format("{} of {} and ", counted(need.checkpoints, "checkpoint"), format_bytes(written.checkpoint));
  throw EnvironmentError({.what = "not enough disk space for the run's output",
                          .where = options.output_dir.string(),
                          .found = fmt::format("{} free; {}the model of {}", format_bytes(free_bytes), checkpoints,
                                               format_bytes(written.model)),
                          .allowed = fmt::format("{} or more", format_bytes(need.bytes)),
                          .remedy = remedy});
}

}  // namespace plimsoll
