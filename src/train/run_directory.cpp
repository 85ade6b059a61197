#include "train/run_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/work_folder.h"
#include "bundle/model_place.h"
#include "formats/checksums.h"
#include "formats/json.h"
#include "train/checkpoint.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
constexpr const char* kAside = "earlier";  // in the work folder, while entries are moved there
// The same for a part of the run; the step of the checkpoint that it goes on from follows.
constexpr std::string_view kLater = "later-";
constexpr std::array kRunFiles = {"metrics.jsonl", "order.jsonl", "plan.json",     "summary.json",
                                  "args.json",     "arena.json",  "findings.json", "worst.json",
                                  "events.jsonl",  "tensorboard", kReportFile};
constexpr std::array kWeights = {"model.safetensors", "adapter_model.safetensors", "pytorch_model.bin"};
// The files' names in Hugging Face's format, for a directory of an older version, which has no list of its files.
constexpr std::array kModelFiles = {"config.json",
                                    "adapter_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "vocab.txt",
                                    "sentencepiece.bpe.model",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "preprocessor_config.json",
                                    "processor_config.json",
                                    "generation_config.json",
                                    "chat_template.jinja",
                                    "chat_template.json"};

[[noreturn]] void throw_error(std::string what, const fs::path& path, const std::error_code& error) {
  throw EnvironmentError({.what = std::move(what),
                          .where = path.string(),
                          .found = error.message(),
                          .remedy = "check the path, its permissions and the disk"});
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(entry->path());
  }
  const bool none = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !none) throw_error("cannot read a directory", directory, error);
  return entries;
}

