#include "data/image_png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "data/image_jpeg.h"

namespace plimsoll {
namespace {

// The largest chunk that is read, other than the pixels' chunks.
constexpr png_alloc_size_t kChunkBytes = 256 * kKiB;

struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf failed;
  std::array<char, 96> message{};
  bool out_of_memory = false;
  png_uint_32 width = 0, height = 0;
  int passes = 1;  // above 1: interlaced
  bool may_be_transparent = false;
};

// libpng requires that this function never returns, and exceptions must not pass through libpng.
void fail(png_structp png, png_const_charp message) {
  auto* const decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  std::strncpy(decoder->message.data(), message, decoder->message.size() - 1);
  std::longjmp(decoder->failed, 1);
}
void print_nothing(png_structp, png_const_charp) {}

png_voidp allocate(png_structp png, png_alloc_size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<Decoder*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}
void release(png_structp, png_voidp memory) { std::free(memory); }

// Each of these jumps back into itself when libpng fails, and has no object that would have to be destroyed.
bool start(Decoder& decoder, std::FILE* file, Alpha alpha) {
  if (setjmp(decoder.failed) != 0) return false;
  decoder.png =
      png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, fail, print_nothing, &decoder, allocate, release);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) {
    decoder.out_of_memory = true;
    return false;
  }
  png_structp png = decoder.png;
  png_init_io(png, file);
  png_set_chunk_malloc_max(png, kChunkBytes);
  // None of these chunks changes a pixel: texts, profiles, EXIF (which data/image_orientation.h reads).
  static constexpr png_byte kIgnored[] = "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0eXIf\0hIST\0tIME";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kIgnored, (sizeof(kIgnored) + 4) / 5);
  png_read_info(png, decoder.info);
  decoder.width = png_get_image_width(png, decoder.info);
  decoder.height = png_get_image_height(png, decoder.info);
  const png_byte colour = png_get_color_type(png, decoder.info);
  const bool has_colour_key = png_get_valid(png, decoder.info, PNG_INFO_tRNS) != 0;
  decoder.may_be_transparent = (colour & PNG_COLOR_MASK_ALPHA) != 0 || has_colour_key;
  // Keeps the high byte of 16 bits, expands palettes and few bits, repeats gray three times, removes alpha.
  png_set_strip_16(png);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if ((colour & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  if (alpha == Alpha::kOnWhite && decoder.may_be_transparent) {
    if (has_colour_key) png_set_tRNS_to_alpha(png);
    const png_color_16 white = {.index = 0, .red = 255, .green = 255, .blue = 255, .gray = 255};
    png_set_background(png, &white, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1);
  }
  png_set_strip_alpha(png);
  decoder.passes = png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  if (png_get_rowbytes(png, decoder.info) == std::size_t{3} * decoder.width) return true;
  std::strncpy(decoder.message.data(), "rows of an unknown kind", decoder.message.size() - 1);
  return false;
}

bool read_row(Decoder& decoder, png_bytep row) {
  if (setjmp(decoder.failed) != 0) return false;
  png_read_row(decoder.png, row, nullptr);
  return true;
}

// Reads the chunks after the pixels; broken ones are reported as those before are.
bool finish(Decoder& decoder) {
  if (setjmp(decoder.failed) != 0) return false;
  png_read_end(decoder.png, nullptr);
  return true;
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct Destroy {
  void operator()(Decoder* decoder) const {
    png_destroy_read_struct(&decoder->png, &decoder->info, nullptr);
    delete decoder;
  }
};

std::unique_ptr<std::FILE, Close> open_file(const std::filesystem::path& path) {
  std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr && errno == ENOMEM) throw std::bad_alloc();
  if (file == nullptr) throw broken_image(path, "png", std::strerror(errno));
  return file;
}

// Turns libpng's failure into an error; running out of memory is not the file's fault.
[[noreturn]] void throw_error(const std::filesystem::path& path, const Decoder& decoder) {
  if (decoder.out_of_memory) throw std::bad_alloc();
  throw broken_image(path, "png", decoder.message.data());
}

class PngRows final : public ImageRows {
 public:
  PngRows(const std::filesystem::path& path, std::unique_ptr<std::FILE, Close> file,
          std::unique_ptr<Decoder, Destroy> decoder)
      : ImageRows(static_cast<int>(decoder->width), static_cast<int>(decoder->height)),
        path_(path),
        file_(std::move(file)),
        decoder_(std::move(decoder)) {
    if (decoder_->passes == 1) return;
    const std::size_t row_bytes = std::size_t{3} * decoder_->width;
    picture_.resize(row_bytes * decoder_->height);
    for (int pass = 0; pass < decoder_->passes; ++pass) {
      for (std::size_t y = 0; y < decoder_->height; ++y) read(picture_.data() + row_bytes * y);
    }
  }

  void next_row(std::span<std::uint8_t> out) override {
    check(out.size() == 3 * static_cast<std::size_t>(width()) && next_ < height(), "a row of the image fits");
    if (picture_.empty()) {
      read(out.data());
    } else {
      std::copy_n(picture_.begin() + static_cast<std::ptrdiff_t>(out.size()) * next_, out.size(), out.begin());
    }
    if (++next_ == height() && !finish(*decoder_)) throw_error(path_, *decoder_);
  }
  bool damaged() const override { return false; }

 private:
  void read(std::uint8_t* row) {
    if (!read_row(*decoder_, row)) throw_error(path_, *decoder_);
  }

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<Decoder, Destroy> decoder_;
  std::vector<std::uint8_t> picture_;  // used if it is interlaced
  int next_ = 0;
};

}  // namespace

std::unique_ptr<ImageRows> open_png(const std::filesystem::path& path, Alpha alpha) {
  std::unique_ptr<Decoder, Destroy> decoder(new Decoder());
  std::unique_ptr<std::FILE, Close> file = open_file(path);
  if (!start(*decoder, file.get(), alpha)) throw_error(path, *decoder);
  return std::make_unique<PngRows>(path, std::move(file), std::move(decoder));
}

bool may_be_transparent(const std::filesystem::path& path) {
  const std::unique_ptr<Decoder, Destroy> decoder(new Decoder());
  const std::unique_ptr<std::FILE, Close> file = open_file(path);
  return start(*decoder, file.get(), Alpha::kDropped) && decoder->may_be_transparent;
}

std::uint64_t png_decode_bytes(int width, int height, bool interlaced) {
  // Counts a row in its widest form, twice, the row before it, and the memory of zlib and chunks.
  const auto w = static_cast<std::uint64_t>(width);
  constexpr std::uint64_t kTables = 256 * kKiB;
  return (interlaced ? 3 * w * static_cast<std::uint64_t>(height) : 0) + 24 * w + kTables + kChunkBytes;
}

}  // namespace plimsoll
