// Writes the model's pixels of images to standard output, for tools/check_images.py to compare with Pillow's.
//
// Paths come from standard input, one per line. For each it writes a little-endian int32 0, the resized bytes [224,
// 224, 3] and float32 [3, 224, 224]; or int32 1 (and a message on standard error) if the image cannot be loaded.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "data/image_processor.h"

int main(int argc, char** argv) {
  using namespace plimsoll;
  const auto put = [](const void* data, std::size_t bytes) { return std::fwrite(data, 1, bytes, stdout) == bytes; };
  try {
    // Optional arguments are the output's height and width, and the directory of the model whose configuration is used.
    ImageProcessorConfig config = argc > 3 ? ImageProcessorConfig::from_model(argv[3]) : ImageProcessorConfig{};
    if (argc > 2) {
      config.height = std::stoi(argv[1]);
      config.width = std::stoi(argv[2]);
    }
    const ImageProcessor processor(config);
    Resampler resampler;
    std::vector<std::uint8_t> bytes(processor.pixel_count());
    std::vector<float> values(processor.pixel_count());
    for (std::string path; std::getline(std::cin, path);) {
      std::int32_t status = 0;
      try {
        processor.load(path, resampler, bytes);
        normalise(bytes, processor.values(), values);
      } catch (const Error& error) {
        std::cerr << error.what() << '\n';
        status = 1;
      }
      if (!put(&status, sizeof status)) return 1;
      if (status != 0) continue;
      if (!put(bytes.data(), bytes.size()) || !put(values.data(), values.size() * sizeof(float))) return 1;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
