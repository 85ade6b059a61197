#include "doctor/goes_on.h"

#include <algorithm>

namespace plimsoll::doctor {
namespace {

constexpr std::uint64_t kEnoughOfShape = 3;
constexpr std::size_t kMaxShapes = 32, kMaxShapeLine = 1000;
// At most this many characters are between a word and its number: "step:    40", "lr=[5e-05", "epoch no. 3".
constexpr std::size_t kToNumber = 8;

// A number next to one of these counts training steps, or measures training.
constexpr std::string_view kCounted[] = {
    "epoch",      "epochs",    "step",       "steps",         "iter",        "iters",     "iteration", "iterations",
    "batch",      "batches",   "minibatch",  "update",        "updates",     "forward",   "backward",  "fwd",
    "bwd",        "microstep", "globalstep", "samplespersec", "samples/sec", "samples/s", "sample/s",  "tokens/s",
    "tokens/sec", "tok/s",     "toks/s",     "it/s",          "s/it",        "iter/s",    "iters/s",   "s/iter",
    "step/s",     "steps/s",   "s/step",     "ms/step",       "imgs/s",      "img/s",     "images/s",  "images/sec",
    "img/sec",    "words/s",   "words/sec",  "wps",           "fps",         "tps",       "ips",       "mfu",
    "throughput", "loss",      "losses",     "learn",         "episode",     "episodes",  "timesteps", "reward",
    "round",      "tick",      "kimg"};
// Lines with these report work before training, or no progress.
constexpr std::string_view kOther[] = {
    "download",  "loading",    "fetching", "tokeniz",  "extract",  "preprocess", "prepar",     "generating", "caching",
    "convert",   "quantiz",    "calibrat", "filter",   "map:",     "map (",      "shard",      "indexing",   "packing",
    "retry",     "retrying",   "attempt",  "waiting",  "skipping", "overflow",   "rendezvous", "reading",    "resum",
    "processed", "processing", "parsing",  "scanning", "building", "compil",     "install",    "restor",     "warning",
    "unzip",     "upload",     "writing",  "schedul",  "pending",  "queue",      "initializ",  "stuck",      "hang"};

bool is_number_digit(char c) { return c >= '0' && c <= '9'; }
bool is_shape_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '/'; }

// Returns the end of the number that begins there: "3e-05", "1,234.5", "0.9", "12:34:56".
std::size_t number_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size()) {
    const char c = text[end];
    const bool joins = (c == '.' || c == ',' || c == ':') && end + 1 < text.size() && is_number_digit(text[end + 1]);
    const bool exponent = c == 'e' && end > begin && end + 1 < text.size() &&
                          (is_number_digit(text[end + 1]) || ((text[end + 1] == '-' || text[end + 1] == '+') &&
                                                              end + 2 < text.size() && is_number_digit(text[end + 2])));
    if (is_number_digit(c) || joins)
      ++end;
    else if (exponent)
      end += 2;
    else
      break;
  }
  return end;
}

