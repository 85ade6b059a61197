#include "doctor/diverged.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace plimsoll::doctor {
namespace {

constexpr std::size_t kMaxRise = 64, kMaxQuotes = 6;
constexpr std::uint64_t kFewestLosses = 5;
// A loss that never fell may have begun near 0, as a distance between two models does; it must exceed this.
constexpr double kLargeLoss = 10;

// Names before "loss" whose number is not the average loss of a step.
constexpr std::string_view kOtherNames[] = {"running", "cum", "accum", "sum", "eval", "valid",  "val",
                                            "test",    "dev", "disc",  "gen", "adv",  "critic", "policy"};

double read_number(std::string_view text) {
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

// Returns the epoch that the line prints, if it prints one.
std::optional<double> epoch_in(std::string_view small) {
  const std::size_t at = small.find("epoch");
  if (at == std::string_view::npos) return {};
  const std::size_t begin = small.find_first_not_of("'\": =[(", at + 5);
  if (begin == std::string_view::npos || small[begin] < '0' || small[begin] > '9') return {};
  return read_number(small.substr(begin));
}

// True if the loss is one of several that are trained against each other or added up, or if the words before it say
// that it is no loss of training. `begin` is where its number begins.
bool is_other_loss(std::string_view small, std::size_t begin) {
  const std::size_t name = small.rfind("loss", begin);
  if (name == std::string_view::npos) return true;
  const std::string_view before = small.substr(0, name);
  for (const std::string_view other : kOtherNames)
    if (before.find(other) != std::string_view::npos) return true;
  // "g_loss", "kl_loss"
  return before.ends_with('_') && !before.ends_with("train_") && !before.ends_with("training_") &&
         !before.ends_with("total_");
}

}  // namespace

void DivergedReader::clear() {
  rise_.clear();
  after_ = losses_ = losses_to_low_ = 0;
  highest_ = highest_to_low_ = epoch_ = 0;
  previous_ = last_ = {};
  closing_line_ = 0;
}

void DivergedReader::add(Point point) {
  if (losses_ > 0 && point.loss == last_.loss) return;  // a progress bar repeats the last one
  previous_ = std::move(last_);
  last_ = point;
  ++losses_;
  highest_ = std::max(highest_, point.loss);
  if (rise_.empty() || point.loss <= rise_.front().loss) {
    losses_to_low_ = losses_;
    highest_to_low_ = highest_;
    rise_.assign(1, std::move(point));
    after_ = 0;
    stride_ = 1;
    return;
  }
  if (after_++ % stride_ != 0) return;
  if (rise_.size() == kMaxRise) {
    for (std::size_t i = 0; 2 * i < rise_.size(); ++i) rise_[i] = std::move(rise_[2 * i]);
    rise_.resize(kMaxRise / 2);
    stride_ *= 2;
  }
  rise_.push_back(std::move(point));
}

void DivergedReader::read(const LossLine& losses, std::uint64_t number, std::string_view text, std::string_view small) {
  if (small.find("***** running training") != std::string_view::npos) clear();
  for (const std::string_view sign : {"loss': -", "loss\": -", "loss: -", "loss=-", "loss = -", "loss -"})
    negative_ = negative_ || small.find(sign) != std::string_view::npos;
  // From a NaN on, other rules say what happened.
  if (!losses.finite) return clear();
  // A terminal may break the line that sums the run up.
  if (losses.train_loss.empty() || (closing_line_ > 0 && number <= closing_line_ + 1)) return;
  const auto begin = static_cast<std::size_t>(losses.train_loss.data() - small.data());
  // Rewards, and the distance to a reference model, have losses that rise as they should.
  if (small.find("reward") != std::string_view::npos || small.find("'kl'") != std::string_view::npos ||
      is_other_loss(small, begin))
    return;
  const std::optional<double> epoch = epoch_in(small);
  if (closing_line_ > 0 || (epoch && *epoch < epoch_)) clear();
  epoch_ = epoch.value_or(epoch_);
  add({read_number(losses.train_loss), {number, printable(text)}});
}

std::vector<Evidence> DivergedReader::find() const {
  if (negative_ || losses_ < kFewestLosses || rise_.size() < 4) return {};
  std::vector<Point> rise = rise_;
  for (const Point& point : {previous_, last_})
    if (point.evidence.line > rise.back().evidence.line) rise.push_back(point);
  const double low = rise.front().loss;
  const auto is_above = [&](const Point& point, double of_highest, double of_low) {
    return point.loss >= of_highest * highest_to_low_ && point.loss >= of_low * low;
  };
  std::size_t up = 0;
  double most = low;
  for (std::size_t i = 1; i < rise.size(); ++i) {
    up += rise[i].loss > rise[i - 1].loss;
    most = std::max(most, rise[i].loss);
  }
  const bool has_learned = losses_to_low_ >= 3;
  // A loss that is added up over an epoch grows from line to line, too, but has made half of its way after half of the
  // lines, and begins anew with each epoch.
  const auto third = rise.end() - static_cast<std::ptrdiff_t>(std::max<std::size_t>(rise.size() / 3, 2));
  const bool explodes = 4 * up >= 3 * (rise.size() - 1) && is_above(rise.back(), 4, 20) &&
                        std::all_of(third, rise.end(), [&](const Point& point) { return is_above(point, 2, 5); }) &&
                        rise[rise.size() / 2].loss < rise.back().loss / 4 && rise.back().loss > 0.3 * most &&
                        (has_learned || rise.back().loss > kLargeLoss);
  // Or it fell at first, rose, and then stayed far above.
  const bool stays = has_learned && rise.size() >= 9 && up + 1 < rise.size() &&
                     std::all_of(third, rise.end(), [&](const Point& point) { return is_above(point, 6, 10); });
  if (!explodes && !stays) return {};
  std::vector<Evidence> lines;
  const std::size_t quotes = std::min(kMaxQuotes, rise.size());
  for (std::size_t i = 0; i < quotes; ++i) lines.push_back(rise[i * (rise.size() - 1) / (quotes - 1)].evidence);
  return lines;
}

}  // namespace plimsoll::doctor
