#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lower_case.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "report/read_run.h"
#include "report/report_page.h"
#include "train/run_directory.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRuns = 4;

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;
};

// Returns all inputs of the report: the runs' files, except for an earlier report, and the pictures of pages.
std::vector<NamedPath> inputs_of(const std::vector<report::RunFacts>& runs) {
  std::vector<NamedPath> inputs;
  for (const report::RunFacts& run : runs) {
    for (const fs::path& entry : run_entries(run.directory)) {
      if (entry.filename() != kReportFile) inputs.push_back({"RUN", entry});
    }
    for (const report::WorstPage& page : run.worst) inputs.push_back({"the image of a page", page.image});
    for (const char* option : {"data", "eval_data"}) {
      inputs.push_back({fmt::format("--{} of the run", option), report::text_at(run.options, option)});
    }
  }
  return inputs;
}

// A run's data may have thousands of pictures, of which only the worst pages are known here; none begins like this.
void refuse_other_file(const fs::path& output) {
  constexpr std::string_view kBegin = "<!doctype html>";
  std::error_code error;
  if (!fs::is_regular_file(output, error) || fs::file_size(output, error) == 0) return;
  std::string begin(kBegin.size(), ' ');
  std::ifstream(output, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (lower_case(begin) == kBegin) return;
  throw UsageError({.what = "the output would overwrite a file that is no report",
                    .where = "--output",
                    .found = output.string(),
                    .allowed = "a new file, or an HTML file",
                    .remedy = "pass a new file"});
}

void run_report(const Invocation& invocation, const ReportOptions& options) {
  if (options.runs.size() > kMostRuns) {
    throw UsageError({.what = "too many runs for one report",
                      .where = "RUN",
                      .found = fmt::format("{}", options.runs.size()),
                      .allowed = fmt::format("at most {}, side by side", kMostRuns),
                      .remedy = "compare fewer of them at a time"});
  }
  std::vector<report::RunFacts> runs;
  for (const std::string& directory : options.runs) runs.push_back(report::read_run(directory));
  const std::string output =
      options.output.empty() ? (fs::path(options.runs.front()) / kReportFile).string() : options.output;
  refuse_replacing({{"--output", output}}, inputs_of(runs));
  refuse_other_file(output);
  const std::string page = report::report_page(runs);
  write_text_file(output, page);
  if (invocation.json) return print_json({{"output", output}, {"bytes", page.size()}});
  print_line(fmt::format("{}: {}; open it in a browser", output, format_bytes(page.size())));
}

}  // namespace

void add_report(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "report", "Draw one run, or several side by side, as an HTML file");
  auto options = std::make_shared<ReportOptions>();
  command->heading("Report");
  command->add_option("RUN", options->runs, "Directories of runs (--output-dir of train), finished or not")
      ->type_name("")
      ->required();
  add_output_file(command, "--output", options->output, "HTML file (default: RUN/report.html of the first run)");
  command->footer(
      "The file needs no network and no other file. It shows the arena as a map of bytes over the step's\n"
      "time, predicted and measured memory, loss, scores, learning rate, gradient norm and speed, the\n"
      "scores of each label, the worst pages with their predictions, and the findings of the checks; each\n"
      "chart has a table. The report says what a run has not written yet, or no longer has.\n"
      "See docs/report.md; plimsoll plan --html FILE draws the map before a run.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_report(invocation, *options); }; });
}

}  // namespace plimsoll