// True for "forward_microstep", because of its parts, but not for "learning_rate".
bool is_counted(std::string_view word) {
  const auto is_one = [](std::string_view name) {
    return std::find(std::begin(kCounted), std::end(kCounted), name) != std::end(kCounted);
  };
  if (is_one(word)) return true;
  while (!word.empty()) {
    const std::size_t end = std::min(word.find_first_of("_/"), word.size());
    if (is_one(word.substr(0, end))) return true;
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return false;
}

// True for the text between the numbers of a counter: "][", "/".
bool is_list(std::string_view between) {
  return !between.empty() && between.size() <= 3 && between.find_first_not_of("[](),/") == std::string_view::npos;
}

// The shape of a line, and the numbers beside words that count.
struct Parts {
  std::string shape{}, numbers{};
};
Parts take_apart(std::string_view small) {
  Parts parts;
  std::string_view last_number;
  std::size_t last_word_end = 0, last_number_end = 0;
  std::size_t last_counted_end = 0;  // of the last number that counts, if no word follows it; else 0
  bool counted = false;              // the last word counts, and has no number yet
  for (std::size_t i = 0; i < small.size();) {
    // A sign belongs to the number: "reward=-1.2".
    if (small[i] == '-' && i + 1 < small.size() && is_number_digit(small[i + 1]) && i > 0 &&
        std::string_view(" =:([").find(small[i - 1]) != std::string_view::npos) {
      ++i;
      continue;
    }
    if (is_number_digit(small[i])) {
      const std::size_t end = number_end(small, i);
      last_number = small.substr(i, end - i);
      last_number_end = end;
      const std::size_t after = counted ? last_word_end : last_counted_end;
      if (counted ? i - after <= kToNumber : after > 0 && is_list(small.substr(after, i - after))) {
        parts.numbers.append(last_number) += ' ';
        last_counted_end = end;  // "[1][50/3696]": the next number belongs to the same word
        counted = false;
      } else {
        last_counted_end = 0;
      }
      parts.shape += '#';
      i = end;
    } else if (is_shape_letter(small[i])) {
      std::size_t end = i;
      while (end < small.size() && is_shape_letter(small[end])) ++end;
      const std::string_view word = small.substr(i, end - i);
      // "epoch(train) [1]"
      const bool qualifies = counted && small[i - 1] == '(' && end < small.size() && small[end] == ')';
      counted = qualifies || is_counted(word);
      last_counted_end = 0;
      last_word_end = end;
      // "83.4 samples/s", "0.9s/it"
      if (counted && !last_number.empty() && i - last_number_end <= 1 && word.find('/') != std::string_view::npos)
        parts.numbers.append(last_number) += ' ';
      parts.shape += word;
      i = end;
    } else {
      // Columns are padded with blanks, and bars with a growing number of one sign.
      if (parts.shape.empty() || parts.shape.back() != small[i]) parts.shape += small[i];
      ++i;
    }
  }
  return parts;
}

// "   38/89   5.62G   0.0208   0.00897   6   640": in this row of a table, whose heading is far above, the first number
// counts epochs.
Parts take_row_apart(std::string_view small) {
  constexpr std::size_t kFewestResults = 3;
  const std::size_t begin = std::min(small.find_first_not_of(' '), small.size());
  const std::size_t slash = number_end(small, begin);
  if (slash == begin || slash >= small.size() || small[slash] != '/') return {};
  const std::size_t end = number_end(small, slash + 1);
  if (end == slash + 1 || end >= small.size() || small[end] != ' ') return {};
  std::size_t results = 0;
  for (std::size_t at = end; at < small.size();) {
    if (!is_number_digit(small[at])) {
      ++at;
      continue;
    }
    const std::size_t next = number_end(small, at);
    results += small.substr(at, next - at).find('.') != std::string_view::npos;
    at = next;
  }
  if (results < kFewestResults) return {};
  return {.shape = "#/# row", .numbers = std::string(small.substr(begin, slash - begin))};
}

bool tells_other(std::string_view small) {
  return std::any_of(std::begin(kOther), std::end(kOther),
                     [&](std::string_view word) { return small.find(word) != std::string_view::npos; });
}

}  // namespace

GoesOnReader::Shape& GoesOnReader::shape_of(std::string text) {
  auto shape = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& s) { return s.text == text; });
  if (shape != shapes_.end()) return *shape;
  if (shapes_.size() == kMaxShapes)
    shapes_.erase(std::min_element(shapes_.begin(), shapes_.end(),
                                   [](const Shape& a, const Shape& b) { return a.read_at < b.read_at; }));
  return shapes_.emplace_back(Shape{std::move(text)});
}

bool GoesOnReader::read(std::string_view small) {
  ++read_;
  if (small.size() > kMaxShapeLine || tells_other(small)) return false;
  Parts parts = take_apart(small);
  if (parts.numbers.empty()) parts = take_row_apart(small);
  if (parts.numbers.empty()) return false;
  Shape& shape = shape_of(std::move(parts.shape));
  shape.read_at = read_;
  // Several ranks print the same for one step.
  if (shape.lines > 0 && shape.numbers == parts.numbers) return false;
  shape.numbers = std::move(parts.numbers);
  return ++shape.lines >= kEnoughOfShape;
}

}  // namespace plimsoll::doctor
