#include "doctor/signs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <vector>

#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

// A metric's name consists of these words, perhaps followed by digits, …
constexpr std::string_view kMetrics[] = {
    "acc",       "accuracy", "f",       "fscore",     "precision", "recall",    "auc",      "auroc",
    "auprc",     "ap",       "map",     "ar",         "bleu",      "sacrebleu", "rouge",    "rougel",
    "rougelsum", "meteor",   "chrf",    "wer",        "cer",       "iou",       "miou",     "dice",
    "mcc",       "kappa",    "pearson", "spearman",   "pearsonr",  "spearmanr", "matthews", "exact",
    "ndcg",      "mrr",      "hmean",   "perplexity", "ppl",       "mse",       "mae",      "rmse",
    "score",     "anls",     "las",     "uas",        "psnr",      "ssim",      "fid",      "eer"};
// … and of these.
constexpr std::string_view kQualifiers[] = {
    "",         "eval",    "evaluation", "val",      "valid",       "validation", "test",   "dev",   "train",
    "training", "avg",     "average",    "mean",     "best",        "final",      "micro",  "macro", "weighted",
    "overall",  "total",   "step",       "epoch",    "top",         "at",         "bbox",   "segm",  "mask",
    "box",      "coco",    "ner",        "ents",     "tags",        "seq",        "class",  "pixel", "token",
    "sentence", "word",    "balanced",   "binary",   "categorical", "sparse",     "cosine", "match", "correlation",
    "current",  "running", "entity",     "question", "answer",      "document",   "page",   "p",     "r",
    "l",        "lsum"};
// Alone, these may be settings or anything else.
constexpr std::string_view kSettings[] = {"f", "ap", "map", "ar", "iou", "dice", "exact", "score", "top"};
// An evaluation's loss is a result, too.
constexpr std::string_view kEvaluations[] = {"eval", "val", "valid", "validation", "test", "dev"};
// Progress bars with these words are for work before training.
constexpr std::string_view kBefore[] = {
    "download", "loading",  "fetch",       "map:",   "map (", "filter",  "token",   "generating", "extract",
    "saving",   "creating", "process",     "pack",   "group", "sanity",  "reading", "resolv",     "flatten",
    "cast",     "upload",   "safetensors", ".json",  ".bin",  ".txt",    ".model",  "shard",      "checksum",
    "convert",  "format",   "quantiz",     "cach",   "warm",  "appl",    "trunc",   "build",      "pars",
    "scan",     "writ",     "push",        "captur", "check", "collect", "prepar",  "import"};
constexpr std::string_view kUnitsBefore[] = {"b/s]",    "ex/s]",    "examples/s]", "ba/s]",
                                             "rows/s]", "files/s]", "lines/s]"};
// A bar without a name that has fewer steps may belong to anything.
constexpr std::uint64_t kStepsOfTraining = 10;

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool holds_one_of(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}
bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_name_char(char c) {
  return is_small_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '@' || c == '/' || c == '-' || c == '.';
}

// True for "val/acc@1", "bbox_map_50", "rouge-l".
bool names_metric(std::string_view name) {
  if (is_one_of(name, kSettings)) return false;
  bool metric = false, evaluation = false, loss = false;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("_@/-."), name.size());
    std::string_view word = name.substr(0, end);
    while (!word.empty() && word.back() >= '0' && word.back() <= '9') word.remove_suffix(1);
    evaluation = evaluation || is_one_of(word, kEvaluations);
    if (word == "loss")
      loss = true;
    else if (is_one_of(word, kMetrics))
      metric = true;
    else if (!is_one_of(word, kQualifiers))
      return false;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return metric || (loss && evaluation);
}

// True for "0.9124" and "91.2%": a number that looks like a result, with a point or a percent sign.
bool begins_with_result(std::string_view text) {
  for (const std::string_view type : {"np.float64(", "np.float32(", "tensor("})
    if (text.starts_with(type)) text.remove_prefix(type.size());
  const std::size_t end = std::min(text.find_first_not_of("0123456789.", text.starts_with('-') ? 1 : 0), text.size());
  const std::string_view number = text.substr(0, end);
  if (number.empty() || number.find_first_of("0123456789") == std::string_view::npos || number.ends_with('.'))
    return false;
  if (end < text.size() && (is_small_letter(text[end]) && text[end] != 'e')) return false;
  return number.find('.') != std::string_view::npos ||
         (text.substr(end).starts_with('%') && !text.substr(end).starts_with("%|"));
}

std::vector<std::string_view> cells_of(std::string_view small) {
  constexpr std::string_view kBetween = " \t|";
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; (begin = small.find_first_not_of(kBetween, begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(small.find_first_of(kBetween, begin), small.size());
    cells.push_back(small.substr(begin, end - begin));
    begin = end;
  }
  return cells;
}

}  // namespace

