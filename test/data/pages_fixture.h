// Helpers for the tests of src/data: a temporary folder, files in it, errors caught by type.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "data/image_processor.h"
#include "data/tokenized_pages.h"
#include "data/windows.h"
#include "harness/paths.h"
#include "support/scratch_folder.h"

namespace plimsoll::test {

// One token per letter, its id the letter's byte; two separators behind a prompt.
inline WordEncoder letters_encoder() {
  const auto encode = [](std::string_view word, std::vector<std::int32_t>& ids) {
    for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
  };
  const auto encode_text = [encode](std::span<const std::string> parts, std::vector<std::int32_t>& ids,
                                    std::vector<std::int32_t>& parts_of_ids) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      encode(parts[part], ids);
      parts_of_ids.resize(ids.size(), static_cast<std::int32_t>(part));
    }
  };
  return {.encode = encode, .encode_text = encode_text, .encode_prompt = encode};
}

inline std::shared_ptr<const TokenizedPages> tokenized(const std::filesystem::path& path,
                                                       const ReadOptions& reading = {}) {
  return std::make_shared<TokenizedPages>(open_pages(path, reading), letters_encoder(), reading);
}

// Images of 32 x 32 pixels are fast.
inline ImageProcessor small_processor() {
  ImageProcessorConfig config;
  config.height = config.width = 32;
  return ImageProcessor(config);
}

inline std::string image_file(const std::string& name) { return (test_data_dir() / "images" / name).string(); }

// Returns the error of type E that `run` throws; the test fails if it throws none.
template <typename E, typename F>
E caught(F&& run) {
  try {
    run();
  } catch (const E& error) {
    return error;
  }
  throw std::runtime_error("no error of the expected type was thrown");
}

}  // namespace plimsoll::test
