// The picture of a page, and the page's boxes in the picture's pixels.
//
//   const Pictures pictures({}, 150);
//   pictures.place(page, losses);  // from here on page.unit is kPixels, and page.picture is set where there is one
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/found_page.h"
#include "convert/losses.h"

namespace plimsoll {

class Pictures {
 public:
  // `folder` is where the pictures are; empty: beside a page's file, or in `images` or `image` there or beside its
  // folder. `dpi` is the pixels per inch if boxes are lengths and a page has no picture.
  Pictures(std::filesystem::path folder, double dpi) : folder_(std::move(folder)), dpi_(dpi) {}

  // Returns the picture of the page: the one it names, or one with its file's name, and its number if the file has
  // several pages. Throws DataError if there is none although a folder of pictures was given.
  std::optional<std::filesystem::path> find(const FoundPage& page) const;

  // Finds the picture, turns boxes into whole pixels and clips them to the page. Throws DataError if the page's size
  // cannot be found, and for a box that lies outside its page or is not a box.
  void place(FoundPage& page, Losses& losses) const;

 private:
  std::vector<std::filesystem::path> folders(const FoundPage& page) const;

  std::filesystem::path folder_;
  double dpi_;
};

// Returns the path in the address of a picture: "a b/1.png" for "/data/local-files/?d=a%20b/1.png" and for
// "https://host/a%20b/1.png?x"; other text is returned unchanged.
std::string path_of_url(std::string_view url);

}  // namespace plimsoll