bool states_metric(std::string_view small) {
  constexpr std::size_t kFarthest = 64;
  for (std::size_t begin = 0; begin < small.size();) {
    if (!is_small_letter(small[begin]) || (begin > 0 && is_name_char(small[begin - 1]))) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < small.size() && is_name_char(small[end])) ++end;
    const std::string_view name = small.substr(begin, end - begin);
    // Blanks, quotes, a sign, or the lines of a drawn table may be between them.
    std::size_t value = end;
    while (value < small.size() && value - end < kFarthest &&
           (std::string_view(" \t'\":=|").find(small[value]) != std::string_view::npos ||
            static_cast<unsigned char>(small[value]) >= 0x80))
      ++value;
    // "test mAP": what alone might be a setting is a result after such a word.
    const std::string_view before = trimmed(small.substr(0, begin));
    const bool evaluated = std::ranges::any_of(kEvaluations, [&](std::string_view word) {
      return before.ends_with(word) &&
             (before.size() == word.size() || !is_small_letter(before[before.size() - word.size() - 1]));
    });
    if (value > end && begins_with_result(small.substr(value)) &&
        (names_metric(name) || (evaluated && is_one_of(name, kSettings)))) {
      return true;
    }
    begin = end;
  }
  return false;
}

bool is_preparing_bar(std::string_view small) {
  const std::size_t percent = small.find("%|");
  // Also without the bar itself, as in some notebooks: "Loading checkpoint shards: 1/5 [00:02<00:05, 2.91s/it]".
  const std::string_view name =
      small.substr(0, percent != std::string_view::npos ? percent : std::min(small.find(" ["), small.size()));
  if (percent == std::string_view::npos && name.size() == small.size()) return holds_one_of(small, kUnitsBefore);
  return holds_one_of(name, kBefore) || holds_one_of(small, kUnitsBefore);
}

bool is_finished_bar(std::string_view small) {
  const std::size_t percent = small.find("100%|");
  if (percent == std::string_view::npos || is_preparing_bar(small)) return false;
  // "| 240/240 [02:14<00:00,  1.78it/s]"
  const std::size_t bar = small.find('|', percent + 5), slash = small.find('/', bar);
  if (bar == std::string_view::npos || slash == std::string_view::npos) return false;
  std::uint64_t total = 0;
  std::from_chars(small.data() + slash + 1, small.data() + small.size(), total);
  const bool named = holds_one_of(small.substr(0, percent),
                                  std::to_array<std::string_view>({"train", "epoch", "eval", "test", "valid", "predict",
                                                                   "iter", "step", "infer", "loss"}));
  return total >= (named ? 1 : kStepsOfTraining);
}

// Reads "E    #   LOSS NER  ENTS_F  SCORE", a line of dashes, "2     200  1921.52   62.21    0.62".
bool SignsReader::is_row_of_results(std::string_view small) {
  constexpr std::size_t kMaxHeading = 300;
  if (small.find_first_not_of(" \t|:+=-") == std::string_view::npos) return false;
  const std::vector<std::string_view> cells = cells_of(small);
  const auto is_number = [](std::string_view cell) {
    return cell.find_first_of("0123456789") != std::string_view::npos &&
           cell.find_first_not_of("0123456789.,:%+-e") == std::string_view::npos;
  };
  const auto numbers = std::count_if(cells.begin(), cells.end(), is_number);
  const bool measured = std::any_of(cells.begin(), cells.end(), [&](std::string_view cell) {
    return is_number(cell) && cell.find('.') != std::string_view::npos;
  });
  if (below_heading_ && measured && cells.size() >= 2 && numbers + 1 >= static_cast<std::ptrdiff_t>(cells.size()))
    return true;
  // A heading has no number, and is not a sentence.
  below_heading_ = cells.size() >= 2 && numbers == 0 && small.size() < kMaxHeading &&
                   small.find_first_of(":=,;") == std::string_view::npos && !small.ends_with('.') &&
                   std::any_of(cells.begin(), cells.end(), names_metric);
  return false;
}

bool SignsReader::read(std::string_view small) {
  return is_row_of_results(small) || states_metric(small) || is_finished_bar(small);
}

bool measures_error(std::string_view small) {
  const std::size_t at = small.find("error");
  if (at == std::string_view::npos) return false;
  const std::size_t value = small.find_first_not_of(" '\":=_rate", at + 5);
  return value != std::string_view::npos && small[value] >= '0' && small[value] <= '9';
}

}  // namespace plimsoll::doctor
