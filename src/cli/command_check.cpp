#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/counted.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/page_bar.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/same_run.h"
#include "cli/usage.h"
#include "data/dataset.h"
#include "data/fixes.h"
#include "request/check_data.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

struct CheckCommand {
  RunOptions run;
  bool decode_images = false;
  std::int64_t places = static_cast<std::int64_t>(Findings::kPlacesKept);
  std::string fix;
};

// Returns "labelled_pages" for labelled pages, "questions" for questions.
std::string counts_key(const Task& task) {
  std::string key = plural_of(task.target_name());
  std::ranges::replace(key, ' ', '_');
  return key;
}

nlohmann::json counts_json(const CheckReport& report, const Task& task) {
  nlohmann::json object = {{"pages", report.pages},
                           {"words", report.words},
                           {"labelled_words", report.labelled_words},
                           {"windows", report.windows},
                           {"lost_words", report.lost_words},
                           {"lost_tokens", report.lost_tokens},
                           {"longest_page_tokens", report.longest_page_tokens}};
  if (!task.labels_words()) object[counts_key(task)] = report.targets;
  return object;
}

bool reads_texts(const CheckReport& report, const Task& task) { return task.reads_text() || report.texts > 0; }

std::string counts_text(const PagePaths& paths, const CheckReport& report, const Task& task) {
  // A running text does not consist of words: each of its parts counts as one.
  const bool texts = reads_texts(report, task);
  const std::string_view noun = texts ? "text" : "page";
  const std::string content = texts ? counted(report.tokens, "token") : counted(report.words, "word");
  const std::string targets = task.reads_text()     ? ""
                              : task.labels_words() ? fmt::format(" ({} labelled)", report.labelled_words)
                                                    : ", " + counted(report.targets, task.target_name());
  const std::string lost = lost_text(report.lost_words, report.lost_tokens);
  return fmt::format("{}: {}, {}{}, {}{}; the longest {} has {}\n", listed(paths), counted(report.pages, noun), content,
                     targets, counted(report.windows, "window"), lost.empty() ? "" : ", " + lost + " cut off", noun,
                     counted(report.longest_page_tokens, "token"));
}

std::string counted_or_no(std::uint64_t count, std::string_view what) {
  return count == 0 ? "no " + plural_of(what) : counted(count, what);
}

std::string verdict(const Findings& findings, std::string_view data) {
  const std::uint64_t errors = findings.count(Severity::kError);
  return fmt::format("{}{}, {}{}", counted_or_no(errors, "error"), data,
                     counted_or_no(findings.count(Severity::kWarning), "warning"),
                     errors > 0 ? ": training would refuse this data" : "");
}

std::string fix_text(const FixReport& fixed, const std::string& out) {
  std::string text =
      fmt::format("{}: {} of {} changed", out, counted(fixed.boxes, "box"), counted(fixed.pages, "page"));
  text += fixed.list.empty() || fixed.boxes == 0 ? "\n" : fmt::format("; each is listed in {}\n", fixed.list.string());
  if (fixed.paths > 0)
    text += fmt::format("  image paths of {} are written relative to the copy\n", counted(fixed.paths, "page"));
  for (const Finding& change : fixed.changes.sorted()) {
    text += fmt::format("  {} ({})\n", change.first.what, counted(change.count, "box"));
    for (const auto& [where, found] : change.places) text += fmt::format("    {}: {}\n", where, found);
    if (change.count > change.places.size())
      text += fmt::format("    and {} more\n", change.count - change.places.size());
  }
  return text;
}

// What train would refuse of the weights' names and shapes; values are not read.
void add_weight_fault(const ModelBundle& bundle, Findings& findings) {
  if (bundle.weights == nullptr) return;
  try {
    check_weights(bundle);
  } catch (const DataError& error) {
    findings.add(Severity::kError, "weights-unusable", error.problem());
  }
}

