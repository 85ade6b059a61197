#include "data/resample.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/resample_rows.h"

namespace plimsoll {
namespace {

constexpr int kFractionBits = 22;

std::size_t weights_stride(int input, int output) {
  const double scale = std::max(1.0, static_cast<double>(input) / output);
  return static_cast<std::size_t>(std::ceil(scale)) * 2 + 1;
}

// Pillow 13 shrinks along y first if that removes more (measured: tools/check_images.py --random). Rounding between the
// passes makes the order visible in the last bit. Older versions always begin with x.
bool y_pass_first(int width, int height, int width_out, int height_out) {
  return height - height_out > std::max(0, 2 * (width - width_out));
}

// Grows to exactly the size needed; a vector would take up to twice as much.
template <typename T>
void grow(std::vector<T>& buffer, std::size_t size) {
  if (buffer.size() >= size) return;
  std::vector<T>().swap(buffer);
  buffer.resize(size);
}

}  // namespace

void ResampleWeights::compute(int input, int output) {
  check(input > 0 && output > 0, "an image has a positive size");
  const double scale = static_cast<double>(input) / output;
  const double widening = std::max(1.0, scale);
  const double support = widening;  // the triangle extends one (widened) pixel to each side
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

void Resampler::begin(int width, int height, int width_out, int height_out, std::span<std::uint8_t> out) {
  wide_ = 3 * static_cast<std::size_t>(width);
  narrow_ = 3 * static_cast<std::size_t>(width_out);
  check(out.size() == narrow_ * static_cast<std::size_t>(height_out), "the resized image fits its buffer");
  out_ = out;
  along_x_.compute(width, width_out);
  along_y_.compute(height, height_out);
  y_first_ = y_pass_first(width, height, width_out, height_out);
  kept_stride_ = (y_first_ ? wide_ : narrow_) + kRowPadding;
  grow(row_, wide_ + kRowPadding);
  grow(kept_, along_y_.stride * kept_stride_);
  grow(rows_, along_y_.stride);
  taken_ = made_ = 0;
}

std::uint8_t* Resampler::kept_row(int y) {
  return kept_.data() + static_cast<std::size_t>(y) % along_y_.stride * kept_stride_;
}

std::span<std::uint8_t> Resampler::row() { return {y_first_ ? kept_row(taken_) : row_.data(), wide_}; }

void Resampler::take_row() {
  if (!y_first_) narrow_row(row_.data(), along_x_, kept_row(taken_));
  ++taken_;
  // Makes every row of the result whose window is complete.
  for (; made_ < static_cast<int>(along_y_.windows.size()); ++made_) {
    const auto at = static_cast<std::size_t>(made_);
    const auto [first, count] = along_y_.windows[at];
    if (first + count > taken_) return;
    for (int k = 0; k < count; ++k) rows_[static_cast<std::size_t>(k)] = kept_row(first + k);
    const std::int32_t* weights = along_y_.weights.data() + at * along_y_.stride;
    std::uint8_t* made = out_.data() + at * narrow_;
    if (y_first_) {
      blend_rows(rows_.data(), weights, count, wide_, row_.data());
      narrow_row(row_.data(), along_x_, made);
    } else {
      blend_rows(rows_.data(), weights, count, narrow_, made);
    }
  }
}

std::uint64_t Resampler::host_bytes(int width, int height, int width_out, int height_out) {
  const auto weights = [](int input, int output) {
    const std::uint64_t stride = weights_stride(input, output);
    return static_cast<std::uint64_t>(output) * (stride * sizeof(std::int32_t) + sizeof(ResampleWeights::Window)) +
           stride * sizeof(double);
  };
  // Counts both orders of the passes, because an image of one kind may follow one of the other.
  const auto wide = 3 * static_cast<std::uint64_t>(std::max(width, width_out)) + kRowPadding;
  const std::uint64_t window = weights_stride(height, height_out);
  return weights(width, width_out) + weights(height, height_out) + wide * (1 + window) + window * sizeof(void*);
}

}  // namespace plimsoll
