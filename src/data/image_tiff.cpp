#include "data/image_tiff.h"

#include <leptonica/allheaders.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/file.h"
#include "data/tiff_numbers.h"

namespace plimsoll {
namespace {

// A picture of two pixels, red left of blue, which is shown turned counterclockwise (orientation 8): blue above red.
std::vector<std::uint8_t> turned_sample() {
  std::vector<std::uint8_t> bytes{'I', 'I', 42, 0, 8, 0, 0, 0, 10, 0};
  constexpr std::uint16_t kCount = 10, kAfter = 8 + 2 + 12 * kCount + 4;
  const auto entry = [&bytes](std::uint16_t tag, std::uint16_t count, std::uint16_t value) {
    for (const unsigned part : {unsigned{tag}, 3U, unsigned{count}, 0U, unsigned{value}, 0U}) {
      bytes.push_back(static_cast<std::uint8_t>(part & 0xFFU));
      bytes.push_back(static_cast<std::uint8_t>(part >> 8U));
    }
  };
  entry(256, 1, 2);           // width
  entry(257, 1, 1);           // height
  entry(258, 3, kAfter);      // bits of each sample
  entry(259, 1, 1);           // not compressed
  entry(262, 1, 2);           // RGB
  entry(273, 1, kAfter + 6);  // where the pixels are
  entry(kTiffOrientation, 1, 8);
  entry(kTiffSamples, 1, 3);
  entry(278, 1, 1);  // rows of the strip
  entry(279, 1, 6);  // its bytes
  bytes.insert(bytes.end(), {0, 0, 0, 0, 8, 0, 8, 0, 8, 0, 255, 0, 0, 0, 0, 255});
  return bytes;
}

// Leptonica up to 1.82 at least shows colours of orientation 8 upside down.
bool turns_colours_wrong() {
  static const bool wrong = [] {
    const std::vector<std::uint8_t> sample = turned_sample();
    const std::unique_ptr<Pix, DestroyPix> pix(pixReadMemTiff(sample.data(), sample.size(), 0));
    int red = 0, green = 0, blue = 0;
    return pix != nullptr && pixGetHeight(pix.get()) == 2 &&
           pixGetRGBPixel(pix.get(), 0, 0, &red, &green, &blue) == 0 && red > blue;
  }();
  return wrong;
}

}  // namespace

void DestroyPix::operator()(Pix* pix) const { pixDestroy(&pix); }

TiffPage read_tiff_page(const std::filesystem::path& path, int page) {
  TiffPage read{.pix = std::unique_ptr<Pix, DestroyPix>(pixReadTiff(path.c_str(), page))};
  if (read.pix == nullptr) return read;
  const InputFile file(path);
  const TiffNumbers tiff(file);
  const auto directory = tiff_directory(tiff, page);
  if (!directory) return read;
  const std::uint64_t samples = tiff_short(tiff, *directory, kTiffSamples).value_or(1);
  const bool is_colour = samples >= 3 && pixGetDepth(read.pix.get()) == 32;
  const bool is_turned = tiff_short(tiff, *directory, kTiffOrientation) == 8U;
  if (is_colour && is_turned && turns_colours_wrong()) pixRotate180(read.pix.get(), read.pix.get());
  if (pixGetSpp(read.pix.get()) != 4) return read;
  // libtiff multiplies colours by alpha, unless the file does not say what its fourth sample is.
  const bool is_unnamed = tiff_short(tiff, *directory, kTiffExtraSamples).value_or(0) == 0;
  if (samples == 2) {
    read.alpha = TiffAlpha::kApart;
  } else if (samples == 4 && !is_unnamed) {
    read.alpha = TiffAlpha::kMultiplied;
  }
  return read;
}

std::optional<int> first_transparent_row(const TiffPage& page) {
  if (page.alpha == TiffAlpha::kNone) return std::nullopt;
  Pix* const pix = page.pix.get();
  for (int y = 0; y < pixGetHeight(pix); ++y) {
    const std::uint32_t* const row = pixGetData(pix) + static_cast<std::ptrdiff_t>(y) * pixGetWpl(pix);
    for (int x = 0; x < pixGetWidth(pix); ++x) {
      if ((row[x] >> L_ALPHA_SHIFT & 0xFFU) != 255) return y;
    }
  }
  return std::nullopt;
}

void put_on_white(TiffPage& page) {
  if (page.alpha == TiffAlpha::kNone) return;
  const bool multiplied = page.alpha == TiffAlpha::kMultiplied;
  Pix* const pix = page.pix.get();
  for (int y = 0; y < pixGetHeight(pix); ++y) {
    std::uint32_t* const row = pixGetData(pix) + static_cast<std::ptrdiff_t>(y) * pixGetWpl(pix);
    for (int x = 0; x < pixGetWidth(pix); ++x) {
      const std::uint32_t alpha = row[x] >> L_ALPHA_SHIFT & 0xFFU;
      std::uint32_t shown = 255U << L_ALPHA_SHIFT;
      for (const int shift : {L_RED_SHIFT, L_GREEN_SHIFT, L_BLUE_SHIFT}) {
        const std::uint32_t colour = row[x] >> shift & 0xFFU;
        const std::uint32_t own = multiplied ? colour : (colour * alpha + 127) / 255;
        shown |= std::min(255U, own + 255 - alpha) << shift;
      }
      row[x] = shown;
    }
  }
  page.alpha = TiffAlpha::kNone;
}

}  // namespace plimsoll
