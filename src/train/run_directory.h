// The directory of a run (--output-dir): what is in it before a run begins, and what happens to that.
//
// A finished run has a model, an unfinished one at most checkpoints. A new run moves an earlier one as a whole to
// DIR/earlier-N; other files stay where they are. Nothing in a directory that is not a run's is touched at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// The report that `plimsoll report` writes beside a run's files; it may replace its own.
inline constexpr const char* kReportFile = "report.html";
// The record of what `plimsoll prune --epochs` did before it trained, and the directory of the model that it then
// trained.
inline constexpr const char *kPruneFile = "prune.json", *kPrunedModel = "pruned";

enum class RunDirectoryState : std::uint8_t {
  kEmpty,       // or not a directory (looks_empty of base/work_folder.h)
  kForeign,     // holds files that no run of Plimsoll wrote
  kUnfinished,  // a run without its final model
  kFinished,
};
RunDirectoryState run_directory_state(const std::filesystem::path& output_dir);

// Returns the files and directories that the run in output_dir wrote, including those of its model.
std::vector<std::filesystem::path> run_entries(const std::filesystem::path& output_dir);

// Returns whether a run in output_dir writes that file, which may not be there yet, for itself; not its events.
bool is_of_run(const std::filesystem::path& output_dir, const std::filesystem::path& file);

// Returns whether a file that is there belongs to the run or the model whose directory it lies in, and is no report.
bool is_of_any_run(const std::filesystem::path& file);

// Moves all of these to output_dir/earlier-N and returns that path, which is then a complete run's directory. Returns
// nothing if there are neither checkpoints nor a model. If the two runs were mixed, `latest` and the limit on the
// number of checkpoints would confuse them.
std::optional<std::filesystem::path> set_run_aside(const std::filesystem::path& output_dir);

// Does the same with what the run wrote after that step, and its model, before it goes on from the checkpoint of that
// step in another way; logs and records are copied. Returns nothing if there is no later checkpoint.
std::optional<std::filesystem::path> set_later_aside(const std::filesystem::path& output_dir, std::int64_t step);

// Returns what to tell the user about set_run_aside.
std::string set_aside_text(const std::filesystem::path& output_dir, const std::filesystem::path& aside);

// Finishes or removes what a killed run left incomplete.
void recover_run_directory(const std::filesystem::path& output_dir);

}  // namespace plimsoll
