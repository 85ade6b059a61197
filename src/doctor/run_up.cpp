#include "doctor/run_up.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

namespace plimsoll::doctor {
namespace {

// A rise is several-fold, and not in one line. Gradients differ more from batch to batch than losses.
constexpr double kLossFold = 3, kNormFold = 5;
// The first loss is printed within this part of the first epoch; epochs that are counted begin with 1.
constexpr double kFirstPart = 0.4;

// Returns the number after the word that ends at `end`, skipping what may be between.
std::string_view number_after(std::string_view small, std::size_t end, std::string_view between) {
  const std::size_t begin = small.find_first_not_of(between, end);
  if (begin == std::string_view::npos || begin == end || small[begin] < '0' || small[begin] > '9') return {};
  return small.substr(begin, small.find_first_not_of("0123456789.e+-", begin) - begin);
}

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

// True if "loss", which begins at `at`, is an evaluation's: "eval_loss", "valid loss", "test/loss".
bool is_evaluation(std::string_view small, std::size_t at) {
  const std::string_view before = small.substr(0, at);
  for (const std::string_view word : {"eval", "val", "valid", "validation", "test", "dev"})
    if (before.size() > word.size() && before.substr(0, before.size() - 1).ends_with(word) && !is_letter(before.back()))
      return true;
  return false;
}

// Finds where the name that contains "loss" ends: in "loss_step=0.3" before the "=". "loss_scale" is not a loss.
std::size_t name_end(std::string_view small, std::size_t at) {
  for (const std::string_view suffix : {"_step", "_epoch", "_avg", "_mean", "_total", "_sum"})
    if (small.substr(at + 4).starts_with(suffix)) return at + 4 + suffix.size();
  return small.substr(at + 4).starts_with('_') ? std::string_view::npos : at + 4;
}

bool is_zero(std::string_view number) { return number.find_first_not_of("0.+-e") == std::string_view::npos; }

// True if "loss", which begins at `at`, is a part of one that may well be 0: "kl_loss", "aux_loss".
bool is_part(std::string_view small, std::size_t at) {
  const std::string_view before = small.substr(0, at);
  return before.ends_with('_') && !before.ends_with("train_") && !before.ends_with("training_") &&
         !before.ends_with("total_") && !is_evaluation(small, at);
}

std::string_view loss_in(std::string_view small, bool of_training) {
  for (std::size_t at = small.find("loss"); at != std::string_view::npos; at = small.find("loss", at + 1)) {
    if (of_training && is_evaluation(small, at)) continue;
    const std::size_t end = name_end(small, at);
    if (end == std::string_view::npos) continue;
    const std::string_view loss = number_after(small, end, "'\": =]");
    if (!loss.empty() && !(is_zero(loss) && is_part(small, at))) return loss;
  }
  return {};
}

// True if the value after a name is NaN or infinite: ": nan", "=nan.0", "   nan |", ": tensor(nan, device=…)".
bool is_nan_at(std::string_view small, std::size_t end) {
  std::string_view rest = small.substr(std::min(end, small.size()));
  const std::size_t skip = std::min(rest.find_first_not_of(" '\":=(\t]"), rest.size());
  if (skip == 0 || skip > 24) return false;
  rest.remove_prefix(skip);
  for (const std::string_view word : {"is ", "became ", "tensor("})
    if (rest.starts_with(word)) rest.remove_prefix(word.size());
  if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
  if (!rest.starts_with("nan") && !rest.starts_with("inf")) return false;
  return rest.size() == 3 || !is_letter(rest[3]) || rest.starts_with("infinity");
}

void find_nan(std::string_view small, LossLine& line) {
  for (std::size_t at = small.find("loss"); at != std::string_view::npos; at = small.find("loss", at + 1)) {
    const std::size_t end = name_end(small, at);
    if (end == std::string_view::npos || !is_nan_at(small, end)) continue;
    (is_evaluation(small, at) ? line.eval_nan : line.train_nan) = true;
  }
  for (const std::string_view word : {"grad_norm", "grad norm", "gradient norm", "gnorm"}) {
    const std::size_t at = small.find(word);
    if (at != std::string_view::npos && is_nan_at(small, at + word.size())) line.norm_nan = true;
  }
}

double value(std::string_view number) {
  double read = 0;
  std::from_chars(number.data(), number.data() + number.size(), read);
  return read;
}

double norm_in(std::string_view small) {
  for (const std::string_view word : {"grad_norm", "grad norm", "gradient norm", "gnorm"}) {
    const std::size_t at = small.find(word);
    if (at != std::string_view::npos) return value(number_after(small, at + word.size(), "'\": ="));
  }
  return 0;
}

// Looks at the values from the smallest on: they rise over at least two steps, few of which go down.
bool rose(std::span<const double> values, double fold) {
  const auto low = std::min_element(values.begin(), values.end());
  const std::span<const double> rise(low, values.end());
  if (rise.size() < 3 || rise.back() < fold * *low || rise[rise.size() - 2] < 1.5 * *low) return false;
  std::size_t up = 0;
  for (std::size_t i = 1; i < rise.size(); ++i) up += rise[i] > rise[i - 1];
  return 4 * up >= 3 * (rise.size() - 1);
}
// True if none of several losses came down to where they began, so the run never learned, and the last one is half as
// much again.
bool never_fell(std::span<const double> values) {
  return values.size() >= 5 && values.back() > 1.5 * values.front() &&
         std::all_of(values.begin() + 1, values.end(), [&](double value) { return value > values.front(); });
}
// True if the last one is close to the others.
bool was_steady(std::vector<double> values, double fold) {
  if (values.empty()) return true;
  const double last = values.back();
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return last < fold * values[values.size() / 2];
}

}  // namespace

LossLine read_losses(std::string_view small) {
  LossLine line{loss_in(small, false), loss_in(small, true)};
  find_nan(small, line);
  line.finite = !line.train_nan && !line.eval_nan && !line.norm_nan && (line.loss.empty() || !is_zero(line.loss));
  return line;
}

std::string LossTable::read_row(std::string_view small) {
  std::size_t loss = std::string_view::npos;
  for (const std::string_view name : {"training loss", "train_loss", "train loss"})
    loss = std::min(loss, small.find(name));
  if (loss != std::string_view::npos && small.size() < 200) {
    // A progress bar may precede the heading: "[ 850/1200 03:24 Step  Training Loss".
    std::size_t begin = std::min(small.find_first_not_of(" |"), small.size());
    if (small.substr(begin).starts_with('['))
      begin = std::min({small.rfind("step", loss), small.rfind("epoch", loss), small.size()});
    const std::string_view heading = small.substr(begin);
    inside_ = heading.find_first_of(":=") == std::string_view::npos &&
              (heading.starts_with("step") || heading.starts_with("epoch"));
    return {};
  }
  if (!inside_) return read_bare_row(small);
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; (begin = small.find_first_not_of(" \t|", begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(small.find_first_of(" \t|", begin), small.size());
    cells.push_back(small.substr(begin, end - begin));
    begin = end;
  }
  if (cells.empty() || (cells.size() == 1 && cells[0].find_first_not_of("-:") == std::string_view::npos)) return {};
  const auto is_cell = [](std::string_view cell) {
    return cell == "nan" || cell == "inf" || cell == "no" || cell == "log" ||
           cell.find_first_not_of("0123456789.,e+-:") == std::string_view::npos;
  };
  inside_ = std::all_of(cells.begin(), cells.end(), is_cell);
  if (!inside_ || cells.size() < 2 || cells[0].find_first_of("0123456789") == std::string_view::npos) return {};
  // "1  No log  31.66": an evaluation before the first loss of training.
  if (cells[1] == "no") return {};
  std::string row = "'loss': " + std::string(cells[1]);
  if (cells.size() > 2) row += ", 'eval_loss': " + std::string(cells[2]);
  return row;
}

std::string LossTable::read_bare_row(std::string_view small) {
  constexpr std::size_t kEnough = 3;
  const std::string_view row = trimmed(small);
  const std::size_t blank = row.find_first_of(" \t");
  if (blank == std::string_view::npos || row.substr(0, blank).find_first_not_of("0123456789") != std::string_view::npos)
    return {};
  const std::string_view loss = trimmed(row.substr(blank));
  std::uint64_t step = 0;
  std::from_chars(row.data(), row.data() + blank, step);
  const bool grows = step > bare_step_;
  bare_step_ = step;
  const bool is_number =
      loss.find('.') != std::string_view::npos && loss.find_first_not_of("0123456789.e+-") == std::string_view::npos;
  const std::string text =
      grows && bare_rows_ >= kEnough && (is_number || loss == "nan") ? "'loss': " + std::string(loss) : std::string();
  if (loss != "nan") bare_rows_ = !is_number ? 0 : grows ? bare_rows_ + 1 : 1;
  return text;
}

void RunUpReader::add(const LossLine& losses, std::uint64_t number, std::string_view text, std::string_view small) {
  if (losses.finite && losses.loss.empty()) return;
  Point point{{number, printable(text)}, value(losses.train_loss), norm_in(small)};
  if (!losses.finite) {
    if (first_) return;
    // "epoch 8/20", "'epoch': 1.35": the losses before are in no log.
    const std::size_t at = small.find("epoch");
    const double epoch = at == std::string_view::npos ? 0 : value(number_after(small, at + 5, "'\": =[("));
    // A norm that is NaN beside a finite loss shows that losses were finite before.
    const bool is_first = epoch <= kFirstPart || epoch == 1;
    at_start_ = is_first && (losses.loss.empty() || is_zero(losses.loss));
    first_ = std::move(point);
    return;
  }
  first_.reset();
  // A progress bar repeats the last one.
  if (losses.train_loss.empty() || (!points_.empty() && points_.back().loss == point.loss)) return;
  if (points_.size() == kLosses) points_.erase(points_.begin());
  points_.push_back(std::move(point));
}

std::vector<double> RunUpReader::series(double Point::*field) const {
  std::vector<double> out;
  for (const Point& point : points_)
    if (point.*field > 0) out.push_back(point.*field);
  if (first_ && (*first_).*field > 0) out.push_back((*first_).*field);
  return out;
}

RunUp RunUpReader::kind() const {
  if (!first_) return RunUp::kAny;
  if (points_.empty()) return at_start_ ? RunUp::kNone : RunUp::kAny;
  const std::vector<double> losses = series(&Point::loss), norms = series(&Point::norm);
  if (rose(losses, kLossFold) || rose(norms, kNormFold) || never_fell(losses)) return RunUp::kRose;
  const bool sudden = losses.size() >= 2 && was_steady(losses, kLossFold) && was_steady(norms, kNormFold);
  return sudden ? RunUp::kSteady : RunUp::kAny;
}

std::vector<Evidence> RunUpReader::evidence() const {
  std::vector<Evidence> out;
  if (!first_) return out;
  for (const Point& point : points_) out.push_back(point.evidence);
  out.push_back(first_->evidence);
  return out;
}

}  // namespace plimsoll::doctor
