#include "ocr/picture.h"

#include <fmt/format.h>
#include <leptonica/allheaders.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/image.h"
#include "data/image_png.h"
#include "data/image_tiff.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

using Pixels = std::unique_ptr<Pix, DestroyPix>;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using OpenFile = std::unique_ptr<std::FILE, CloseFile>;

// Returns the factor by which a picture is shrunk for reading; 1: not at all.
double shrinking(int width, int height) {
  const double pixels = static_cast<double>(width) * height;
  const double by_area = std::sqrt(static_cast<double>(kMostPixels) / pixels);
  const double by_side = static_cast<double>(kLongestSide) / std::max(width, height);
  return std::min({1.0, by_area, by_side});
}

// Returns a picture of Leptonica's of that size; `bits`: 8 (gray) or 32 (colour).
Pix* new_pix(int width, int height, int bits) {
  Pix* const pix = pixCreateNoInit(width, height, bits);
  if (pix == nullptr) throw std::bad_alloc();
  return pix;
}

// Copies a row of R, G, B bytes into row `y` of a picture.
void put_row(Pix* pix, int y, std::span<const std::uint8_t> rgb) {
  std::uint32_t* const words = pixGetData(pix) + static_cast<std::ptrdiff_t>(y) * pixGetWpl(pix);
  const auto width = static_cast<std::size_t>(pixGetWidth(pix));
  if (pixGetDepth(pix) == 8) {
    for (std::size_t x = 0; x < width; ++x) SET_DATA_BYTE(words, x, rgb[3 * x]);
    return;
  }
  for (std::size_t x = 0; x < width; ++x) {
    const std::uint8_t* const pixel = rgb.data() + 3 * x;
    words[x] = std::uint32_t{pixel[0]} << L_RED_SHIFT | std::uint32_t{pixel[1]} << L_GREEN_SHIFT |
               std::uint32_t{pixel[2]} << L_BLUE_SHIFT | 0xFFU;
  }
}

// Sets the resolution that the file gives, because a reader of text judges the size of letters by it.
void copy_resolution(const fs::path& path, const ImageInfo& info, Pix* pix) {
  const OpenFile file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return;
  int x = 0, y = 0;
  if (info.format == "jpeg") fgetJpegResolution(file.get(), &x, &y);
  if (info.format == "png") fgetPngResolution(file.get(), &x, &y);
  pixSetResolution(pix, x, y);
}

// Shrinks a picture that was decoded as a whole, if it is too large.
Pix* shrunk(Pix* pix) {
  const double factor = shrinking(pixGetWidth(pix), pixGetHeight(pix));
  if (factor >= 1) return pix;
  Pix* const smaller = pixScale(pix, static_cast<float>(factor), static_cast<float>(factor));
  pixDestroy(&pix);
  if (smaller == nullptr) throw std::bad_alloc();
  return smaller;
}

Picture picture_of(Pix* pix) {
  if (pixGetSpp(pix) == 4) {  // transparent pixels become white
    Pix* const opaque = pixRemoveAlpha(pix);
    pixDestroy(&pix);
    if (opaque == nullptr) throw std::bad_alloc();
    pix = opaque;
  }
  const int width = pixGetWidth(pix), height = pixGetHeight(pix);
  return Picture(shrunk(pix), width, height);
}

[[noreturn]] void throw_broken(const fs::path& path, const std::string& found) {
  throw ImageError("image-unreadable", {.what = "a page's image cannot be decoded",
                                        .where = path.string(),
                                        .found = found,
                                        .allowed = "a complete TIFF file",
                                        .remedy = "open it in a viewer; save or copy it again"});
}

struct TiffHeader {
  int width = 0, height = 0, bits = 0, samples = 0;
};

TiffHeader read_tiff_header(const fs::path& path, int page) {
  TiffHeader header;
  int resolution = 0, palette = 0, format = 0;
  const std::string place = fmt::format("page {}", page + 1);
  // Leptonica leaks memory when it is asked for a page that is not there.
  if (page >= count_tiff_pages(path)) throw_broken(path, place + ", which the file does not have");
  if (readHeaderTiff(path.c_str(), page, &header.width, &header.height, &header.bits, &header.samples, &resolution,
                     &palette, &format) != 0) {
    throw_broken(path, place + ", whose header cannot be read");
  }
  if (static_cast<std::uint64_t>(header.width) * static_cast<std::uint64_t>(header.height) > kMaxImagePixels) {
    throw ImageError("image-too-large",
                     {.what = "a page's image is too large",
                      .where = path.string() + ", " + place,
                      .found = fmt::format("{} x {} pixels", header.width, header.height),
                      .allowed = fmt::format("at most {} million pixels", kMaxImagePixels / 1'000'000),
                      .remedy = "scale it down"});
  }
  return header;
}