void run_check(Invocation& invocation, CheckCommand& command) {
  RunOptions& options = command.run;
  options.resolve();
  options.ranks.find();
  const bool lists = !command.fix.empty() && !is_special_file(command.fix);
  const std::vector<NamedPath> outputs = {{"--fix", command.fix},
                                          {"--fix", lists ? command.fix + ".changes.jsonl" : std::string()}};
  refuse_replacing(outputs, options.inputs());
  connect_ranks(invocation, options.ranks);
  ModelBundle bundle = open_model(options.model.model, options.model.tokenizer, options.model.base_model);
  PageBar bar("pages checked", invocation.json || !invocation.is_first());
  CheckRequest request{.data = options.data,
                       .evaluation = options.eval_data,
                       .decode_images = command.decode_images,
                       .decoding_bytes = std::uint64_t{1} << 30,
                       .places_kept = static_cast<std::size_t>(command.places),
                       .threads = sharing_threads(invocation, options.ranks.launch),
                       .share = page_share(invocation),
                       .on_progress = [&bar](std::size_t done, std::size_t pages) { bar.draw(done, pages); }};
  refuse_other_files(invocation, "--data", options.data.data, FilesBy::kContents);
  refuse_other_files(invocation, "--eval-data", options.eval_data, FilesBy::kContents);
  const auto start = Clock::now();
  DataCheck check = check_data(bundle, options.model, request);
  add_weight_fault(bundle, check.findings);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::uint64_t pages = check.train.pages + (check.evaluation ? check.evaluation->pages : 0);
  const double pages_per_second = static_cast<double>(pages) / std::max(seconds, 1e-9);

  std::uint64_t errors = check.findings.count(Severity::kError);
  nlohmann::json object = counts_json(check.train, bundle.task());
  object["pages_per_second"] = pages_per_second;
  object["errors"] = errors;
  object["warnings"] = check.findings.count(Severity::kWarning);
  object["findings"] = nlohmann::json::parse(check.findings.to_json());
  if (check.evaluation) object["evaluation"] = counts_json(*check.evaluation, bundle.task());
  std::string text = check.findings.to_text() + counts_text(options.data.data, check.train, bundle.task());
  if (check.evaluation) text += counts_text(options.eval_data, *check.evaluation, bundle.task());
  text += fmt::format("checked in {:.2f} s, {:.0f} {}/s\n{}", seconds, pages_per_second,
                      reads_texts(check.train, bundle.task()) ? "texts" : "pages", verdict(check.findings, ""));

  // Only the first rank writes the copy.
  if (!command.fix.empty() && invocation.is_first()) {
    request.share = {};
    const auto source =
        open_pages(options.data.data, {.segment_boxes = options.data.segment_boxes, .ignore_labels = true});
    refuse_replacing_images(outputs, *source);
    if (std::filesystem::is_directory(source->paths().front())) make_directory_of(command.fix, "--fix", "check");
    const FixReport fixed =
        write_fixed(*source, options.data.box_format, command.fix, options.data.segment_boxes, request.places_kept);
    text += "\n" + fix_text(fixed, command.fix);
    if (is_special_file(command.fix)) {
      text += "the copy was written to a pipe or device and is not checked";
    } else {
      request.data.data = {command.fix};
      const Findings left = check_data(bundle, options.model, request).findings;
      errors = left.count(Severity::kError);
      text += verdict(left, " in " + command.fix);
    }
    object["fixed"] = {{"boxes", fixed.boxes},       {"pages", fixed.pages},
                       {"image_paths", fixed.paths}, {"list", fixed.list.string()},
                       {"errors", errors},           {"changes", nlohmann::json::parse(fixed.changes.to_json())}};
  }
  if (errors > 0) invocation.exit_code = ExitCode::kData;
  bar.clear();
  return invocation.json ? print_json(object) : print_line(text);
}

}  // namespace

void add_check(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "check", "Check a whole data set for everything that would break a run");
  auto options = std::make_shared<CheckCommand>();
  add_model_options(command, options->run);
  add_data_options(command, options->run);
  add_label_option(command, options->run);
  add_evaluation_data_option(command, options->run, "Evaluation pages to check, also for pages that occur in both");
  add_launcher_options(command, options->run.ranks);
  command->heading("Check");
  command->add_flag("--decode-images", options->decode_images,
                    "Decode every image, not only its header: finds damaged, blank and BGR images");
  whole_number(command->add_option("--places", options->places, "Number of places to list for each kind of finding"), 1,
               1 << 20)
      ->capture_default_str();
  add_output_file(
      command, "--fix", options->fix,
      "Write a copy of --data in which faults with only one possible remedy are corrected: swapped corners, boxes "
      "from 0 to 1, boxes outside the page by a pixel; OUT.changes.jsonl lists every change")
      ->type_name("OUT");
  command->footer(
      "Exit code 3 if there are errors (with --fix: in OUT, unless it is a pipe). train makes the same\n"
      "checks before its first update.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_check(invocation, *options); }; });
}

}  // namespace plimsoll
