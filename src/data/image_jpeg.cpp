#include "data/image_jpeg.h"

#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>
// jpeglib.h uses names of cstdio, so it comes after it:
#include <jerror.h>
#include <jpeglib.h>

namespace plimsoll {
namespace {

struct Decoder {
  jpeg_decompress_struct state;
  jpeg_error_mgr errors;
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = "";
};

// libjpeg requires that this function never returns, and exceptions must not pass through libjpeg.
void fail(j_common_ptr state) {
  auto* const decoder = static_cast<Decoder*>(state->client_data);
  decoder->errors.format_message(state, decoder->message);
  std::longjmp(decoder->failed, 1);
}
void print_nothing(j_common_ptr) {}

// Each of these jumps back into itself when libjpeg fails, and has no object that would have to be destroyed.
bool read_header(Decoder& decoder, std::FILE* file) {
  decoder.state.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = fail;
  decoder.errors.output_message = print_nothing;
  decoder.state.client_data = &decoder;
  if (setjmp(decoder.failed) != 0) return false;
  jpeg_create_decompress(&decoder.state);
  jpeg_stdio_src(&decoder.state, file);
  return jpeg_read_header(&decoder.state, TRUE) == JPEG_HEADER_OK;
}

bool start(Decoder& decoder) {
  if (setjmp(decoder.failed) != 0) return false;
  decoder.state.out_color_space = decoder.state.num_components == 4 ? JCS_CMYK : JCS_RGB;
  return jpeg_start_decompress(&decoder.state) != 0;
}

bool read_row(Decoder& decoder, JSAMPROW row) {
  if (setjmp(decoder.failed) != 0) return false;
  return jpeg_read_scanlines(&decoder.state, &row, 1) == 1;
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct Destroy {
  void operator()(Decoder* decoder) const {
    jpeg_destroy_decompress(&decoder->state);
    delete decoder;
  }
};

// Turns libjpeg's failure into an error; running out of memory is not the file's fault.
[[noreturn]] void throw_error(const std::filesystem::path& path, const Decoder& decoder) {
  if (decoder.errors.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  throw broken_image(path, "jpeg", decoder.message);
}

struct OpenJpeg {
  std::unique_ptr<Decoder, Destroy> decoder;  // after the header
  std::unique_ptr<std::FILE, Close> file;
};

OpenJpeg open_header(const std::filesystem::path& path) {
  OpenJpeg jpeg{.decoder = std::unique_ptr<Decoder, Destroy>(new Decoder()),
                .file = std::unique_ptr<std::FILE, Close>(std::fopen(path.c_str(), "rbe"))};
  if (jpeg.file == nullptr && errno == ENOMEM) throw std::bad_alloc();
  if (jpeg.file == nullptr) throw broken_image(path, "jpeg", std::strerror(errno));
  if (!read_header(*jpeg.decoder, jpeg.file.get())) throw_error(path, *jpeg.decoder);
  return jpeg;
}

// Writes the colours that a row of inks has on paper, as Pillow computes them. A file stores how much of each ink is
// left out, as Adobe's programs do and as Pillow takes it for every file.
void show_inks(std::span<const std::uint8_t> inks, std::span<std::uint8_t> out) {
  for (std::size_t x = 0; x < inks.size() / 4; ++x) {
    const int light = inks[4 * x + 3];  // that the black lets through
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const int product = (255 - inks[4 * x + channel]) * light + 128;
      out[3 * x + channel] = static_cast<std::uint8_t>(light - ((product >> 8) + product) / 256);  // product / 255
    }
  }
}

class JpegRows final : public ImageRows {
 public:
  JpegRows(const std::filesystem::path& path, std::unique_ptr<std::FILE, Close> file,
           std::unique_ptr<Decoder, Destroy> decoder)
      : ImageRows(static_cast<int>(decoder->state.output_width), static_cast<int>(decoder->state.output_height)),
        path_(path),
        file_(std::move(file)),
        decoder_(std::move(decoder)) {
    if (decoder_->state.output_components == 4) inks_.resize(4 * static_cast<std::size_t>(this->width()));
  }

  void next_row(std::span<std::uint8_t> out) override {
    check(out.size() == 3 * static_cast<std::size_t>(width()), "a row of the image fits");
    if (!read_row(*decoder_, inks_.empty() ? out.data() : inks_.data())) throw_error(path_, *decoder_);
    if (!inks_.empty()) show_inks(inks_, out);
  }
  bool damaged() const override { return decoder_->errors.num_warnings > 0; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<Decoder, Destroy> decoder_;
  std::vector<std::uint8_t> inks_{};  // a row of cyan, magenta, yellow and black, if the file has these
};

}  // namespace

std::unique_ptr<ImageRows> open_jpeg(const std::filesystem::path& path) {
  OpenJpeg jpeg = open_header(path);
  if (!start(*jpeg.decoder)) throw_error(path, *jpeg.decoder);
  return std::make_unique<JpegRows>(path, std::move(jpeg.file), std::move(jpeg.decoder));
}

void read_jpeg_header(const std::filesystem::path& path, ImageInfo& info) {
  const OpenJpeg jpeg = open_header(path);
  info.width = static_cast<int>(jpeg.decoder->state.image_width);
  info.height = static_cast<int>(jpeg.decoder->state.image_height);
  info.bits_per_sample = 8;
  info.samples_per_pixel = jpeg.decoder->state.num_components;
}

}  // namespace plimsoll
