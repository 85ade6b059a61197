#include "fit/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Returns a file name for each device and library: "choices-NVIDIA-H200--cuBLAS-130100.json".
fs::path file_of(const fs::path& cache, const std::string& device) {
  if (cache.empty()) return {};
  std::string name = device;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return cache / fmt::format("choices-{}.json", name);
}

// Returns nothing if there is no file, or, with a warning, if it cannot be read.
Choices read_file(const fs::path& path) {
  std::error_code missing;
  if (path.empty() || !fs::is_regular_file(path, missing)) return {};
  try {
    return parse_choices(parse_json(read_text_file(path, std::uint64_t{1} << 26), path.string()), path.string());
  } catch (const DataError& error) {
    log_warning(fmt::format("{}: {}, {}; rebuilding it", path.string(), error.problem().what, error.problem().found));
    return {};
  }
}

// Choices already in the file are kept, so that later runs find what earlier ones chose.
void keep(const fs::path& path, Choices choices) {
  if (path.empty()) return;
  const Choices kept = read_file(path);
  if (kept.device == choices.device) {
    for (const auto& [name, algorithm] : kept.algorithms) choices.algorithms[name] = algorithm;
    if (choices == kept) return;
  }
  try {
    fs::create_directories(path.parent_path());
    write_text_file(path, choices_json(choices).dump(2) + "\n");
  } catch (const std::exception& error) {
    log_warning(fmt::format(
        "cannot store the chosen algorithms, so another run may choose others and differ in the last bits: {}",
        error.what()));
  }
}

}  // namespace

Choices choose(Backend& backend, const DeviceMemory& memory, const KnownChoices& known) {
  const std::string device = backend.choices().device;
  const fs::path path = device.empty() ? fs::path() : file_of(known.cache, device);
  try {
    backend.use_choices(read_file(path), path.string());
  } catch (const DataError& error) {
    const Problem& problem = error.problem();
    log_warning(fmt::format("{}: {}, {}; choosing again", problem.where, problem.what, problem.found));
  }
  if (!backend.use_choices(known.recorded, known.recorded_in)) {
    log_warning(
        fmt::format("{} is from a run on {}, but this run is on {}: choosing algorithms again, so numbers may differ "
                    "in their last bits",
                    known.recorded_in, known.recorded.device, device.empty() ? backend.name() : device));
  }
  if (device.empty()) return {};
  const auto begin = std::chrono::steady_clock::now();
  if (const std::size_t timed = backend.tune(memory); timed > 0) {
    memory.fill_zeros(memory.bytes());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    log_info(fmt::format("timed the algorithms of {} in {:.1f} s", counted(timed, "matrix product"), spent.count()));
  }
  Choices choices = backend.choices();
  keep(path, choices);
  return choices;
}

nlohmann::json choices_json(const Choices& choices) {
  if (choices.device.empty()) return {};
  return {{"device", choices.device}, {"algorithms", choices.algorithms}};
}

Choices parse_choices(const nlohmann::json& json, const std::string& where) {
  if (json.is_null()) return {};
  try {
    return {.device = json.at("device").get<std::string>(),
            .algorithms = json.at("algorithms").get<std::map<std::string, std::string>>()};
  } catch (const nlohmann::json::exception& error) {
    throw DataError({.what = "cannot read a table of chosen algorithms",
                     .where = where,
                     .found = json_fault(error),
                     .allowed = "a device, and an algorithm for each product, as Plimsoll wrote them",
                     .remedy = "remove the table to choose again"});
  }
}

}  // namespace plimsoll
