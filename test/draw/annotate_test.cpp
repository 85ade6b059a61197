#include "draw/annotate.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/image.h"
#include "draw/cairo.h"
#include "draw/synth.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

struct RgbImage {
  int width, height;
  std::vector<std::uint8_t> bytes;
  // Returns how far a pixel is from gray.
  int colour(int x, int y) const {
    const std::uint8_t* pixel = bytes.data() + 3 * (static_cast<std::ptrdiff_t>(y) * width + x);
    return std::max({pixel[0], pixel[1], pixel[2]}) - std::min({pixel[0], pixel[1], pixel[2]});
  }
  int coloured_pixels(int x0, int y0, int x1, int y1) const {
    int count = 0;
    for (int y = y0; y < y1; ++y) {
      for (int x = x0; x < x1; ++x) count += colour(x, y) > 20 ? 1 : 0;
    }
    return count;
  }
};

RgbImage read_rgb(const fs::path& path) {
  const std::unique_ptr<ImageRows> image = open_image(path);
  RgbImage rgb{image->width(), image->height(), {}};
  const std::size_t row_bytes = 3 * static_cast<std::size_t>(rgb.width);
  rgb.bytes.resize(row_bytes * static_cast<std::size_t>(rgb.height));
  for (int y = 0; y < rgb.height; ++y) {
    image->next_row(std::span(rgb.bytes).subspan(row_bytes * static_cast<std::size_t>(y), row_bytes));
  }
  return rgb;
}

// Writes a white page of the given size.
fs::path write_blank(const fs::path& path, int width, int height) {
  const draw::Surface surface = draw::make_surface(CAIRO_FORMAT_A8, width, height);
  const draw::Context context = draw::make_context(surface.get());
  cairo_paint(context.get());
  write_text_file(path, draw::encode_png(surface.get()));
  return path;
}

TEST(Annotate, ColoursWhereEntitiesAreAndNowhereElse) {
  const ScratchFolder scratch;
  const fs::path image = write_blank(scratch / "page.png", 300, 400);
  draw_annotated_page({.image = image,
                       .words = {{.box = {40, 100, 120, 120}, .label = "B-COMPANY", .confidence = 0.97},
                                 {.box = {130, 100, 200, 120}, .label = "I-COMPANY", .confidence = 0.91},
                                 {.box = {40, 200, 120, 220}, .label = "O"},
                                 {.box = {40, 300, 120, 320}, .label = "B-TOTAL"}},
                       .output_png = scratch / "out.png"});
  const RgbImage out = read_rgb(scratch / "out.png");
  EXPECT_EQ(out.width, 300);
  EXPECT_GT(out.height, 400);
  EXPECT_EQ(out.coloured_pixels(42, 102, 118, 118), 76 * 16);
  EXPECT_EQ(out.coloured_pixels(132, 102, 198, 118), 66 * 16);
  EXPECT_EQ(out.coloured_pixels(42, 302, 118, 318), 76 * 16);
  EXPECT_EQ(out.coloured_pixels(0, 150, 300, 270), 0);
  EXPECT_GT(out.coloured_pixels(40, 80, 120, 99), 100) << "the tag above the entity";
  EXPECT_GT(out.coloured_pixels(0, 401, 300, out.height), 50) << "the legend";
  EXPECT_FALSE(fs::exists(aside_path(scratch / "out.png")));
}

// Boxes refer to the page's size, which need not be the picture's.
TEST(Annotate, BoxesAreScaledToThePicture) {
  const ScratchFolder scratch;
  const fs::path image = write_blank(scratch / "page.png", 300, 400);
  draw_annotated_page({.image = image,
                       .width = 600,
                       .height = 1200,
                       .words = {{.box = {80, 300, 240, 360}, .label = "B-TOTAL"}},
                       .output_png = scratch / "out.png"});
  const RgbImage out = read_rgb(scratch / "out.png");
  EXPECT_EQ(out.coloured_pixels(42, 102, 118, 118), 76 * 16);
  EXPECT_EQ(out.coloured_pixels(0, 150, 300, 400), 0);
}

