// A page's picture, small enough to embed in an HTML file.
//
//   const PagePicture picture = page_picture("receipt.png", 100'000);
//   const std::string address = "data:image/jpeg;base64," + encode_base64(picture.jpeg);
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace plimsoll::report {

struct PagePicture {
  int page_width = 0, page_height = 0;  // pixels of the page itself
  std::string jpeg{};
};

// Shrinks the page until its JPEG has at most that many bytes, down to a side of 300 pixels, which is accepted in any
// case. Throws ImageError if the image is missing or damaged.
PagePicture page_picture(const std::filesystem::path& image, std::size_t most_bytes);

}  // namespace plimsoll::report
