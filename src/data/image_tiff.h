// Decodes pages of TIFF files whole, by Leptonica, as shown.
//
//   const TiffPage page = read_tiff_page("scans.tif", 2);   // the third; page.pix is null if it is broken
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

struct Pix;

namespace plimsoll {

struct DestroyPix {
  void operator()(Pix* pix) const;
};

// Says how a page with transparent parts stores its colours.
enum class TiffAlpha : std::uint8_t {
  kNone,
  kApart,       // as stored, beside alpha
  kMultiplied,  // by alpha: where that is small, the stored colour cannot be told
};

struct TiffPage {
  std::unique_ptr<Pix, DestroyPix> pix{};
  TiffAlpha alpha = TiffAlpha::kNone;
};

// `page` counts from 0.
TiffPage read_tiff_page(const std::filesystem::path& path, int page);

// Returns the first row, from 0, that has a pixel which is not opaque; nothing if there is none.
std::optional<int> first_transparent_row(const TiffPage& page);

// Lets white paper through where the page is transparent; it is opaque from then on.
void put_on_white(TiffPage& page);

}  // namespace plimsoll
