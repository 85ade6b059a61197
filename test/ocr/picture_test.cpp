// Page pictures: how files are opened, shrunk, turned and written.
#include "ocr/picture.h"

#include <gtest/gtest.h>
#include <leptonica/allheaders.h>

#include "data/image.h"
#include "support/drawn_text.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using test::expect_error;

struct Destroy {
  void operator()(Pix* pix) const { pixDestroy(&pix); }
};
using OwnedPix = std::unique_ptr<Pix, Destroy>;

OwnedPix white(int width, int height, int depth) {
  OwnedPix pix(pixCreate(width, height, depth));
  if (depth > 1) pixSetAll(pix.get());
  return pix;
}

TEST(Picture, KeepsSizeColourAndResolution) {
  const test::ScratchFolder folder;
  OwnedPix pix = white(120, 80, 32);
  pixSetRGBPixel(pix.get(), 7, 5, 200, 100, 50);
  pixSetResolution(pix.get(), 200, 200);
  pixWrite((folder / "a.png").c_str(), pix.get(), IFF_PNG);
  const Picture picture = open_picture(folder / "a.png");
  EXPECT_EQ(picture.width(), 120);
  EXPECT_EQ(picture.height(), 80);
  EXPECT_EQ(picture.scale(), 1);
  EXPECT_NEAR(picture.dpi(), 200, 1);
  int red = 0, green = 0, blue = 0;
  pixGetRGBPixel(picture.pix(), 7, 5, &red, &green, &blue);
  EXPECT_EQ(std::vector<int>({red, green, blue}), std::vector<int>({200, 100, 50}));
}

// A picture in colours that has none is read in gray; a word in a colour keeps the colours.
TEST(Picture, ColoursAreToldFromGrayThatIsStoredInColours) {
  const OwnedPix gray = white(200, 100, 8);
  EXPECT_FALSE(Picture(pixCopy(nullptr, gray.get()), 200, 100).is_gray_in_colours());
  OwnedPix pix = white(200, 100, 32);
  for (int x = 0; x < 200; ++x) pixSetRGBPixel(pix.get(), x, 50, 120, 150, 100);  // as JPEG blurs gray
  pixSetRGBPixel(pix.get(), 3, 3, 255, 0, 0);
  EXPECT_TRUE(Picture(pixCopy(nullptr, pix.get()), 200, 100).is_gray_in_colours()) << "one speck is no word";
  for (int x = 0; x < 10; ++x) pixSetRGBPixel(pix.get(), x, 60, 255, 255, 120);
  const Picture coloured(pixCopy(nullptr, pix.get()), 200, 100);
  EXPECT_FALSE(coloured.is_gray_in_colours());
  const Picture plain = coloured.gray();
  EXPECT_EQ(pixGetDepth(plain.pix()), 8);
  EXPECT_EQ(plain.file_width(), 200);
}

TEST(Picture, WhatIsTransparentIsPaper) {
  const test::ScratchFolder folder;
  const OwnedPix pix(pixCreate(30, 20, 32));  // black, and all of it transparent
  pixSetSpp(pix.get(), 4);
  pixWrite((folder / "a.png").c_str(), pix.get(), IFF_PNG);
  const Picture picture = open_picture(folder / "a.png");
  int red = 0, green = 0, blue = 0;
  pixGetRGBPixel(picture.pix(), 3, 3, &red, &green, &blue);
  EXPECT_EQ(red + green + blue, 3 * 255);
}

TEST(Picture, LargePicturesAreShrunkWhileTheyAreDecoded) {
  const test::ScratchFolder folder;
  const OwnedPix pix = white(9000, 6000, 8);
  pixWrite((folder / "a.png").c_str(), pix.get(), IFF_PNG);
  const Picture picture = open_picture(folder / "a.png");
  EXPECT_LE(std::int64_t{picture.width()} * picture.height(), kMostPixels);
  EXPECT_EQ(picture.file_width(), 9000);
  EXPECT_EQ(picture.file_height(), 6000);
  EXPECT_NEAR(picture.scale() * picture.width(), 9000, 1e-6);
}

TEST(Picture, TurnsClockwiseAndIsWrittenAsPng) {
  const test::ScratchFolder folder;
  OwnedPix pix = white(120, 80, 8);
  pixSetPixel(pix.get(), 0, 0, 0);
  pixWrite((folder / "a.png").c_str(), pix.get(), IFF_PNG);
  open_picture(folder / "a.png").turned(90).write_png(folder / "b.png");
  const Picture turned = open_picture(folder / "b.png");
  EXPECT_EQ(turned.width(), 80);
  EXPECT_EQ(turned.height(), 120);
  std::uint32_t value = 255;
  pixGetPixel(turned.pix(), 79, 0, &value);
  EXPECT_EQ(value, 0U);
}

TEST(Picture, TiffFilesHavePages) {
  const test::ScratchFolder folder;
  const std::string path = folder / "a.tif";
  for (int page = 0; page < 3; ++page) {
    const OwnedPix pix = white(100 + page, 50, 1);
    pixWriteTiff(path.c_str(), pix.get(), IFF_TIFF_G4, page == 0 ? "w" : "a");
  }
  EXPECT_EQ(count_tiff_pages(path), 3);
  for (int page = 0; page < 3; ++page) EXPECT_EQ(open_tiff_page(path, page).width(), 100 + page);
  expect_error<ImageError>([&] { open_tiff_page(path, 3); }, {"a.tif", "page 4"});
}

TEST(Picture, DamagedFilesAreNamed) {
  const test::ScratchFolder folder;
  expect_error<ImageError>([&] { open_picture(folder / "nothing.png"); }, {"nothing.png"});
  folder.write("a.png", "\x89PNG\r\n\x1a\n and no more");
  expect_error<ImageError>([&] { open_picture(folder / "a.png"); }, {"a.png"});
  folder.write("a.tif", std::string("II*\0\x08\0\0\0\x05\0", 10));
  expect_error<ImageError>([&] { count_tiff_pages(folder / "a.tif"); }, {"a.tif"});
}

}  // namespace
}  // namespace plimsoll
