#include <fmt/format.h>

#include "base/bytes.h"
#include "base/counted.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/rank_options.h"
#include "cli/usage.h"
#include "draw/synth.h"

namespace plimsoll {
namespace {

struct SynthCommand {
  SynthOptions options{};
  std::string layout = "receipts";
  RankRequest ranks;
};

void run_synth(Invocation& invocation, SynthCommand& command) {
  command.ranks.find();
  connect_ranks(invocation, command.ranks);
  SynthOptions options = command.options;
  options.layout = command.layout == "forms" ? SynthLayout::kForms : SynthLayout::kReceipts;
  if (invocation.is_first()) make_directory_of(options.output_dir, "--output", "synth");
  if (invocation.ranks != nullptr) {
    wait_for_ranks(invocation);
    options.share = page_share(invocation);
    options.threads = sharing_threads(invocation, command.ranks.launch);
  }
  const SynthSummary summary = synthesize(options);
  if (invocation.json) {
    return print_json({{"train_file", summary.train_file.string()},
                       {"validation_file", summary.validation_file.string()},
                       {"train_pages", summary.train_pages},
                       {"validation_pages", summary.validation_pages},
                       {"words", summary.words}});
  }
  print_line(fmt::format("{} for training in {}, {} for validation in {}; {}, {} of pictures",
                         counted(summary.train_pages, "page"), summary.train_file.string(), summary.validation_pages,
                         summary.validation_file.string(), counted(summary.words, "word"),
                         format_bytes(summary.image_bytes)));
}

}  // namespace

void add_synth(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "synth", "Generate labelled receipts and forms for trying Plimsoll");
  auto synth = std::make_shared<SynthCommand>();
  SynthOptions& options = synth->options;
  command->heading("Pages");
  command->add_option("--output", options.output_dir, "Directory for train.jsonl, validation.jsonl and images/")
      ->type_name("DIR")
      ->required();
  one_of(command->add_option(
             "--layout", synth->layout,
             "receipts: receipts, invoices and claims, words labelled COMPANY, ADDRESS, DATE and TOTAL; "
             "forms: words labelled HEADER, QUESTION and ANSWER, with entities and the links between them"),
         {"receipts", "forms"})
      ->type_name("NAME")
      ->capture_default_str();
  whole_number(command->add_option("--count", options.count, "Number of pages, validation pages included"), 1, 1000000)
      ->capture_default_str();
  whole_number(command->add_option("--seed", options.seed, "Random seed: the same seed gives the same files"), 0)
      ->capture_default_str();
  number(command->add_option("--validation-fraction", options.validation_fraction,
                             "Fraction of the pages held out for validation"),
         0, 1)
      ->capture_default_str();
  add_launcher_options(command, synth->ranks);
  command->callback(
      [&invocation, synth] { invocation.action = [&invocation, synth] { run_synth(invocation, *synth); }; });
}

}  // namespace plimsoll
