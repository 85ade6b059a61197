// Turns an image file into the model's `pixel_values`: decodes, resizes, rescales and normalises as the Hugging Face
// image processor of LayoutLMv3 does (its Pillow variant), equal to the byte before normalising and to the bit after.
//
//   const ImageProcessor processor(ImageProcessorConfig::from_model("layoutlmv3-base"));
//   Resampler resampler;                                   // one per thread
//   processor.load("page.png", resampler, bytes);          // [224, 224, 3]: a quarter of the floats
//   normalise(bytes, processor.values(), pixel_values);    // float [3, 224, 224]
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/resample.h"

namespace plimsoll {

struct ImageProcessorConfig {
  int height = 224, width = 224;
  bool do_resize = true, do_rescale = true, do_normalize = true;
  double rescale_factor = 1.0 / 255.0;
  std::array<double, 3> mean = {0.5, 0.5, 0.5};
  std::array<double, 3> std = {0.5, 0.5, 0.5};

  // Reads a model directory in transformers' order: `image_processor` inside processor_config.json, else
  // preprocessor_config.json, else the defaults, at `size` pixels as the model's config says. Throws DataError for
  // unsupported values (any resampling but bilinear, sizes by the shortest edge) and for values that make no sense.
  static ImageProcessorConfig from_model(const std::filesystem::path& directory, int size = 224);
  // Reads the text of one of these files; `where` names it in messages.
  static ImageProcessorConfig from_json(const std::string& text, const std::string& where);
  // Returns the text of a preprocessor_config.json that transformers can read.
  std::string to_json() const;

  friend bool operator==(const ImageProcessorConfig&, const ImageProcessorConfig&) = default;
};

// The normalised value of each byte, for each channel.
using PixelValues = std::array<std::array<float, 256>, 3>;

// Converts R, G, B bytes of pixels to three planes of floats; both hold 3 * pixels.
void normalise(std::span<const std::uint8_t> bytes, const PixelValues& values, std::span<float> out);

// The largest images of a data set, from their headers; a worker's buffers grow to these.
struct ImageLimits {
  int width = 1, height = 1;
  std::uint64_t decode_bytes = 0;

  void include(const ImageInfo& info);
};

class ImageProcessor {
 public:
  explicit ImageProcessor(const ImageProcessorConfig& config);

  const ImageProcessorConfig& config() const { return config_; }
  // The number of values of one image: 3 * height * width.
  std::size_t pixel_count() const;
  const PixelValues& values() const { return values_; }
  // Decodes and resizes. `out` takes height x width x 3 bytes, not yet normalised; with `scale`, both sides are that
  // many times longer. Thread-safe with a resampler per thread. Throws ImageError.
  void load(const std::filesystem::path& path, Resampler& resampler, std::span<std::uint8_t> out, int scale = 1) const;
  // An upper bound of the bytes that a thread's resampler holds after images within `limits`; the decoder's own bytes
  // (`limits.decode_bytes`) come on top.
  std::uint64_t host_bytes(const ImageLimits& limits, int scale = 1) const;

 private:
  ImageProcessorConfig config_;
  PixelValues values_{};
};

}  // namespace plimsoll
