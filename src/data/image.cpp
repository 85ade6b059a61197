#include "data/image.h"

#include <fmt/format.h>
#include <leptonica/allheaders.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/file.h"
#include "data/file_kind.h"
#include "data/image_bmp.h"
#include "data/image_end.h"
#include "data/image_jpeg.h"
#include "data/image_orientation.h"
#include "data/image_png.h"
#include "data/image_tiff.h"
#include "data/image_webp.h"
#include "data/resample.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Leptonica prints by default; our libraries never print.
void silence_leptonica() {
  static std::once_flag once;
  std::call_once(once, [] { setMsgSeverity(L_SEVERITY_NONE); });
}

// Throws EnvironmentError if no file can be opened: libraries that open the image themselves do not say why they fail.
void refuse_without_descriptors(const fs::path& path) {
  try {
    const InputFile probe(path);
  } catch (const DataError&) {  // the caller says what is wrong with it
  }
}

ImageError unreadable(const fs::path& path, std::string what, std::string found) {
  refuse_without_descriptors(path);
  return ImageError("image-unreadable", {.what = std::move(what),
                                         .where = path.string(),
                                         .found = std::move(found),
                                         .allowed = "a complete PNG, JPEG, TIFF, PNM, BMP or WebP file",
                                         .remedy = "open it in a viewer; save or copy it again"});
}

InputFile open_file(const fs::path& path) {
  try {
    InputFile file(path);
    if (file.size_bytes() > 0) return file;
  } catch (const DataError& error) {
    Problem problem = error.problem();
    problem.what = "cannot open a page's image";
    problem.remedy =
        path.string().find('\\') == std::string::npos
            ? "check the path in the data (relative to the data file's folder) and its permissions"
            : "write the path in the data with /, as this system has it, relative to the data file's folder";
    throw ImageError("image-missing", std::move(problem));
  }
  throw unreadable(path, "a page's image is an empty file", "0 bytes");
}

std::string_view format_name(int format) {
  switch (format) {
    case IFF_PNG:
      return "png";
    case IFF_JFIF_JPEG:
      return "jpeg";
    case IFF_TIFF:
    case IFF_TIFF_PACKBITS:
    case IFF_TIFF_RLE:
    case IFF_TIFF_G3:
    case IFF_TIFF_G4:
    case IFF_TIFF_LZW:
    case IFF_TIFF_ZIP:
    case IFF_TIFF_JPEG:
      return "tiff";
    case IFF_PNM:
      return "pnm";
    case IFF_BMP:
      return "bmp";
    case IFF_WEBP:
      return "webp";
    default:
      return "";
  }
}

std::string_view refused_format_name(int format) {
  switch (format) {
    case IFF_GIF:
      return "GIF";
    case IFF_JP2:
      return "JPEG 2000";
    case IFF_PS:
    case IFF_LPDF:
      return "PostScript or PDF";
    default:
      return "not a known image format";
  }
}

// A JPEG of several scans (every progressive one, some others) is decoded by holding every coefficient. The frame's
// marker says which kind it is; the first scan's says whether it holds all components.
bool has_several_scans(const InputFile& file) {
  std::uint64_t at = 2;
  unsigned components = 0;
  std::array<std::byte, 10> head{};
  const auto byte = [&head](std::size_t i) { return std::to_integer<unsigned>(head[i]); };
  while (at + head.size() <= file.size_bytes()) {
    file.read_at(at, head);
    if (byte(0) != 0xFF) return true;  // out of sync: assume the more expensive kind
    const unsigned marker = byte(1);
    if (marker == 0xFF) {
      ++at;  // skips a fill byte
      continue;
    }
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame && (marker & 3U) == 2) return true;
    if (frame) components = byte(9);
    if (marker == 0xDA) return byte(4) != components;
    at += 2 + byte(2) * 256 + byte(3);
  }
  return true;
}

// Reads the header's byte for interlacing.
bool is_png_interlaced(const InputFile& file) {
  constexpr std::uint64_t kInterlace = 28;
  std::array<std::byte, 1> value{};
  if (kInterlace >= file.size_bytes()) return false;
  file.read_at(kInterlace, value);
  return value[0] != std::byte{0};
}