TEST(Annotate, MarksWhatDiffersFromTheGoldLabels) {
  const ScratchFolder scratch;
  const fs::path image = write_blank(scratch / "page.png", 300, 300);
  const auto draw = [&](const std::string& label, const std::string& gold, const std::string& name) {
    draw_annotated_page({.image = image,
                         .words = {{.box = {100, 100, 180, 120}, .label = label, .gold_label = gold}},
                         .output_png = scratch / name,
                         .entity_names = {"DATE", "TOTAL"}});
    return read_rgb(scratch / name);
  };
  const auto red_pixels = [](const RgbImage& page) {
    int red = 0;
    for (int y = 0; y < 300; ++y) {
      for (int x = 0; x < page.width; ++x) {
        const std::uint8_t* p = page.bytes.data() + 3 * (y * page.width + x);
        red += p[0] > 180 && p[1] < 60 && p[2] < 60 ? 1 : 0;
      }
    }
    return red;
  };
  EXPECT_EQ(red_pixels(draw("B-DATE", "B-DATE", "right.png")), 0);
  EXPECT_GT(red_pixels(draw("B-DATE", "O", "wrong.png")), 200);
  EXPECT_GT(red_pixels(draw("B-DATE", "B-TOTAL", "confused.png")), 200);
  const RgbImage missed = draw("O", "B-DATE", "missed.png");
  EXPECT_GT(red_pixels(missed), 100);
  EXPECT_EQ(missed.coloured_pixels(106, 106, 174, 114), 0) << "what was missed is not filled";
}

TEST(Annotate, DrawsOverADrawnPage) {
  const ScratchFolder scratch;
  const SynthPage page = PageDrawer(8).draw(0);
  write_text_file(scratch / "page.png", page.png);
  AnnotatedPage annotated{.image = scratch / "page.png", .output_png = scratch / "out.png"};
  for (const SynthWord& word : page.words) {
    const auto& [x0, y0, x1, y1] = word.box;
    annotated.words.push_back({.box = {double(x0), double(y0), double(x1), double(y1)}, .label = word.label});
  }
  draw_annotated_page(annotated);
  const RgbImage out = read_rgb(scratch / "out.png");
  for (const SynthWord& word : page.words) {
    if (word.label == "O") continue;
    EXPECT_GT(out.coloured_pixels(word.box[0], word.box[1], word.box[2], word.box[3]), 10) << word.text;
  }
}

TEST(Annotate, TakesAnyBoxAndAnyText) {
  const ScratchFolder scratch;
  const fs::path image = write_blank(scratch / "page.png", 64, 48);
  draw_annotated_page({.image = image,
                       .words = {{.box = {-500, -20, 9000, 9000}, .label = "B-\xC3\xA9t\xC3\xA9"},
                                 {.box = {50, 40, 10, 5}, .label = "B-\xFF\xFE\x01", .confidence = 7.0},
                                 {.box = {63, 47, 64, 48}, .label = std::string("B-a\0b", 5)},
                                 {.box = {0, 0, 0, 0}, .label = "I-"}},
                       .output_png = scratch / "out.png"});
  EXPECT_EQ(read_rgb(scratch / "out.png").width, 64);
  draw_annotated_page({.image = image, .output_png = scratch / "empty.png"});
  EXPECT_EQ(read_rgb(scratch / "empty.png").width, 64);
}

TEST(Annotate, DrawsLargePagesSmaller) {
  const ScratchFolder scratch;
  const fs::path image = write_blank(scratch / "page.png", 2500, 5000);
  draw_annotated_page({.image = image,
                       .words = {{.box = {500, 2500, 1500, 2700}, .label = "B-TOTAL"}},
                       .output_png = scratch / "out.png"});
  const RgbImage out = read_rgb(scratch / "out.png");
  EXPECT_EQ(out.width, 1000);
  EXPECT_GT(out.height, 2000);  // the legend lies below
  // The box is where it was on the page, at two fifths of its size; the rest is as white as before.
  EXPECT_GT(out.coloured_pixels(210, 1005, 590, 1075), 350 * 60);
  EXPECT_EQ(out.coloured_pixels(0, 0, 1000, 900), 0);
  EXPECT_EQ(out.coloured_pixels(0, 1150, 1000, 1990), 0);
  EXPECT_EQ(out.bytes.front(), 255);
  EXPECT_LT(drawing_bytes(2500, 5000), std::size_t{26} << 20);
  EXPECT_LT(drawing_bytes(30000, 6000), std::size_t{30} << 20);
}

TEST(Annotate, RefusesWhatCannotBeDrawn) {
  const ScratchFolder scratch;
  write_text_file(scratch / "text.png", "no picture");
  EXPECT_THROW(draw_annotated_page({.image = scratch / "none.png", .output_png = scratch / "out.png"}), DataError);
  EXPECT_THROW(draw_annotated_page({.image = scratch / "text.png", .output_png = scratch / "out.png"}), DataError);
  const fs::path image = write_blank(scratch / "page.png", 64, 48);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(
      draw_annotated_page(
          {.image = image, .words = {{.box = {0, nan, 1, 1}, .label = "B-A"}}, .output_png = scratch / "out.png"}),
      DataError);
  EXPECT_FALSE(fs::exists(scratch / "out.png"));
  EXPECT_THROW(draw_annotated_page({.image = image, .output_png = scratch / "no" / "such" / "out.png"}),
               EnvironmentError);
}

}  // namespace
}  // namespace plimsoll
