#include <fmt/format.h>

#include <optional>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/document_input.h"
#include "cli/outputs.h"
#include "cli/part_files.h"
#include "cli/rank_options.h"
#include "cli/signals.h"

namespace plimsoll {
namespace {

struct OcrCommand {
  DocumentInput input;
  std::string output, shard, budget;
  RankRequest ranks;
  const Command* command = nullptr;
};

nlohmann::json problems_json(const std::vector<Problem>& problems) {
  nlohmann::json list = nlohmann::json::array();
  for (const Problem& problem : problems) list.push_back(problem_json(problem));
  return list;
}

void run_ocr(Invocation& invocation, OcrCommand& command) {
  watch_signals();
  MemoryRequest memory;
  if (!command.budget.empty()) memory.budget_bytes = parse_bytes(command.budget, "--budget");
  command.ranks.resolve(memory);
  check_budget(memory);
  const std::optional<ShardNumber> shard = shard_of(command.shard, command.output, command.ranks.launch.size);
  connect_ranks(invocation, command.ranks);
  const DocumentInput& input = command.input;
  PagesPlace place{.output = command.output,
                   .images = input.images,
                   .threads = sharing_threads(invocation, command.ranks.launch),
                   .budget = reading_budget(memory),
                   .shard = shard};
  if (place.images.empty() && !is_special_file(place.output)) place.images = place.output.string() + ".images";
  std::optional<PartFile> part;
  if (shard) {
    part.emplace(command.output, *shard,
                 part_identity("ocr", *command.command, "jsonl", nlohmann::json(), documents_fingerprint(input)));
    if (tell_finished(invocation, *part, *shard)) return;
    part->begin();
    place.output = part->path();
    place.named_from = command.output;
  }
  const WrittenPages summary = write_pages(invocation, input, place);
  if (part) {
    part->finish(summary.range, summary.sum,
                 {{"pages", summary.pages}, {"unreadable", problems_json(summary.unreadable)}});
  }
  if (!summary.unreadable.empty()) invocation.exit_code = ExitCode::kData;
  const std::string output = place.output.string();
  if (invocation.json) {
    return print_json({{"pages", summary.pages},
                       {"words", summary.words},
                       {"pages_without_words", summary.pages_without_words},
                       {"pages_with_own_text", summary.pages_with_own_text},
                       {"turned_pages", summary.turned_pages},
                       {"unsure_words", summary.unsure_words},
                       {"unreadable", problems_json(summary.unreadable)},
                       {"output", output}});
  }
  std::string notes;
  if (summary.pages_with_own_text > 0) {
    notes += fmt::format("; {} text of their own", counted(summary.pages_with_own_text, "page has", "pages have"));
  }
  if (summary.turned_pages > 0) {
    notes += fmt::format("; {} turned", counted(summary.turned_pages, "page was", "pages were"));
  }
  if (summary.unsure_words > 0) notes += fmt::format("; {} left out as unsure", counted(summary.unsure_words, "word"));
  print_line(fmt::format("{}, {}, written to {}{}", counted(summary.pages, "page"), counted(summary.words, "word"),
                         output, notes));
}

}  // namespace

void add_ocr(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "ocr", "Read words and boxes from scans and PDF files (Tesseract)");
  auto ocr = std::make_shared<OcrCommand>();
  add_document_options(command, ocr->input);
  command->get_option("--input")->required();
  command
      ->add_option("--budget", ocr->budget,
                   "Memory limit of the process, within which as many pages are read at once as fit: 900MiB, 3GiB "
                   "(default: 95 % of the free memory)")
      ->type_name("SIZE");
  command->heading("Output");
  add_output_file(
      command, "--output", ocr->output,
      "JSONL file with one line per page: id, image, width, height, words, boxes (in pixels) and confidences")
      ->required();
  add_shard_option(command, ocr->shard);
  ocr->command = command;
  add_launcher_options(command, ocr->ranks);
  command->footer(
      "The lines have no labels: `predict` takes them as they are; to train, add \"labels\", a name for each\n"
      "word. Pages of one file share a `document`. PDF files are read by Poppler (apt-get install poppler-utils)\n"
      "or pypdfium2 (pip install pypdfium2): their own text where they have it, else what Tesseract reads\n"
      "on the page's picture.\n"
      "A file that cannot be read is named and left out; the exit code is then 3. See docs/ocr.md.\n"
      "\n"
      "  plimsoll ocr --input scans contract.pdf --output pages.jsonl\n"
      "  plimsoll predict --model run --input contract.pdf --output fields.jsonl");
  command->callback([&invocation, ocr] { invocation.action = [&invocation, ocr] { run_ocr(invocation, *ocr); }; });
}

}  // namespace plimsoll
