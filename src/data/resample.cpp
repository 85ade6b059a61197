#include "data/resample.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr int kFractionBits = 32 - 8 - 2;  // 8 bits of pixel, 2 of headroom
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

std::uint8_t to_byte(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

std::size_t weights_stride(int input, int output) {
  const double scale = std::max(1.0, static_cast<double>(input) / output);
  return static_cast<std::size_t>(std::ceil(scale)) * 2 + 1;
}

// Pillow 13 shrinks along y first where that takes away more (measured: tools/check_images.py --random). Rounding
// between the passes makes the order visible in the last bit. Older versions always begin with x.
bool y_pass_first(int width, int height, int width_out, int height_out) {
  return height - height_out > std::max(0, 2 * (width - width_out));
}

}  // namespace

void ResampleWeights::compute(int input, int output) {
  check(input > 0 && output > 0, "an image has a positive size");
  const double scale = static_cast<double>(input) / output;
  const double widening = std::max(1.0, scale);
  const double support = widening;  // the triangle reaches one (widened) pixel to each side
  stride = weights_stride(input, output);
  windows.resize(static_cast<std::size_t>(output));
  weights.assign(static_cast<std::size_t>(output) * stride, 0);
  std::vector<double> exact(stride);
  for (int i = 0; i < output; ++i) {
    const double centre = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(centre - support + 0.5));
    const int count = std::min(input, static_cast<int>(centre + support + 0.5)) - first;
    double sum = 0;
    const double narrowing = 1.0 / widening;
    for (int k = 0; k < count; ++k) {
      const double distance = std::abs((k + first - centre + 0.5) * narrowing);
      exact[static_cast<std::size_t>(k)] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += exact[static_cast<std::size_t>(k)];
    }
    std::int32_t* target = weights.data() + static_cast<std::size_t>(i) * stride;
    for (int k = 0; k < count; ++k) {
      const double weight = sum != 0.0 ? exact[static_cast<std::size_t>(k)] / sum : 0.0;
      target[k] = static_cast<std::int32_t>(0.5 + weight * (1 << kFractionBits));
    }
    windows[static_cast<std::size_t>(i)] = {first, count};
  }
}

void Resampler::resize(const ReadRow& read_row, int width, int height, int width_out, int height_out,
                       std::span<std::uint8_t> out) {
  const auto wide = 3 * static_cast<std::size_t>(width);
  const auto narrow = 3 * static_cast<std::size_t>(width_out);
  check(out.size() == narrow * static_cast<std::size_t>(height_out), "the resized image fits its buffer");
  along_x_.compute(width, width_out);
  along_y_.compute(height, height_out);
  row_.resize(wide);
  const auto out_row = [&](int y) { return out.subspan(static_cast<std::size_t>(y) * narrow, narrow); };

  if (y_pass_first(width, height, width_out, height_out)) {
    sums_.resize(wide);
    for (int y = 0; y < height_out; ++y) {
      const auto [first, count] = along_y_.windows[static_cast<std::size_t>(y)];
      const std::int32_t* weight = along_y_.weights.data() + static_cast<std::size_t>(y) * along_y_.stride;
      std::fill(sums_.begin(), sums_.end(), kHalf);
      for (int k = 0; k < count; ++k) {
        read_row(first + k, row_);
        for (std::size_t i = 0; i < wide; ++i) sums_[i] += row_[i] * weight[k];
      }
      std::transform(sums_.begin(), sums_.end(), row_.begin(), to_byte);
      resize_row(row_, out_row(y));
    }
    return;
  }

  narrow_.resize(narrow * static_cast<std::size_t>(height));
  sums_.resize(narrow);
  const auto narrow_row = [&](int y) {
    return std::span(narrow_).subspan(static_cast<std::size_t>(y) * narrow, narrow);
  };
  for (int y = 0; y < height; ++y) {
    read_row(y, row_);
    resize_row(row_, narrow_row(y));
  }
  for (int y = 0; y < height_out; ++y) {
    const auto [first, count] = along_y_.windows[static_cast<std::size_t>(y)];
    const std::int32_t* weight = along_y_.weights.data() + static_cast<std::size_t>(y) * along_y_.stride;
    std::fill(sums_.begin(), sums_.end(), kHalf);
    for (int k = 0; k < count; ++k) {
      const std::span<const std::uint8_t> source = narrow_row(first + k);
      for (std::size_t i = 0; i < narrow; ++i) sums_[i] += source[i] * weight[k];
    }
    std::transform(sums_.begin(), sums_.end(), out_row(y).begin(), to_byte);
  }
}

void Resampler::resize_row(std::span<const std::uint8_t> in, std::span<std::uint8_t> out) const {
  std::uint8_t* target = out.data();
  for (std::size_t x = 0; x < along_x_.windows.size(); ++x) {
    const auto [first, count] = along_x_.windows[x];
    const std::int32_t* weight = along_x_.weights.data() + x * along_x_.stride;
    const std::uint8_t* pixel = in.data() + 3 * static_cast<std::size_t>(first);
    std::int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (int k = 0; k < count; ++k, pixel += 3) {
      red += pixel[0] * weight[k];
      green += pixel[1] * weight[k];
      blue += pixel[2] * weight[k];
    }
    *target++ = to_byte(red);
    *target++ = to_byte(green);
    *target++ = to_byte(blue);
  }
}

std::uint64_t Resampler::host_bytes(int width, int height, int width_out, int height_out) {
  const auto weights = [](int input, int output) {
    const std::uint64_t stride = weights_stride(input, output);
    return static_cast<std::uint64_t>(output) * (stride * sizeof(std::int32_t) + sizeof(ResampleWeights::Window)) +
           stride * sizeof(double);
  };
  // Whichever pass comes first: an image of one kind may follow one of the other.
  const auto wide = 3 * static_cast<std::uint64_t>(std::max(width, width_out));
  const auto narrow = 3 * static_cast<std::uint64_t>(width_out) * static_cast<std::uint64_t>(height);
  return weights(width, width_out) + weights(height, height_out) + wide * (1 + sizeof(std::int32_t)) + narrow;
}

}  // namespace plimsoll