// Returns an upper bound of the decoder's peak bytes, derived from how the libraries work and compared with measured
// peaks when it was written (0.4 to 0.98 of the bound for colour TIFF, 0.42 to 0.89 for WebP).
std::uint64_t bound_decode_bytes(const ImageInfo& info, const InputFile& file) {
  const auto width = static_cast<std::uint64_t>(info.width), height = static_cast<std::uint64_t>(info.height);
  const int depth = info.samples_per_pixel > 1 ? 32 : std::min(info.bits_per_sample, 16);
  const std::uint64_t pix = (width * static_cast<std::uint64_t>(depth) + 31) / 32 * 4 * height;
  const std::uint64_t widest = 4 * width * height;
  constexpr std::uint64_t kTables = 512 * kKiB;  // the decoder's state
  const std::uint64_t row = 16 * width;          // one row in the widest form, and its filtered twin
  if (info.format == "png") return png_decode_bytes(info.width, info.height, is_png_interlaced(file));
  if (info.format == "jpeg") {
    const auto blocks = (width + 15) / 16 * 16 * ((height + 15) / 16 * 16);
    const std::uint64_t coefficients =
        has_several_scans(file) ? blocks * 2 * static_cast<std::uint64_t>(info.samples_per_pixel) : 0;
    return coefficients + 24 * row + kTables;
  }
  if (info.format == "tiff") {
    // Colour goes through a raster of the whole image and strips of the same size; a rotated image is copied once more.
    // The raw strip is at most as large as the file.
    const std::uint64_t working = info.samples_per_pixel > 1 ? 2 * widest : pix;
    return pix + working + file.size_bytes() + row + kTables;
  }
  if (info.format == "pnm") return pix + row + kTables;
  // The file, the picture, and what a lossless picture, or the alpha of the other kind, is decoded to before.
  if (info.format == "webp") return file.size_bytes() + 2 * widest + width * height + 4 * row + 4 * kTables;
  return row + kTables;  // BMP
}

// Throws std::bad_alloc if memory of that size cannot be allocated.
void expect_memory(std::uint64_t bytes) {
  void* const volatile room = ::operator new(static_cast<std::size_t>(bytes));
  ::operator delete(room);
}

// Leptonica reads through a null pointer if one of its small allocations fails, so this tries to get the memory first.
// If a larger allocation fails, Leptonica reports only a failure; `call` is then repeated once memory is available, so
// that a brief shortage is not taken for a broken file.
template <typename Call>
bool holds_with_memory(std::uint64_t bytes, const Call& call) {
  expect_memory(bytes);
  if (call()) return true;
  expect_memory(bytes);
  return call();
}

constexpr std::uint64_t kHeaderBytes = 64 * kKiB;

BmpHeader bmp_header(const fs::path& path, const InputFile& file, ImageInfo& info, int& palette) {
  std::optional<BmpHeader> header = read_bmp_header(file);
  if (!header) {
    throw ImageError("image-kind", {.what = "a page's image is a BMP file in a form that is not read",
                                    .where = path.string(),
                                    .found = "compressed pixels, unusual masks, or a header that is damaged",
                                    .allowed = "BMP without compression",
                                    .remedy = "convert it to PNG"});
  }
  info.width = static_cast<int>(header->width);
  info.height = static_cast<int>(header->height);
  info.bits_per_sample = std::min(header->bits, 8);
  info.samples_per_pixel = header->bits >= 16 ? 3 : 1;
  palette = header->bits <= 8 ? 1 : 0;
  return *header;
}

void refuse_animation(const fs::path& path, const InputFile& file) {
  const std::optional<WebpContainer> webp = read_webp_container(file);
  if (!webp || !webp->is_animated) return;
  throw ImageError("image-kind", {.what = "a page's image is an animation",
                                  .where = path.string(),
                                  .found = "a WebP file with several pictures",
                                  .allowed = "a WebP file with one",
                                  .remedy = "save the picture that is meant as PNG"});
}

struct Header {
  ImageInfo info;
  int format = IFF_UNKNOWN;
  BmpHeader bmp{};
};

