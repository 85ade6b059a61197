// The directory of a run (--output-dir): what stands there before a run begins, and what becomes of it.
//
// A finished run holds a model, an unfinished one at most checkpoints. A run that begins afresh moves an earlier one,
// whole, to DIR/earlier-N; what is no run's stays where it is. Nothing in a directory that is no run's is touched at
// all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// The report that `plimsoll report` writes beside a run's files; it may replace its own.
inline constexpr const char* kReportFile = "report.html";
// What `plimsoll prune --epochs` did before it trained, and the directory of the model that it then trained.
inline constexpr const char *kPruneFile = "prune.json", *kPrunedModel = "pruned";

enum class RunDirectoryState : std::uint8_t {
  kEmpty,       // or no directory (looks_empty of base/work_folder.h)
  kForeign,     // holds what no run of Plimsoll's wrote
  kUnfinished,  // a run without its final model
  kFinished,
};
RunDirectoryState run_directory_state(const std::filesystem::path& output_dir);

// The files and directories that the run in output_dir wrote, those of its model included.
std::vector<std::filesystem::path> run_entries(const std::filesystem::path& output_dir);

// Moves all of these to output_dir/earlier-N and returns that path: a run's directory as good as before. Nothing if
// there are neither checkpoints nor a model. Mixed, `latest` and the limit on the number of checkpoints would confuse
// the two runs.
std::optional<std::filesystem::path> set_run_aside(const std::filesystem::path& output_dir);

// What to tell the user of that.
std::string set_aside_text(const std::filesystem::path& output_dir, const std::filesystem::path& aside);

// Finishes or removes what a killed run left half done.
void recover_run_directory(const std::filesystem::path& output_dir);

}  // namespace plimsoll
