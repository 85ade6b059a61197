#include "report/page_picture.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>
// jpeglib.h uses names of cstdio, so it comes after it:
#include <jpeglib.h>

#include "base/error.h"
#include "data/image.h"

namespace plimsoll::report {
namespace {

constexpr int kQuality = 60;
constexpr int kSides[] = {1100, 900, 720, 560, 420, 300};  // of the longest side, in pixels

struct Encoder {
  jpeg_compress_struct state;
  jpeg_error_mgr errors;
  std::jmp_buf failed;
  unsigned char* bytes = nullptr;  // libjpeg allocates it with malloc
  unsigned long size = 0;          // NOLINT: libjpeg's type
};

void fail(j_common_ptr state) { std::longjmp(static_cast<Encoder*>(state->client_data)->failed, 1); }
void print_nothing(j_common_ptr) {}

// Jumps back into itself when libjpeg fails, and has no object that would have to be destroyed.
bool encode(Encoder& encoder, int width, int height, std::uint8_t* rgb) {
  encoder.state.err = jpeg_std_error(&encoder.errors);
  encoder.errors.error_exit = fail;
  encoder.errors.output_message = print_nothing;
  encoder.state.client_data = &encoder;
  if (setjmp(encoder.failed) != 0) return false;
  jpeg_create_compress(&encoder.state);
  jpeg_mem_dest(&encoder.state, &encoder.bytes, &encoder.size);
  encoder.state.image_width = static_cast<JDIMENSION>(width);
  encoder.state.image_height = static_cast<JDIMENSION>(height);
  encoder.state.input_components = 3;
  encoder.state.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder.state);
  jpeg_set_quality(&encoder.state, kQuality, TRUE);
  encoder.state.optimize_coding = TRUE;
  jpeg_start_compress(&encoder.state, TRUE);
  while (encoder.state.next_scanline < encoder.state.image_height) {
    JSAMPROW row = rgb + 3 * static_cast<std::size_t>(width) * encoder.state.next_scanline;
    jpeg_write_scanlines(&encoder.state, &row, 1);
  }
  jpeg_finish_compress(&encoder.state);
  return true;
}

struct Destroy {
  void operator()(Encoder* encoder) const {
    jpeg_destroy_compress(&encoder->state);
    std::free(encoder->bytes);
    delete encoder;
  }
};

std::string jpeg_of(int width, int height, std::vector<std::uint8_t>& rgb) {
  const std::unique_ptr<Encoder, Destroy> encoder(new Encoder());
  if (!encode(*encoder, width, height, rgb.data())) throw std::bad_alloc();  // nothing else can fail in memory
  return {reinterpret_cast<const char*>(encoder->bytes), encoder->size};
}

}  // namespace

PagePicture page_picture(const std::filesystem::path& image, std::size_t most_bytes) {
  PagePicture picture;
  int last_width = 0;
  for (const int side : kSides) {
    const std::unique_ptr<ImageRows> rows = open_image(image);
    const int width = rows->width(), height = rows->height();
    const double scale = std::min(1.0, static_cast<double>(side) / std::max(width, height));
    const auto scaled = [scale](int pixels) { return std::max(1, static_cast<int>(std::lround(pixels * scale))); };
    const int wide = scaled(width), high = scaled(height);
    if (wide == last_width) continue;  // the page is smaller than that
    last_width = wide;
    std::vector<std::uint8_t> rgb(3 * static_cast<std::size_t>(wide) * static_cast<std::size_t>(high));
    read_resized(*rows, wide, high, rgb);
    picture = {.page_width = width, .page_height = height, .jpeg = jpeg_of(wide, high, rgb)};
    if (picture.jpeg.size() <= most_bytes) break;
  }
  return picture;
}

}  // namespace plimsoll::report