bool is_gray(const ImageInfo& info) { return info.samples_per_pixel == 1 && !info.palette; }

}  // namespace

void Picture::Destroy::operator()(Pix* pix) const { pixDestroy(&pix); }

Picture::Picture(Pix* owned, int file_width, int file_height)
    : pix_(owned), file_width_(file_width), file_height_(file_height) {}

int Picture::width() const { return pixGetWidth(pix_.get()); }
int Picture::height() const { return pixGetHeight(pix_.get()); }
double Picture::scale() const { return static_cast<double>(file_width_) / width(); }
int Picture::dpi() const { return pixGetXRes(pix_.get()); }

int Picture::letter_height() const {
  constexpr std::size_t kFewSpots = 20;
  const Picture plain = gray();
  // One threshold for the page is enough for measuring.
  Pix* thresholded = nullptr;
  pixOtsuAdaptiveThreshold(plain.pix(), width(), height(), 0, 0, 0.1F, nullptr, &thresholded);
  const Pixels dark(thresholded);
  if (dark == nullptr) throw std::bad_alloc();
  BOXA* boxes = pixConnCompBB(dark.get(), 8);
  std::vector<int> heights;
  for (int i = 0; i < boxaGetCount(boxes); ++i) {
    int x = 0, y = 0, wide = 0, high = 0;
    boxaGetBoxGeometry(boxes, i, &x, &y, &wide, &high);
    // Specks, lines and pictures are not letters.
    if (high >= 4 && high <= 100 && wide >= 2 && wide <= 3 * high) heights.push_back(high);
  }
  boxaDestroy(&boxes);
  if (heights.size() < kFewSpots) return 0;
  const auto middle = heights.begin() + static_cast<std::ptrdiff_t>(heights.size() / 2);
  std::nth_element(heights.begin(), middle, heights.end());
  return *middle;
}

bool Picture::is_gray_in_colours() const {
  // The channels of a gray pixel differ by up to about 50 if a scanner or JPEG's coarse colours blur it.
  constexpr int kLeastColour = 64;
  // One pixel in this many may have a colour: a speck, but not a word.
  constexpr std::int64_t kPixelsForOne = 10'000;
  if (pixGetDepth(pix_.get()) != 32) return false;
  const std::int64_t most = std::int64_t{width()} * height() / kPixelsForOne;
  std::int64_t coloured = 0;
  for (int y = 0; y < height(); ++y) {
    const std::uint32_t* const row = pixGetData(pix_.get()) + static_cast<std::ptrdiff_t>(y) * pixGetWpl(pix_.get());
    for (int x = 0; x < width(); ++x) {
      const int red = row[x] >> L_RED_SHIFT & 0xFFU, green = row[x] >> L_GREEN_SHIFT & 0xFFU,
                blue = row[x] >> L_BLUE_SHIFT & 0xFFU;
      coloured += std::max({red, green, blue}) - std::min({red, green, blue}) > kLeastColour ? 1 : 0;
    }
    if (coloured > most) return false;
  }
  return true;
}

Picture Picture::gray() const {
  Pix* const pix = pixConvertTo8(pix_.get(), 0);
  if (pix == nullptr) throw std::bad_alloc();
  return Picture(pix, file_width_, file_height_);
}

Picture Picture::enlarged() const {
  const Picture plain = gray();
  Pix* const pix = pixScaleGray2xLI(plain.pix());
  if (pix == nullptr) throw std::bad_alloc();
  return Picture(pix, file_width_, file_height_);
}

double Picture::ink_within(std::span<const Box> boxes) const {
  constexpr int kDark = 128;
  const Picture plain = gray();
  const Pixels dark(pixThresholdToBinary(plain.pix(), kDark));
  int all = 0, outside = 0;
  if (dark == nullptr || pixCountPixels(dark.get(), &all, nullptr) != 0) throw std::bad_alloc();
  for (const Box& box : boxes) {
    const int x = static_cast<int>(box[0]), y = static_cast<int>(box[1]);
    BOX* area = boxCreate(x, y, static_cast<int>(std::ceil(box[2])) - x, static_cast<int>(std::ceil(box[3])) - y);
    if (area != nullptr) pixClearInRect(dark.get(), area);  // one outside the picture changes nothing
    boxDestroy(&area);
  }
  if (pixCountPixels(dark.get(), &outside, nullptr) != 0) throw std::bad_alloc();
  return all == 0 ? 1 : 1 - static_cast<double>(outside) / all;
}

Picture Picture::middle() const {
  const int rows = std::max(1, height() / 4);
  BOX* box = boxCreate(0, (height() - rows) / 2, width(), rows);
  Pix* const pix = box == nullptr ? nullptr : pixClipRectangle(pix_.get(), box, nullptr);
  boxDestroy(&box);
  if (pix == nullptr) throw std::bad_alloc();
  return Picture(pix, width(), rows);
}

