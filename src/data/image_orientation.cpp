#include "data/image_orientation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "data/image_webp.h"
#include "data/tiff_numbers.h"

namespace plimsoll {
namespace {

// Reads the orientation from a TIFF structure's first directory.
int orientation_in(const TiffNumbers& tiff) {
  const auto directory = tiff_directory(tiff, 0);
  const auto value = directory ? tiff_short(tiff, *directory, kTiffOrientation) : std::nullopt;
  return value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
}

template <std::size_t kSize>
std::optional<std::array<std::uint8_t, kSize>> bytes_at(const InputFile& file, std::uint64_t offset) {
  std::array<std::uint8_t, kSize> bytes{};
  if (offset + kSize > file.size_bytes()) return std::nullopt;
  file.read_at(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Finds the first APP1 segment with EXIF data.
std::optional<std::uint64_t> exif_in_jpeg(const InputFile& file) {
  constexpr std::string_view kName{"Exif\0\0", 6};
  for (std::uint64_t at = 2; const auto head = bytes_at<10>(file, at);) {
    if ((*head)[0] != 0xFF) return std::nullopt;
    const unsigned marker = (*head)[1];
    if (marker == 0xFF) {
      ++at;  // skips a fill byte
      continue;
    }
    if (marker == 0xDA) return std::nullopt;  // the pixels begin
    if (marker == 0xE1 && std::memcmp(head->data() + 4, kName.data(), kName.size()) == 0) return at + 4 + kName.size();
    at += 2 + (*head)[2] * 256U + (*head)[3];
  }
  return std::nullopt;
}

std::optional<std::uint64_t> exif_in_png(const InputFile& file) {
  for (std::uint64_t at = 8; const auto head = bytes_at<8>(file, at);) {
    const std::string_view kind(reinterpret_cast<const char*>(head->data()) + 4, 4);
    if (kind == "eXIf") return at + 8;
    if (kind == "IEND") return std::nullopt;
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length * 256 + (*head)[i];
    at += 12 + length;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> exif_in_webp(const InputFile& file) {
  const std::optional<WebpContainer> webp = read_webp_container(file);
  return webp ? webp->exif : std::nullopt;
}

// The same rows, each reversed.
class MirroredRows final : public ImageRows {
 public:
  explicit MirroredRows(std::unique_ptr<ImageRows> rows)
      : ImageRows(rows->width(), rows->height()), rows_(std::move(rows)) {}

  void next_row(std::span<std::uint8_t> out) override {
    rows_->next_row(out);
    for (std::size_t left = 0, right = out.size() - 3; left < right; left += 3, right -= 3) {
      for (std::size_t channel = 0; channel < 3; ++channel) std::swap(out[left + channel], out[right + channel]);
    }
  }
  bool damaged() const override { return rows_->damaged(); }

 private:
  std::unique_ptr<ImageRows> rows_;
};

// Rows that need the whole picture before the first one is known.
class TurnedRows final : public ImageRows {
 public:
  TurnedRows(std::unique_ptr<ImageRows> rows, int orientation)
      : ImageRows(exchanges_sides(orientation) ? rows->height() : rows->width(),
                  exchanges_sides(orientation) ? rows->width() : rows->height()),
        orientation_(orientation),
        width_(static_cast<std::size_t>(rows->width())),
        height_(static_cast<std::size_t>(rows->height())),
        picture_(3 * width_ * height_) {
    for (std::size_t y = 0; y < height_; ++y) rows->next_row(std::span(picture_).subspan(3 * width_ * y, 3 * width_));
    damaged_ = rows->damaged();
  }

  void next_row(std::span<std::uint8_t> out) override {
    const std::size_t y = next_++;
    for (std::size_t x = 0; x < out.size() / 3; ++x) {
      const std::uint8_t* const pixel = picture_.data() + 3 * source(x, y);
      std::copy_n(pixel, 3, out.data() + 3 * x);
    }
  }
  bool damaged() const override { return damaged_; }

 private:
  // Returns the index of the stored pixel that is shown at x, y.
  std::size_t source(std::size_t x, std::size_t y) const {
    switch (orientation_) {
      case 3:
        return width_ * (height_ - 1 - y) + width_ - 1 - x;
      case 4:
        return width_ * (height_ - 1 - y) + x;
      case 5:
        return width_ * x + y;
      case 6:
        return width_ * (height_ - 1 - x) + y;
      case 7:
        return width_ * (height_ - 1 - x) + width_ - 1 - y;
      default:
        return width_ * x + width_ - 1 - y;
    }
  }

  int orientation_;
  std::size_t width_, height_;  // of the stored picture
  std::vector<std::uint8_t> picture_;
  std::size_t next_ = 0;
  bool damaged_ = false;
};

}  // namespace

int read_orientation(const InputFile& file, std::string_view format) {
  if (format == "tiff") return orientation_in(TiffNumbers(file));
  const auto exif = format == "jpeg"   ? exif_in_jpeg(file)
                    : format == "png"  ? exif_in_png(file)
                    : format == "webp" ? exif_in_webp(file)
                                       : std::optional<std::uint64_t>();
  return exif ? orientation_in(TiffNumbers(file, *exif)) : 1;
}

std::uint64_t turning_bytes(int orientation, int width, int height) {
  return orientation < 3 ? 0 : 3 * static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
}

std::unique_ptr<ImageRows> turned(std::unique_ptr<ImageRows> rows, int orientation) {
  if (orientation == 1) return rows;
  if (orientation == 2) return std::make_unique<MirroredRows>(std::move(rows));
  return std::make_unique<TurnedRows>(std::move(rows), orientation);
}

}  // namespace plimsoll
