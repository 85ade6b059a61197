#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/work_folder.h"
#include "bundle/model_place.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/page_bar.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "compress/vocabulary.h"
#include "request/check_data.h"
#include "request/reading.h"

namespace plimsoll {
namespace {

constexpr const char* kTokenizerFolder = "tokenizer";  // in the work folder

struct TrimOptions {
  RunOptions run;
  std::string output_dir;
};

// What trimming changes on pages whose tokens were not counted.
struct Unseen {
  std::uint64_t pages = 0, words = 0, words_cut_otherwise = 0, tokens_before = 0, tokens_now = 0;
  std::uint64_t unknown_before = 0, unknown_now = 0;
};

std::uint64_t unknown_of(const PageTokens& tokens, std::int32_t unknown) {
  return unknown == kNoToken ? 0 : static_cast<std::uint64_t>(std::ranges::count(tokens.ids, unknown));
}

Unseen compare(const TokenizedPages& before, const TokenizedPages& now, const Tokenizer& old,
               const Tokenizer& trimmed) {
  Unseen unseen{.pages = before.size()};
  PageTokens first, second;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t words = before.read(i, first).words.size();
    now.read(i, second);
    std::vector<std::uint32_t> pieces(words), pieces_now(words);
    for (const std::int32_t word : first.words) ++pieces[static_cast<std::size_t>(word)];
    for (const std::int32_t word : second.words) ++pieces_now[static_cast<std::size_t>(word)];
    for (std::size_t word = 0; word < words; ++word) unseen.words_cut_otherwise += pieces[word] != pieces_now[word];
    unseen.words += words;
    unseen.tokens_before += first.ids.size();
    unseen.tokens_now += second.ids.size();
    unseen.unknown_before += unknown_of(first, old.special().unk);
    unseen.unknown_now += unknown_of(second, trimmed.special().unk);
  }
  return unseen;
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// `texts`: the data are texts, each of one or two parts that are encoded whole.
std::string unseen_text(const Unseen& unseen, bool texts) {
  const std::string where = texts ? "" : fmt::format("on {} of the evaluation data ", counted(unseen.pages, "page"));
  std::string text = fmt::format("{}{:.1f} % of {} are cut into other pieces; {} instead of {}", where,
                                 percent(unseen.words_cut_otherwise, unseen.words),
                                 counted(unseen.words, texts ? "text of the evaluation data" : "word",
                                         texts ? "texts of the evaluation data" : "words"),
                                 counted(unseen.tokens_now, "token"), unseen.tokens_before);
  if (unseen.unknown_now != unseen.unknown_before) {
    text += fmt::format(", {} of them unknown instead of {}", unseen.unknown_now, unseen.unknown_before);
  }
  return text;
}

void refuse_adapter(const ModelBundle& bundle) {
  if (!bundle.options.lora.enabled()) return;
  throw UsageError({.what = "an adapter has no vocabulary of its own",
                    .where = "--model",
                    .found = bundle.origin,
                    .allowed = "a model directory with all its weights",
                    .remedy = "merge the adapter first: plimsoll merge --adapter DIR --output-dir MERGED"});
}

void run_trim(Invocation& invocation, TrimOptions& trim) {
  RunOptions& options = trim.run;
  options.resolve();
  refuse_replacing({{"--output-dir", trim.output_dir}}, options.inputs());
  const ModelBundle bundle = open_trained_model(options.model.model, options.model.tokenizer);
  refuse_adapter(bundle);
  verify_weights(bundle);
  const ReadOptions reading = read_options(bundle, options.data, false);
  PageBar bar("pages read", invocation.json);
  const auto progress = [&bar](std::size_t done, std::size_t pages) { bar.draw(done, pages); };
  const auto open = [&](const ModelBundle& of, const PagePaths& paths) -> std::shared_ptr<const TokenizedPages> {
    if (!of.task().reads_pairs()) return open_tokenized(of, options.data, paths, reading, progress);
    DataRequest request = options.data;
    request.data = paths;
    return open_pairs(of, request, {}, reading, progress).train;
  };
  const auto before = open(bundle, options.data.data);
  const TokenCounts counts = count_tokens(*before, bundle.facts().vocab_size);
  bar.clear();

  ModelDirectory directory(trim.output_dir, "--output-dir");
  const TrimmedModel trimmed(bundle, counts, directory.work_directory(kTokenizerFolder));
  trimmed.verify(*before, *open(trimmed.bundle(), options.data.data));
  std::optional<Unseen> unseen;
  if (!options.eval_data.empty()) {
    unseen = compare(*open(bundle, options.eval_data), *open(trimmed.bundle(), options.eval_data), *bundle.tokenizer,
                     *trimmed.bundle().tokenizer);
  }
  remove_work_directory(trim.output_dir, kTokenizerFolder);
  write_model(trim.output_dir, [&](const std::filesystem::path& aside) { return trimmed.save(aside); });

  const std::int64_t parameters = parameter_count(bundle.specs());
  const double unseen_share = 100 * counts.unseen_share();
  if (invocation.json) {
    nlohmann::json object = {{"pages", counts.pages},
                             {"tokens_used", counts.distinct()},
                             {"vocab_size_before", bundle.facts().vocab_size},
                             {"vocab_size", trimmed.kept().size()},
                             {"parameters_before", parameters},
                             {"parameters", trimmed.parameters()},
                             {"unseen_tokens_percent", unseen_share},
                             {"output_dir", trim.output_dir}};
    if (unseen) {
      object["evaluation"] = {{"pages", unseen->pages},
                              {"words", unseen->words},
                              {"words_cut_otherwise", unseen->words_cut_otherwise},
                              {"tokens_before", unseen->tokens_before},
                              {"tokens", unseen->tokens_now},
                              {"unknown_tokens_before", unseen->unknown_before},
                              {"unknown_tokens", unseen->unknown_now}};
    }
    return print_json(object);
  }
  const bool texts = bundle.task().reads_text();
  const std::string data =
      texts ? counted(counts.pages, "text")
            : fmt::format("{} with {}", counted(counts.pages, "page"), counted(counts.words, "word"));
  print_line(fmt::format("{} {} {} of {}; {} stay, with special tokens, single characters and what merges need", data,
                         texts && counts.pages == 1 ? "uses" : "use", counts.distinct(),
                         counted(bundle.facts().vocab_size, "token"), trimmed.kept().size()));
  print_line(fmt::format(
      "{} instead of {} ({:.0f} % fewer), written to {}", counted(trimmed.parameters(), "parameter"), parameters,
      percent(static_cast<std::uint64_t>(parameters - trimmed.parameters()), static_cast<std::uint64_t>(parameters)),
      trim.output_dir));
  print_line(
      fmt::format("these {} are cut into the same pieces as before; of further text like theirs about {:.2g} % "
                  "of the tokens would be cut into smaller ones",
                  texts ? "texts" : "pages", unseen_share));
  if (texts && trimmed.parameters() < parameters) {
    print_line(
        "losses and perplexities of the two models are over different vocabularies, so they do not show which is "
        "better");
  }
  if (unseen) print_line(unseen_text(*unseen, texts));
}

}  // namespace

void add_trim(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "trim", "Remove tokens that the data never uses from a model's vocabulary");
  auto options = std::make_shared<TrimOptions>();
  add_model_options(command, options->run, false);
  add_data_options(command, options->run);
  add_evaluation_data_option(command, options->run, "Pages on which to report the effect of trimming");
  command->heading("Output");
  command->add_option("--output-dir", options->output_dir, "Hugging Face model directory to write")
      ->type_name("DIR")
      ->required();
  command->footer(
      "Tokens that occur in --data stay, and with them special tokens, single characters and the tokens that\n"
      "merges go through. Pages of --data are tokenized as before and give the same results; other text may\n"
      "be split into more and smaller pieces. Trim before training, with all pages that you have:\n"
      "\n"
      "  plimsoll trim --model lilt-infoxlm-base --data train.jsonl --data unlabelled.jsonl --output-dir smaller");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_trim(invocation, *options); }; });
}

}  // namespace plimsoll
