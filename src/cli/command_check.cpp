#include <fmt/format.h>

#include "cli/command.h"
#include "cli/run_options.h"
#include "data/check.h"

namespace plimsoll {
namespace {

void run_check(const Invocation& invocation, RunOptions& options, bool decode_images) {
  options.resolve();
  ModelBundle bundle = open_model(options.model.model, options.model.tokenizer, options.model.base_model);
  const CheckReport report = check_data(bundle, options.model, options.data, decode_images);
  if (invocation.json) {
    print_json({{"pages", report.pages},
                {"words", report.words},
                {"labelled_words", report.labelled_words},
                {"windows", report.windows},
                {"longest_page_tokens", report.longest_page_tokens},
                {"errors", report.findings.count(Severity::kError)},
                {"warnings", report.findings.count(Severity::kWarning)},
                {"findings", nlohmann::json::parse(report.findings.to_json())}});
  } else {
    print_line(report.findings.to_text() +
               fmt::format("{} pages, {} words ({} with a label), {} windows; the longest page has {} tokens\n{}",
                           report.pages, report.words, report.labelled_words, report.windows,
                           report.longest_page_tokens,
                           report.findings.count(Severity::kError) > 0
                               ? fmt::format("{} error{}: training would refuse this data",
                                             report.findings.count(Severity::kError),
                                             report.findings.count(Severity::kError) == 1 ? "" : "s")
                               : "no errors"));
  }
  if (report.findings.count(Severity::kError) > 0) invocation.exit_code = ExitCode::kData;
}

}  // namespace

void add_check(CLI::App& app, Invocation& invocation) {
  CLI::App* command = add_command(app, invocation, "check", "Read a whole data set and say what would break a run");
  auto options = std::make_shared<RunOptions>();
  auto decode = std::make_shared<bool>(false);
  add_model_options(command, *options);
  add_data_options(command, *options);
  add_label_option(command, *options);
  command->add_flag("--decode-images", *decode, "Decode every image too, not only its header");
  add_footer(command, "Exit code 3 if there are errors. train makes the same checks before its first update.");
  command->callback([&invocation, options, decode] {
    invocation.action = [&invocation, options, decode] { run_check(invocation, *options, *decode); };
  });
}

}  // namespace plimsoll
