#include "doctor/untrained.h"

#include <charconv>
#include <initializer_list>

namespace plimsoll::doctor {
namespace {

// This many lines show that it is not a coincidence.
constexpr std::uint64_t kEnoughLines = 3;
// A loss falls to 0 by learning in small steps; one that was larger than this and is then 0 is NaN.
constexpr double kLearnedLoss = 0.05;

// Returns the number after the first of these names in the line; empty if there is none.
std::string_view number_of(std::string_view small, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const std::size_t at = small.find(name);
    if (at == std::string_view::npos) continue;
    const std::size_t end = at + name.size(), begin = small.find_first_not_of(" '\":=[(", end);
    if (begin == std::string_view::npos || begin == end || begin > end + 8) continue;
    const std::string_view number = small.substr(begin, small.find_first_not_of("0123456789.e+-", begin) - begin);
    if (!number.empty()) return number;
  }
  return {};
}

double number_in(std::string_view text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// True for "0.0", "0", "0.000e+00". "0.0000" may be a small number that was rounded.
bool is_exactly_zero(std::string_view number) {
  return number == "0" || number == "0.0" ||
         (number.find('e') != std::string_view::npos && number.find('e') > 0 && number_in(number) == 0);
}

}  // namespace

std::optional<UntrainedReader::BarStep> UntrainedReader::bar_step(std::string_view small) {
  const std::size_t bracket = small.find(" ["), slash = small.rfind('/', bracket);
  if (bracket == std::string_view::npos || slash == std::string_view::npos) return {};
  std::size_t begin = slash;
  while (begin > 0 && small[begin - 1] >= '0' && small[begin - 1] <= '9') --begin;
  BarStep bar;
  const char *end = small.data() + bracket, *middle = small.data() + slash;
  const bool is_bar = std::from_chars(small.data() + begin, middle, bar.step).ptr == middle && begin < slash &&
                      std::from_chars(middle + 1, end, bar.total).ptr == end && bar.total > 0;
  return is_bar ? std::optional(bar) : std::nullopt;
}

void UntrainedReader::Zeros::add(std::uint64_t number, std::string_view text) {
  std::string quoted = printable(text);
  // A progress bar repeats the last record.
  if (lines > 0 && quoted == last.text) return;
  last = {number, std::move(quoted)};
  if (lines++ == 0) first = last;
}
void UntrainedReader::Zeros::end() {
  other = true;
  lines = 0;
}

void UntrainedReader::read(const LossLine& losses, std::uint64_t number, std::string_view text,
                           std::string_view small) {
  // Another bar, such as an evaluation's, counts other steps.
  const std::optional<BarStep> bar = bar_step(small);
  if (bar && (!first_bar_ || first_bar_->total == bar->total)) bar_ = bar;
  read_skips(number, text, small);
  const std::string_view rate =
      rates_.other ? std::string_view()
                   : number_of(small, {"learning_rate", "learning rate", "'lr'", "\"lr\"", " lr", "/lr"});
  if (!rate.empty() && number_in(rate) != 0) rates_.end();
  if (losses.train_loss.empty() && losses.finite) return;
  ++losses_since_first_skip_;
  ++losses_since_last_skip_;
  if (is_exactly_zero(rate)) rates_.add(number, text);
  const std::string_view norm = number_of(small, {"grad_norm", "grad norm", "gradient norm", "gnorm"});
  if (losses.norm_nan || (!norm.empty() && number_in(norm) != 0)) norms_.end();
  if (is_exactly_zero(norm)) norms_.add(number, text);
  if (losses.train_loss.empty()) return;
  if (number_in(losses.train_loss) != 0) {
    loss_ = number_in(losses.train_loss);
    losses_.lines = 0;
    return;
  }
  // With rewards a loss may be 0, and printed gradients say more than the loss.
  const bool tells = small.find("reward") == std::string_view::npos && norm.empty() && !losses.norm_nan;
  if (tells && is_exactly_zero(losses.train_loss)) losses_.add(number, text);
}

// "Skipping step. Attempted loss scale: 1, reducing to 1": the scale has reached its minimum if both are equal.
void UntrainedReader::read_skips(std::uint64_t number, std::string_view text, std::string_view small) {
  const std::string_view attempted = number_of(small, {"attempted loss scale"}),
                         reduced = number_of(small, {"reducing to"});
  if (attempted.empty() || reduced.empty()) return;
  searching_ = number_in(attempted) != number_in(reduced);
  if (searching_) return skips_.end();
  if (skips_.lines == 0) losses_since_first_skip_ = 0;
  if (!first_bar_) first_bar_ = bar_;
  skips_by_bar_ += first_bar_.has_value();
  // Each is a separate update, even if its line repeats another one.
  skips_.last = {number, printable(text)};
  if (skips_.lines++ == 0) skips_.first = skips_.last;
  losses_since_last_skip_ = 0;
}

// True if, as far as losses and a progress bar show, nearly every step since the first was skipped.
bool UntrainedReader::skips_all() const {
  if (skips_.lines < kEnoughLines || losses_since_last_skip_ >= 2) return false;
  if (first_bar_ && bar_->step > first_bar_->step)
    return 10 * (skips_by_bar_ + 1) >= 9 * (bar_->step - first_bar_->step + 1);
  return skips_.lines >= losses_since_first_skip_;
}

std::optional<UntrainedReader::Found> UntrainedReader::find() const {
  const auto found = [](std::string_view pattern, const Zeros& zeros) {
    return Found{pattern, zeros.first, zeros.last};
  };
  if (skips_all()) return found(kUpdatesAreSkipped, skips_);
  // While the scale is being searched for, the schedule waits for the first update.
  if (searching_) return {};
  if (losses_.lines >= kEnoughLines && (loss_ == 0 || loss_ >= kLearnedLoss)) return found(kLossIsZero, losses_);
  if (norms_.lines >= kEnoughLines && !norms_.other) return found(kGradientsAreZero, norms_);
  if (rates_.lines >= kEnoughLines && !rates_.other) return found(kRateIsZero, rates_);
  return {};
}

}  // namespace plimsoll::doctor
