#include "data/image_jpeg.h"

#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <new>
// After cstdio, whose names it uses:
#include <jerror.h>
#include <jpeglib.h>

namespace plimsoll {
namespace {

struct Decoder {
  jpeg_decompress_struct state;
  jpeg_error_mgr errors;
  std::jmp_buf failed;
};

// libjpeg must not return from here, and exceptions must not pass through it.
void fail(j_common_ptr state) { std::longjmp(static_cast<Decoder*>(state->client_data)->failed, 1); }
void print_nothing(j_common_ptr) {}

// Each of these jumps back into itself when libjpeg fails, and has nothing that would have to be destroyed.
bool start(Decoder& decoder, std::FILE* file) {
  decoder.state.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = fail;
  decoder.errors.output_message = print_nothing;
  decoder.state.client_data = &decoder;
  if (setjmp(decoder.failed) != 0) return false;
  jpeg_create_decompress(&decoder.state);
  jpeg_stdio_src(&decoder.state, file);
  jpeg_read_header(&decoder.state, TRUE);
  decoder.state.out_color_space = JCS_RGB;
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

// What libjpeg gave up on: memory that ran out is no fault of the file's.
[[noreturn]] void throw_error(const std::filesystem::path& path, const Decoder& decoder) {
  if (decoder.errors.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  throw broken_image(path, "jpeg");
}

class JpegRows final : public ImageRows {
 public:
  JpegRows(const std::filesystem::path& path, std::unique_ptr<std::FILE, Close> file,
           std::unique_ptr<Decoder, Destroy> decoder)
      : ImageRows(static_cast<int>(decoder->state.output_width), static_cast<int>(decoder->state.output_height)),
        path_(path),
        file_(std::move(file)),
        decoder_(std::move(decoder)) {}

  void next_row(std::span<std::uint8_t> out) override {
    check(out.size() == 3 * static_cast<std::size_t>(width()), "a row of the image fits");
    if (!read_row(*decoder_, out.data())) throw_error(path_, *decoder_);
  }
  bool damaged() const override { return decoder_->errors.num_warnings > 0; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<Decoder, Destroy> decoder_;
};

}  // namespace

std::unique_ptr<ImageRows> open_jpeg(const std::filesystem::path& path) {
  std::unique_ptr<Decoder, Destroy> decoder(new Decoder());
  std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr && errno == ENOMEM) throw std::bad_alloc();
  if (file == nullptr) throw broken_image(path, "jpeg");
  if (!start(*decoder, file.get())) throw_error(path, *decoder);
  return std::make_unique<JpegRows>(path, std::move(file), std::move(decoder));
}

}  // namespace plimsoll