Header read_header(const fs::path& path, const InputFile& file) {
  silence_leptonica();
  Header header;
  // The format comes from the first bytes, before any decoder runs, because reading a GIF's header, for one, decodes
  // all of it.
  const bool known = holds_with_memory(kHeaderBytes, [&] { return findFileFormat(path.c_str(), &header.format) == 0; });
  if (!known || format_name(header.format).empty()) {
    if (begins_like_tiff(file)) {
      throw unreadable(path, "a page's image ends too early", "a TIFF whose directory cannot be read");
    }
    refuse_without_descriptors(path);
    const std::optional<FileKind> kind = recognise_file(path);
    const std::string found = kind ? kind->name : std::string(refused_format_name(header.format));
    throw ImageError("image-kind", {.what = "a page's image has an unsupported format",
                                    .where = path.string(),
                                    .found = found,
                                    .allowed = "PNG, JPEG, TIFF, PNM, BMP or WebP",
                                    .remedy = "convert it to PNG"});
  }
  ImageInfo& info = header.info;
  info.format = format_name(header.format);
  int palette = 0;
  if (info.format == "jpeg") read_jpeg_header(path, info);
  if (info.format == "bmp") header.bmp = bmp_header(path, file, info, palette);
  if (info.format == "webp") refuse_animation(path, file);
  const bool read = info.format == "jpeg" || info.format == "bmp" || holds_with_memory(kHeaderBytes, [&] {
                      return pixReadHeader(path.c_str(), &header.format, &info.width, &info.height,
                                           &info.bits_per_sample, &info.samples_per_pixel, &palette) == 0;
                    });
  if (!read || info.width <= 0 || info.height <= 0) {
    ImageError error =
        unreadable(path, "the header of a page's image cannot be read", fmt::format("{} data", info.format));
    if (info.format != "tiff") throw error;
    Problem problem = error.problem();
    problem.allowed = "a complete TIFF with samples of 1 to 16 bits";
    problem.remedy = "open it in a viewer; if it is whole, as one with 32-bit or float samples is, convert it to PNG";
    throw ImageError("image-unreadable", std::move(problem));
  }
  info.palette = palette != 0;
  const std::uint64_t pixels = static_cast<std::uint64_t>(info.width) * static_cast<std::uint64_t>(info.height);
  if (pixels > kMaxImagePixels) {
    throw ImageError("image-too-large",
                     {.what = "a page's image is too large",
                      .where = path.string(),
                      .found = fmt::format("{} x {} pixels", info.width, info.height),
                      .allowed = fmt::format("at most {} million pixels", kMaxImagePixels / 1'000'000),
                      .remedy = "scale it down: the model's input is 224 x 224, and OCR needs no more than 300 dpi"});
  }
  if (ends_too_early(file, info)) {
    throw unreadable(path, "a page's image ends too early",
                     fmt::format("{} of {} data, its end is missing", format_bytes(file.size_bytes()), info.format));
  }
  info.decode_bytes = bound_decode_bytes(info, file);
  info.orientation = read_orientation(file, info.format);
  if (exchanges_sides(info.orientation)) std::swap(info.width, info.height);
  // Leptonica turns a TIFF itself, and its bound includes that.
  if (info.format != "tiff") info.decode_bytes += turning_bytes(info.orientation, info.width, info.height);
  return header;
}

// Holds a whole image that Leptonica has decoded.
class WholeImage final : public ImageRows {
 public:
  explicit WholeImage(std::unique_ptr<Pix, DestroyPix> pix)
      : ImageRows(pixGetWidth(pix.get()), pixGetHeight(pix.get())),
        pix_(std::move(pix)),
        depth_(pixGetDepth(pix_.get())) {
    check(depth_ == 1 || depth_ == 2 || depth_ == 4 || depth_ == 8 || depth_ == 16 || depth_ == 32,
          "a decoded image has a depth that is known");
    if (depth_ <= 8) list_colours();
  }

  bool damaged() const override { return false; }

