#include "cli/outputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/work_folder.h"
#include "bundle/adapter_config.h"
#include "train/run_directory.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// True for the same file, or the same directory, whatever its names.
bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    files.push_back(entry->path());
  }
  return files;
}

// Returns the files that are read from a directory that an option names: a model, with the run that made it, or pages
// (FUNSD).
std::vector<fs::path> files_read_from(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return {};
  std::vector<fs::path> files = run_entries(directory);
  for (const fs::path& path : files_in(directory)) {
    const std::string name = path.filename().string();
    const auto ends = [&name](std::string_view end) { return name.ends_with(end); };
    if (ends(".safetensors") || ends(".bin") || ends(".index.json") || ends(".npy")) files.push_back(path);
  }
  for (const char* folder : {"annotations", "images"}) {
    for (fs::path& path : files_in(directory / folder)) files.push_back(std::move(path));
  }
  return files;
}

// The same, and what is read from the base model of an adapter, or beside a tokenizer.json.
std::vector<fs::path> files_read_for(const NamedPath& named) {
  std::error_code error;
  const bool is_file = named.option == "--tokenizer" && fs::is_regular_file(named.path, error);
  const fs::path input = is_file ? fs::absolute(named.path).parent_path() : named.path;
  std::vector<fs::path> files = files_read_from(input);
  if (!fs::is_regular_file(input / kAdapterConfigFile, error)) return files;
  try {
    for (fs::path& file : files_read_from(adapter_base(input))) files.push_back(std::move(file));
  } catch (const DataError&) {
    // Whoever opens the adapter says what is wrong with it.
  }
  return files;
}

std::vector<NamedPath>& common_inputs() {
  static std::vector<NamedPath> inputs;
  return inputs;
}

bool is_there(const NamedPath& output) {
  std::error_code error;
  return !output.path.empty() && !is_special_file(output.path) && fs::exists(output.path, error);
}

[[noreturn]] void refuse(const NamedPath& output, const std::string& input) {
  std::error_code error;
  const bool directory = fs::is_directory(output.path, error);
  throw UsageError(
      {.what = fmt::format("the output would overwrite {}", input),
       .where = output.option,
       .found = output.path.string(),
       .allowed = directory ? "a directory that the command does not read" : "a file that the command does not read",
       .remedy = directory ? "pass a new directory" : "pass a new file"});
}

[[noreturn]] void refuse_directory(const fs::path& path, const std::string& option, std::string what,
                                   const std::string& allowed) {
  throw UsageError({.what = std::move(what),
                    .where = option,
                    .found = path.string(),
                    .allowed = allowed,
                    .remedy = "pass a new directory; nothing was written"});
}

// Several processes may make the directory at the same time (shards), and each must find the mark when it finds another
// process's files, so the mark has its name from the beginning.
void write_mark(const fs::path& mark, const std::string& command) {
  const int file = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0 && errno == EEXIST) return;
  const std::string text = fmt::format("Files here were written by plimsoll {}, which may replace them.\n", command);
  const bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (file >= 0) ::close(file);
  if (written) return;
  throw EnvironmentError({.what = "cannot write a file",
                          .where = mark.string(),
                          .found = std::strerror(error),
                          .remedy = "check the disk's space and the directory's permissions"});
}

void refuse_twins(const std::vector<NamedPath>& outputs) {
  std::error_code error;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NamedPath& one = outputs[i];
    if (one.path.empty() || one.path == "-" || is_special_file(one.path)) continue;
    for (const NamedPath& other : std::span(outputs).subspan(i + 1)) {
      const fs::path place = fs::weakly_canonical(one.path, error);
      if (error || other.path.empty()) continue;  // whoever opens it says what is wrong
      if (fs::weakly_canonical(other.path, error) != place || error) continue;
      throw UsageError({.what = "two outputs would be one file",
                        .where = fmt::format("{}, {}", one.option, other.option),
                        .found = other.path.string(),
                        .allowed = "a path for each of them",
                        .remedy = fmt::format("pass another path with {}", other.option)});
    }
  }
}

}  // namespace

