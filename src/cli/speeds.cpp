#include "cli/speeds.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "families/model_config.h"
#include "fit/calibration.h"
#include "formats/json.h"
#include "tasks/tasks.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Must be increased whenever a kernel becomes so much faster or slower that old measurements mislead, or an op's work
// is counted in another unit.
constexpr int kVersion = 6;

std::optional<OpSpeeds> read_speeds(const fs::path& path, const Device& device) {
  std::error_code missing;
  if (path.empty() || !fs::is_regular_file(path, missing)) return std::nullopt;
  try {
    const nlohmann::json json = parse_json(read_text_file(path, 1 << 20), path.string());
    if (json.value("version", 0) != kVersion || json.value("processor", "") != device.name) return std::nullopt;
    return parse_speeds(json, path.string());
  } catch (const std::exception&) {
    return std::nullopt;  // incomplete or old: measure again
  }
}

// Runs this program again as `plimsoll calibrate`, silently. Returns false if it could not be run or failed.
bool run_calibrate(const Device& device, DType precision) {
  const std::string count = std::to_string(device.threads);
  const char* const half = precision == DType::kBF16 ? "--bf16" : precision == DType::kF16 ? "--fp16" : nullptr;
  const char* arguments[] = {"plimsoll",  "calibrate",   "--json", "--device", device.argument.c_str(),
                             "--threads", count.c_str(), half,     nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // This process blocks signals except in the thread that waits for them; the new process handles them as usual.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, "/proc/self/exe", &files, &attributes, const_cast<char* const*>(arguments), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  int status = 0;
  return failed == 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

fs::path speeds_path(const Device& device, DType precision) {
  const char* const half = precision == DType::kBF16 ? "-bf16" : precision == DType::kF16 ? "-fp16" : "";
  std::string which = std::to_string(device.threads);
  if (device.backend->device_use()) {  // "NVIDIA-H100-80GB-HBM3"
    which = device.name;
    std::replace_if(
        which.begin(), which.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  }
  const fs::path directory = cache_directory();
  return directory.empty() ? fs::path() : directory / fmt::format("speeds-{}{}.json", which, half);
}

fs::path cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0) {
    return fs::path(cache) / "plimsoll";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) {
    return fs::path(home) / ".cache" / "plimsoll";
  }
  return {};
}

Calibration calibrate(const Device& device, DType precision) {
  const ModelConfig sample = calibration_config();
  const ModelDefinition model = task_of(sample.task).model(sample.encoder, sample.task);
  const OpSpeeds speeds = measure_speeds(*device.backend, model, precision);
  nlohmann::json json = speeds_json(speeds);
  json["version"] = kVersion;
  json["processor"] = device.name;
  const fs::path path = speeds_path(device, precision);
  try {
    check(!path.empty(), "a cache directory exists");
    fs::create_directories(path.parent_path());
    write_text_file(path, json.dump(2) + "\n");
  } catch (const std::exception& error) {
    log_warning(fmt::format("cannot store measured speeds: {}", error.what()));
    return {.speeds = speeds};
  }
  return {.speeds = speeds, .file = path};
}

OpSpeeds machine_speeds(const Device& device, DType precision, std::size_t budget_bytes) {
  const fs::path path = speeds_path(device, precision);
  if (const auto known = read_speeds(path, device)) return *known;
  // This process waits meanwhile, and its limits (a budget, a cgroup) count both processes.
  const std::optional<DeviceUse> use = device.backend->device_use();
  const std::size_t held = use ? use->held_bytes : resident_bytes();
  const std::size_t free = use ? use->free_bytes : available_memory_bytes();
  const std::size_t room = budget_bytes == 0 ? free : std::min(free, budget_bytes - std::min(budget_bytes, held));
  const std::size_t needed = use ? kDeviceCalibrationBytes + held : kCalibrationBytes;  // a second context
  const OpSpeeds typical = use ? typical_gpu_speeds() : typical_speeds();
  if (!path.empty() && room < needed) {
    log_info(fmt::format(
        "using typical speeds to compare plans: measuring this machine's needs {} of memory, and {}; plimsoll "
        "calibrate{} measures them once, outside a run",
        format_bytes(needed),
        room < free ? fmt::format("the budget has room for {}", format_bytes(room))
                    : fmt::format("{} are free", format_bytes(room)),
        device.argument == "cpu" ? "" : " --device " + device.argument));
    return typical;
  }
  if (!path.empty() && run_calibrate(device, precision)) {
    if (const auto measured = read_speeds(path, device)) return *measured;
  }
  log_warning("cannot measure or store this machine's speed; using typical speeds to compare plans");
  return typical;
}

}  // namespace plimsoll