// "checkpoint-5" with the prefix "checkpoint-".
bool is_numbered(const std::string& name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Returns whether Plimsoll wrote the file: other programs may also use the name "plan.json".
bool has_key(const fs::path& path, const char* key) {
  try {
    if (!is_there(path)) return false;
    const auto object = parse_json(read_text_file(path, 1 << 26));
    return object.is_object() && object.contains(key);
  } catch (const Error&) {
    return false;
  }
}

// Returns whether it begins as the events of a run, perhaps of one that was refused before it had written anything
// else.
bool holds_events(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file(path);
  std::string line(std::size_t{1} << 20, '\0');
  file.read(line.data(), std::ssize(line));
  line.resize(static_cast<std::size_t>(file.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  const nlohmann::json event = parse_json(line);
  return event.is_object() && event.contains("event");
}

bool was_pruned(const fs::path& directory) { return has_key(directory / kPruneFile, "kept_share"); }

// Also true if only checkpoints were copied there (those of other trainers have the same names, but other keys), or if
// only earlier runs are left.
bool holds_a_run(const fs::path& directory) {
  if (is_there(work_folder(directory)) || has_key(directory / "args.json", "plimsoll") || was_pruned(directory) ||
      has_key(directory / "plan.json", "predicted_peak_bytes") || holds_events(directory / "events.jsonl")) {
    return true;
  }
  return std::ranges::any_of(entries_of(directory), [](const fs::path& entry) {
    const std::string name = entry.filename().string();
    return (is_numbered(name, "checkpoint-") && has_key(entry / "trainer_state.json", "micro_batch_size")) ||
           (is_numbered(name, "earlier-") && holds_a_run(entry));
  });
}

bool holds_a_model(const fs::path& directory) {
  const fs::path place = model_place(directory);
  return std::ranges::any_of(kWeights, [&](const char* name) { return is_there(place / name); });
}

// Returns the names of the files that a run in the directory writes, including those of its model.
std::set<std::string> run_files(const fs::path& output_dir) {
  std::set<std::string> names(kRunFiles.begin(), kRunFiles.end());
  names.insert(kModelFiles.begin(), kModelFiles.end());
  names.insert(kWeights.begin(), kWeights.end());
  names.insert(kChecksumsFile);
  // Other programs may also use the name "pruned".
  if (was_pruned(output_dir) || was_pruned(work_folder(output_dir) / kAside)) {
    names.insert({kPruneFile, kPrunedModel});
  }
  try {
    // A file in a folder goes with it.
    for (const auto& [name, sum] : read_checksums(output_dir)) names.insert(fs::path(name).begin()->string());
  } catch (const DataError&) {  // for a damaged list, the usual names serve
  }
  return names;
}

enum class Fate : std::uint8_t { kStays, kIsCopied, kMoves };

// Puts the run's entries into output_dir/earlier-N as one, and returns its path.
fs::path put_aside(const fs::path& output_dir, const std::string& work,
                   const std::function<Fate(const std::string& name)>& fate) {
  const fs::path aside = work_folder(output_dir) / work;
  const bool goes_on = is_there(aside);
  finish_writing_model(output_dir);
  fs::path place;
  for (int i = 1; place.empty() || is_there(place); ++i) place = output_dir / fmt::format("earlier-{}", i);
  std::error_code error;
  fs::create_directories(aside, error);
  const std::vector<fs::path> entries = run_entries(output_dir);
  constexpr auto kAgain =
      fs::copy_options::recursive | fs::copy_options::overwrite_existing | fs::copy_options::skip_symlinks;
  for (const fs::path& entry : entries) {  // what can fail comes before anything is moved
    if (error || fate(entry.filename().string()) != Fate::kIsCopied) continue;
    fs::copy(entry, aside / entry.filename(), kAgain, error);
  }
  std::vector<fs::path> moved;
  fs::path failed = aside;
  for (const fs::path& entry : entries) {
    if (error || fate(entry.filename().string()) != Fate::kMoves) continue;
    fs::rename(entry, aside / entry.filename(), error);
    (error ? failed = entry : moved.emplace_back(entry));
  }
  if (!error) fs::rename(aside, place, error);
  if (error) {
    // The run stays as it was: a folder of somebody else's, say, cannot be moved.
    std::error_code ignored;
    for (const fs::path& entry : moved) fs::rename(aside / entry.filename(), entry, ignored);
    for (const fs::path& entry : entries) {
      const std::string name = entry.filename().string();
      if (!goes_on && fate(name) == Fate::kIsCopied) fs::remove_all(aside / name, ignored);
    }
    ::rmdir(aside.c_str());  // fails if something could not be moved back
    ::rmdir(work_folder(output_dir).c_str());
    throw EnvironmentError({.what = "cannot move an earlier run out of the way, so it stays as it was",
                            .where = failed.string(),
                            .found = error.message(),
                            .allowed = "files and directories that you may write to",
                            .remedy = "change their owner or permissions, or pass another --output-dir"});
  }
  sync_directory(output_dir);
  ::rmdir(work_folder(output_dir).c_str());  // fails if it is in use
  return place;
}

// Returns what becomes of an entry of a run that goes on from that step.
Fate fate_after(std::int64_t step, const std::string& name) {
  for (const std::string_view prefix : {"checkpoint-", "nonfinite-step-"}) {
    if (is_numbered(name, prefix)) return std::stoll(name.substr(prefix.size())) > step ? Fate::kMoves : Fate::kStays;
  }
  // The run that goes on needs them, and cuts its logs after that step.
  if (name == kPrunedModel) return Fate::kStays;
  const bool shared = name == kPruneFile || std::ranges::find(kRunFiles, name) != kRunFiles.end();
  return shared ? Fate::kIsCopied : Fate::kMoves;
}

fs::path put_later_aside(const fs::path& output_dir, std::int64_t step) {
  return put_aside(output_dir, fmt::format("{}{}", kLater, step),
                   [step](const std::string& name) { return fate_after(step, name); });
}

// Finishes what a killed process had begun to set aside, or forgets it if nothing had been moved.
void finish_setting_aside(const fs::path& output_dir) {
  for (const fs::path& begun : entries_of(work_folder(output_dir))) {
    const std::string name = begun.filename().string();
    if (!is_numbered(name, kLater)) continue;
    const std::int64_t step = std::stoll(name.substr(kLater.size()));
    const bool moved = std::ranges::any_of(entries_of(begun), [step](const fs::path& entry) {
      return fate_after(step, entry.filename().string()) == Fate::kMoves;
    });
    if (moved) {
      put_later_aside(output_dir, step);
    } else {
      std::error_code error;
      fs::remove_all(begun, error);
    }
  }
}

}  // namespace

RunDirectoryState run_directory_state(const fs::path& output_dir) {
  std::error_code error;
  if (!fs::is_directory(output_dir, error)) return RunDirectoryState::kEmpty;  // creating it reports the error
  if (!holds_a_run(output_dir)) {
    return looks_empty(output_dir) ? RunDirectoryState::kEmpty : RunDirectoryState::kForeign;
  }
  return holds_a_model(output_dir) ? RunDirectoryState::kFinished : RunDirectoryState::kUnfinished;
}

std::vector<fs::path> run_entries(const fs::path& output_dir) {
  const std::set<std::string> names = run_files(output_dir);
  std::vector<fs::path> found;
  for (const fs::path& path : entries_of(output_dir)) {
    const std::string name = path.filename().string();
    const bool checkpoint = is_numbered(name, "checkpoint-") && is_there(path / "trainer_state.json");
    const bool record = is_numbered(name, "nonfinite-step-") && is_there(path / "step.json");
    if (names.contains(name) || checkpoint || record) found.push_back(path);
  }
  return found;
}

bool is_of_run(const fs::path& output_dir, const fs::path& file) {
  std::error_code error;
  const fs::path within = fs::weakly_canonical(file, error).lexically_relative(fs::weakly_canonical(output_dir, error));
  if (within.empty() || *within.begin() == "..") return false;
  const std::string name = within.begin()->string();
  return name != "events.jsonl" && (run_files(output_dir).contains(name) || is_numbered(name, "checkpoint-"));
}

bool is_of_any_run(const fs::path& file) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(file, error), directory = whole.parent_path();
  if (error || !is_there(whole) || whole.filename() == kReportFile) return false;
  const bool is_named = run_files(directory).contains(whole.filename().string());
  return is_named && (holds_a_run(directory) || holds_a_model(directory));
}

std::optional<fs::path> set_run_aside(const fs::path& output_dir) {
  const bool goes_on = is_there(work_folder(output_dir) / kAside);  // a process was killed while it did this
  if (!goes_on && list_checkpoints(output_dir).empty() && !holds_a_model(output_dir)) return std::nullopt;
  return put_aside(output_dir, kAside, [](const std::string&) { return Fate::kMoves; });
}

std::optional<fs::path> set_later_aside(const fs::path& output_dir, std::int64_t step) {
  const std::vector<std::int64_t> steps = list_checkpoints(output_dir);
  if (std::ranges::none_of(steps, [step](std::int64_t each) { return each > step; })) return std::nullopt;
  return put_later_aside(output_dir, step);
}

std::string set_aside_text(const fs::path& output_dir, const fs::path& aside) {
  return fmt::format(
      "{} held an earlier run, which is now in {}; to continue that run instead, pass --output-dir {} "
      "--resume-from-checkpoint latest",
      output_dir.string(), aside.string(), aside.string());
}

void recover_run_directory(const fs::path& output_dir) {
  if (!is_there(work_folder(output_dir))) return;
  finish_writing_model(output_dir);
  remove_abandoned_files(output_dir,
                         [names = run_files(output_dir)](const std::string& name) { return names.contains(name); });
  if (is_there(work_folder(output_dir) / kAside)) set_run_aside(output_dir);
  finish_setting_aside(output_dir);
  remove_torn_checkpoints(output_dir);
}

}  // namespace plimsoll
