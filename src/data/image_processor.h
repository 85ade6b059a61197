// From an image file to the model's `pixel_values`: decode, resize, rescale, normalise, as the Hugging Face image
// processor of LayoutLMv3 does (its Pillow variant), to the byte before normalising and to the bit after.
//
//   const ImageProcessor processor(ImageProcessorConfig::from_model("layoutlmv3-base"));
//   ImageProcessor::Scratch scratch;                       // one per thread
//   processor.load("page.png", scratch, pixel_values);     // float [3, 224, 224]
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

  // From a model directory, in transformers' order: `image_processor` inside processor_config.json, else
  // preprocessor_config.json, else the defaults. Throws DataError for what is not supported (any resampling but
  // bilinear, sizes by the shortest edge) or makes no sense.
  static ImageProcessorConfig from_model(const std::filesystem::path& directory);
  // From the text of one of these files; `where` is for messages.
  static ImageProcessorConfig from_json(const std::string& text, const std::string& where);
  // The text of a preprocessor_config.json that transformers reads back.
  std::string to_json() const;

  friend bool operator==(const ImageProcessorConfig&, const ImageProcessorConfig&) = default;
};

// The largest images of a data set, by their headers: what a worker's buffers grow to.
struct ImageLimits {
  int width = 1, height = 1;
  std::uint64_t decode_bytes = 0;

  void include(const ImageInfo& info);
};

class ImageProcessor {
 public:
  // Buffers of one thread, reused from image to image.
  struct Scratch {
    Resampler resampler;
    std::vector<std::uint8_t> bytes;  // height x width x 3
  };

  explicit ImageProcessor(const ImageProcessorConfig& config);

  const ImageProcessorConfig& config() const { return config_; }
  // Floats of one image: 3 * height * width.
  std::size_t pixel_count() const;
  // Decodes and writes float [3, height, width] to `out`. Thread-safe with a scratch per thread. Throws ImageError.
  void load(const std::filesystem::path& path, Scratch& scratch, std::span<float> out) const;
  // The resized image before normalising, height x width x 3 bytes.
  void load_bytes(const std::filesystem::path& path, Scratch& scratch, std::span<std::uint8_t> out) const;
  // Upper bound of what one thread holds while it loads images within `limits`, `Scratch` included; what the decoder
  // itself takes (`limits.decode_bytes`) comes on top.
  std::uint64_t host_bytes(const ImageLimits& limits) const;

 private:
  ImageProcessorConfig config_;
  std::array<std::array<float, 256>, 3> values_{};  // normalised value of each byte, per channel
};

}  // namespace plimsoll