Picture Picture::turned(int degrees) const {
  check(degrees == 90 || degrees == 180 || degrees == 270, "a picture is turned by quarters");
  Pix* const pix = pixRotateOrth(pix_.get(), degrees / 90);
  if (pix == nullptr) throw std::bad_alloc();
  const bool exchanges = degrees != 180;
  return Picture(pix, exchanges ? file_height_ : file_width_, exchanges ? file_width_ : file_height_);
}

void Picture::write_png(const fs::path& path) const {
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  const bool made = pixWriteMemPng(&bytes, &size, pix_.get(), 0) == 0;
  const std::unique_ptr<std::uint8_t, decltype(&std::free)> owned(bytes, &std::free);
  if (!made) throw std::bad_alloc();
  OutputFile file(path);
  file.write(std::as_bytes(std::span(bytes, size)));
  file.close();
}

PictureForm picture_form(const fs::path& path) {
  const ImageInfo info = read_image_info(path);
  if (info.format == "tiff") return tiff_page_form(path, 0);
  PictureForm form{.pixels = std::int64_t{info.width} * info.height,
                   .in_colours = !is_gray(info),
                   .decode_bytes = static_cast<std::size_t>(info.decode_bytes)};
  return form;
}

PictureForm tiff_page_form(const fs::path& path, int page) {
  const TiffHeader header = read_tiff_header(path, page);
  const std::int64_t pixels = std::int64_t{header.width} * header.height;
  const bool is_gray = header.samples == 1 && header.bits <= 8;
  // A page in colours is decoded into a buffer of libtiff's; any page that is shrunk is held in its own size, too.
  return {
      .pixels = pixels, .in_colours = !is_gray, .decode_bytes = static_cast<std::size_t>(pixels) * (is_gray ? 1 : 8)};
}

Picture open_picture(const fs::path& path) {
  const ImageInfo info = read_image_info(path);
  if (info.format == "tiff") return open_tiff_page(path, 0);
  const std::unique_ptr<ImageRows> rows = open_image(path, Alpha::kOnWhite);
  const int width = rows->width(), height = rows->height();
  const double factor = shrinking(width, height);
  const int width_out = std::max(1, static_cast<int>(width * factor));
  const int height_out = std::max(1, static_cast<int>(height * factor));
  Picture picture(new_pix(width_out, height_out, is_gray(info) ? 8 : 32), width, height);
  if (factor < 1) {
    std::vector<std::uint8_t> small(3 * static_cast<std::size_t>(width_out) * static_cast<std::size_t>(height_out));
    read_resized(*rows, width_out, height_out, small);
    const std::size_t stride = 3 * static_cast<std::size_t>(width_out);
    for (int y = 0; y < height_out; ++y) {
      put_row(picture.pix(), y, std::span(small).subspan(stride * static_cast<std::size_t>(y), stride));
    }
    return picture;
  }
  std::vector<std::uint8_t> row(3 * static_cast<std::size_t>(width));
  for (int y = 0; y < height; ++y) {
    rows->next_row(row);
    put_row(picture.pix(), y, row);
  }
  copy_resolution(path, info, picture.pix());
  return picture;
}

bool is_transparent(const fs::path& path) {
  const ImageInfo info = read_image_info(path);
  if (info.format == "tiff" && info.samples_per_pixel % 2 == 0) {
    return first_transparent_row(read_tiff_page(path, 0)).has_value();
  }
  if (info.format != "png" || !may_be_transparent(path)) return false;
  const std::unique_ptr<ImageRows> stored = open_image(path), shown = open_image(path, Alpha::kOnWhite);
  std::vector<std::uint8_t> a(3 * static_cast<std::size_t>(stored->width())), b(a.size());
  for (int y = 0; y < stored->height(); ++y) {
    stored->next_row(a);
    shown->next_row(b);
    // Gamma may change an opaque pixel's last bit.
    constexpr int kLeast = 4;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::abs(int{a[i]} - int{b[i]}) >= kLeast) return true;
    }
  }
  return false;
}

int count_tiff_pages(const fs::path& path) {
  read_image_info(path);  // throws if the file is missing, incomplete, or not a picture
  const OpenFile file(std::fopen(path.c_str(), "rbe"));
  int pages = 0;
  if (file == nullptr || tiffGetCount(file.get(), &pages) != 0 || pages < 1) {
    throw_broken(path, "a TIFF whose directories cannot be read");
  }
  return pages;
}

Picture open_tiff_page(const fs::path& path, int page) {
  read_tiff_header(path, page);
  TiffPage read = read_tiff_page(path, page);
  if (read.pix == nullptr) throw_broken(path, fmt::format("page {}, broken TIFF data", page + 1));
  put_on_white(read);
  return picture_of(read.pix.release());
}

}  // namespace plimsoll
