#include "data/image_checks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "base/counted.h"
#include "data/image.h"

namespace plimsoll {
namespace {

// On 400 scanned receipts ink covered at least 0.8 % of the pixels, and paper was at most 5 levels bluer than red.
constexpr int kInkLevels = 40;  // difference from the mean brightness
constexpr double kLeastInk = 0.0002;
constexpr int kPaperLevel = 128;
constexpr double kBluestPaper = 15;

struct PixelFacts {
  double mean = 0;       // brightness
  double ink = 0;        // fraction of pixels far from the mean
  double blue_cast = 0;  // blue minus red, over bright pixels
};

PixelFacts pixel_facts(ImageRows& image) {
  std::vector<std::uint8_t> row(3 * static_cast<std::size_t>(image.width()));
  std::uint64_t levels[256] = {}, bright = 0, pixels = 0, sum = 0;
  std::int64_t cast = 0;
  for (int y = 0; y < image.height(); ++y) {
    image.next_row(row);
    for (std::size_t i = 0; i < row.size(); i += 3) {
      const int level = (row[i] + row[i + 1] + row[i + 2]) / 3;
      ++levels[level];
      sum += static_cast<std::uint64_t>(level);
      ++pixels;
      if (level <= kPaperLevel) continue;
      ++bright;
      cast += row[i + 2] - row[i];
    }
  }
  PixelFacts facts;
  facts.mean = static_cast<double>(sum) / static_cast<double>(pixels);
  std::uint64_t ink = 0;
  for (int level = 0; level < 256; ++level) ink += std::abs(level - facts.mean) > kInkLevels ? levels[level] : 0;
  facts.ink = static_cast<double>(ink) / static_cast<double>(pixels);
  facts.blue_cast = bright == 0 ? 0 : static_cast<double>(cast) / static_cast<double>(bright);
  return facts;
}

}  // namespace

void check_pixels(const Page& page, Findings& findings) {
  const std::unique_ptr<ImageRows> image = open_image(page.image);
  const PixelFacts facts = pixel_facts(*image);
  const auto add = [&](std::string_view kind, Problem problem) {
    problem.where = fmt::format("{}, image {}", place(page), page.image.string());
    findings.add(Severity::kWarning, kind, std::move(problem));
  };
  if (image->damaged()) {
    add("image-damaged", {.what = "a page's image has damaged data, but can be decoded",
                          .remedy = "check it in a viewer; save or copy it again"});
  }
  if (facts.ink < kLeastInk && !page.words.empty()) {
    add("image-blank",
        {.what = "a page's image looks blank, though the page has words",
         .found = fmt::format("brightness {:.0f} everywhere, {}", facts.mean, counted(page.words.size(), "word")),
         .allowed = "a picture of the words",
         .remedy = "render or scan the page again"});
  }
  if (facts.blue_cast > kBluestPaper) {
    add("image-bgr", {.what = "red and blue seem to be exchanged in a page's image",
                      .found = fmt::format("paper with {:.0f} levels more blue than red", facts.blue_cast),
                      .allowed = "white or warm paper",
                      .remedy = "OpenCV reads and writes BGR: convert with cv2.cvtColor(image, cv2.COLOR_BGR2RGB)"});
  }
}

}  // namespace plimsoll
