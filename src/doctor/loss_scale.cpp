#include "doctor/loss_scale.h"

#include <charconv>

namespace plimsoll::doctor {
namespace {

// A scale below 1 makes gradients smaller, which a model that fits half precision never needs.
constexpr double kUseless = 1;
constexpr std::uint64_t kEnoughFalls = 4;

// Returns the number after a name of the scale; 0 if the line prints none.
double scale_in(std::string_view small) {
  for (const std::string_view name : {"loss_scale", "loss scale", "loss-scale", "lossscale", "grad_scale", "grad scale",
                                      "scaler_scale", "scaler scale", "amp_scale"}) {
    // apex: "loss scaler 0 reducing loss scale to 0.25".
    const std::size_t at = small.rfind(name);
    if (at == std::string_view::npos) continue;
    std::string_view rest = small.substr(at + name.size());
    for (const std::string_view between : {" to", " value"})
      if (rest.starts_with(between)) rest.remove_prefix(between.size());
    const std::size_t begin = rest.find_first_not_of(" '\":=|\t[(");
    if (begin == std::string_view::npos || begin == 0 || begin > 16) continue;
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data() + begin, rest.data() + rest.size(), value);
    if (error == std::errc() && end != rest.data() + begin) return value;
  }
  return 0;
}

}  // namespace

bool LossScaleReader::has_fallen(std::string_view small) {
  if (small.find("scale") == std::string_view::npos) return false;
  const double scale = scale_in(small);
  // The same record may be printed twice, by two ranks or by a progress bar.
  if (scale <= 0 || scale == last_) return false;
  falls_ = last_ > 0 && scale < last_ ? falls_ + 1 : 0;
  last_ = scale;
  return falls_ >= kEnoughFalls && scale < kUseless;
}

}  // namespace plimsoll::doctor