  void next_row(std::span<std::uint8_t> out) override {
    check(next_ < height() && out.size() == 3 * static_cast<std::size_t>(width()), "a row of the image fits");
    const std::uint32_t* words = pixGetData(pix_.get()) + static_cast<std::ptrdiff_t>(next_++) * pixGetWpl(pix_.get());
    std::uint8_t* target = out.data();
    const auto pixels = static_cast<unsigned>(width());
    if (depth_ == 32) {
      for (unsigned x = 0; x < pixels; ++x) {
        const std::uint32_t word = words[x];
        *target++ = static_cast<std::uint8_t>(word >> L_RED_SHIFT);
        *target++ = static_cast<std::uint8_t>(word >> L_GREEN_SHIFT);
        *target++ = static_cast<std::uint8_t>(word >> L_BLUE_SHIFT);
      }
    } else if (depth_ == 16) {
      for (unsigned x = 0; x < pixels; ++x) {
        const std::uint32_t pair = words[x / 2];
        const auto high = static_cast<std::uint8_t>(x % 2 == 0 ? pair >> 24 : pair >> 8);
        for (int channel = 0; channel < 3; ++channel) *target++ = high;
      }
    } else {
      // Pixels are packed into 32-bit words from the highest bits down.
      const auto depth = static_cast<unsigned>(depth_);
      const unsigned per_word = 32 / depth, mask = (1U << depth) - 1;
      for (unsigned x = 0; x < pixels; ++x) {
        const unsigned shift = 32 - depth * (x % per_word + 1);
        for (const std::uint8_t channel : colours_[(words[x / per_word] >> shift) & mask]) *target++ = channel;
      }
    }
  }

 private:
  void list_colours() {
    const int values = 1 << depth_;
    PIXCMAP* const palette = pixGetColormap(pix_.get());
    for (int value = 0; value < values; ++value) {
      int red = 0, green = 0, blue = 0;
      if (palette == nullptr) {
        // In Leptonica's one-bit images 1 is black.
        red = green = blue = depth_ == 1 ? 255 * (1 - value) : value * 255 / (values - 1);
      } else if (value < pixcmapGetCount(palette)) {
        pixcmapGetColor(palette, value, &red, &green, &blue);
      }
      colours_[static_cast<std::size_t>(value)] = {static_cast<std::uint8_t>(red), static_cast<std::uint8_t>(green),
                                                   static_cast<std::uint8_t>(blue)};
    }
  }

  std::unique_ptr<Pix, DestroyPix> pix_;
  int depth_ = 0;
  int next_ = 0;
  std::array<std::array<std::uint8_t, 3>, 256> colours_{};  // for a pixel's value at depth 8 and less
};

}  // namespace

ImageInfo read_image_info(const fs::path& path) { return read_header(path, open_file(path)).info; }

std::unique_ptr<ImageRows> open_image(const fs::path& path, Alpha alpha) {
  const Header header = read_header(path, open_file(path));
  if (header.format == IFF_JFIF_JPEG) return turned(open_jpeg(path), header.info.orientation);
  if (header.format == IFF_PNG) return turned(open_png(path, alpha), header.info.orientation);
  if (header.format == IFF_BMP) return open_bmp(path, header.bmp);
  TiffPage page;
  const bool decoded = holds_with_memory(header.info.decode_bytes, [&] {
    if (header.info.format == "tiff") {
      page = read_tiff_page(path, 0);
    } else {
      page.pix.reset(pixRead(path.c_str()));
      if (page.pix != nullptr && pixGetSpp(page.pix.get()) == 4) page.alpha = TiffAlpha::kApart;
    }
    return page.pix != nullptr;
  });
  if (!decoded) throw broken_image(path, header.info.format);
  if (alpha == Alpha::kOnWhite) {
    put_on_white(page);
  } else if (page.alpha == TiffAlpha::kMultiplied) {
    if (const std::optional<int> row = first_transparent_row(page)) {
      throw ImageError("image-kind", {.what = "a page's image is a TIFF file with transparent parts",
                                      .where = path.string(),
                                      .found = fmt::format("the first of them in row {}", *row),
                                      .allowed = "an opaque TIFF, or a PNG",
                                      .remedy = "save it as PNG, or without transparency"});
    }
  }
  auto rows = std::make_unique<WholeImage>(std::move(page.pix));
  return header.info.format == "tiff" ? std::move(rows) : turned(std::move(rows), header.info.orientation);
}

ImageError broken_image(const fs::path& path, std::string_view format, std::string_view why) {
  return unreadable(path, "a page's image cannot be decoded",
                    fmt::format("broken {} data{}{}", format, why.empty() ? "" : ": ", why));
}

void read_resized(ImageRows& rows, int width, int height, std::span<std::uint8_t> out) {
  Resampler resampler;
  resampler.begin(rows.width(), rows.height(), width, height, out);
  for (int y = 0; y < rows.height(); ++y) {
    rows.next_row(resampler.row());
    resampler.take_row();
  }
}

}  // namespace plimsoll