void add_common_input(NamedPath input) { common_inputs().push_back(std::move(input)); }

void refuse_replacing(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs,
                      const fs::path& own_run) {
  refuse_twins(outputs);
  std::vector<NamedPath> all = inputs;
  all.insert(all.end(), common_inputs().begin(), common_inputs().end());
  for (const NamedPath& output : outputs) {
    if (!is_there(output)) continue;
    for (const NamedPath& input : all) {
      if (input.path.empty()) continue;
      const std::string name = fmt::format("the input ({})", input.option);
      if (is_same(output.path, input.path)) refuse(output, name);
      for (const fs::path& file : files_read_for(input)) {
        if (is_same(output.path, file)) refuse(output, fmt::format("{}, a file of {}", file.string(), name));
      }
    }
    std::error_code error;
    const bool is_own = !own_run.empty() && fs::equivalent(fs::absolute(output.path).parent_path(), own_run, error);
    if (!is_own && fs::is_regular_file(output.path) && is_of_any_run(output.path)) {
      throw UsageError({.what = "the output would overwrite a file of a run or a model",
                        .where = output.option,
                        .found = output.path.string(),
                        .allowed = "a new file, or one that a command wrote as its output",
                        .remedy = "pass a new file"});
    }
  }
}

void refuse_replacing_images(const std::vector<NamedPath>& outputs, const PageSource& pages) {
  std::vector<NamedPath> there;
  std::copy_if(outputs.begin(), outputs.end(), std::back_inserter(there), is_there);
  for (std::size_t i = 0; i < (there.empty() ? 0 : pages.size()); ++i) {
    Page page;
    try {
      page = pages.read(i);
    } catch (const DataError&) {
      continue;  // whoever needs the page refuses it
    }
    for (const NamedPath& output : there) {
      if (is_same(output.path, page.image)) refuse(output, fmt::format("the image of {}", place(page)));
    }
  }
}

void make_directory(const fs::path& path, const std::string& option) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(path.c_str(), W_OK | X_OK) != 0) error = std::error_code(errno, std::generic_category());
  if (!error) return;
  throw EnvironmentError({.what = "cannot write to a directory",
                          .where = option,
                          .found = fmt::format("{}: {}", path.string(), error.message()),
                          .allowed = "a writable directory, or a new one",
                          .remedy = "pass another one, or change its permissions"});
}

void make_directory_of(const fs::path& path, const std::string& option, const std::string& command) {
  const fs::path mark = path / fmt::format(".made-by-plimsoll-{}", command);
  std::error_code error;
  if (fs::is_directory(path, error) && !looks_empty(path) && !fs::exists(mark, error)) {
    refuse_directory(path, option, "the directory holds files that were not written by this command",
                     fmt::format("a new or empty directory, or one made by plimsoll {}", command));
  }
  make_directory(path, option);
  write_mark(mark, command);
}

NewDirectory::NewDirectory(fs::path path, const std::string& option) : path_(std::move(path)) {
  std::error_code error;
  made_ = !fs::exists(path_, error) && !error;
  make_directory(path_, option);
}

NewDirectory::~NewDirectory() {
  if (made_) ::rmdir(path_.c_str());  // fails if it is not empty
}

namespace {

const fs::path& without_files(const fs::path& path, const std::string& option) {
  std::error_code error;
  if (fs::is_directory(path, error) && !looks_empty(path)) {
    refuse_directory(path, option, "the directory holds files already, and no model is written over them",
                     "a new or empty directory");
  }
  return path;
}

}  // namespace

ModelDirectory::ModelDirectory(const fs::path& path, const std::string& option)
    : directory_(without_files(path, option), option), lock_(path, option) {}

ModelDirectory::~ModelDirectory() {
  for (const std::string& name : work_) discard_work_directory(directory_.path(), name);
}

fs::path ModelDirectory::work_directory(const std::string& name) {
  work_.push_back(name);
  return make_work_directory(directory_.path(), name);
}

}  // namespace plimsoll
