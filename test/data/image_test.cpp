#include "data/image.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "data/image_processor.h"
#include "data/pages_fixture.h"
#include "data/resample.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::caught;
using test::ScratchFolder;
using testing::HasSubstr;

const fs::path kImages = test_data_dir() / "images";

ImageProcessorConfig sized(int height, int width) {
  ImageProcessorConfig config;
  config.height = height;
  config.width = width;
  return config;
}

// Decodes every row, and throws what that throws.
void read_all(const fs::path& path) {
  const std::unique_ptr<ImageRows> image = open_image(path);
  std::vector<std::uint8_t> row(3 * static_cast<std::size_t>(image->width()));
  for (int y = 0; y < image->height(); ++y) image->next_row(row);
}

// Every kind of image has the same bytes as Pillow's.
TEST(Image, PixelsEqualPillowsGoldenOnes) {
  const auto about = nlohmann::json::parse(read_text_file(kImages / "about.json"));
  const std::string expected = read_text_file(kImages / "expected.bin");
  const ImageProcessor processor(sized(32, 24));
  Resampler resampler;
  std::vector<std::uint8_t> bytes(processor.pixel_count());
  ASSERT_EQ(expected.size(), bytes.size() * about["images"].size());
  std::size_t offset = 0;
  for (const auto& name : about["images"]) {
    processor.load(kImages / name.get<std::string>(), resampler, bytes);
    std::size_t different = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      different += bytes[i] != static_cast<std::uint8_t>(expected[offset + i]) ? 1U : 0U;
    }
    EXPECT_EQ(different, 0U) << name;
    offset += bytes.size();
  }
}

TEST(Image, ReadsHeaders) {
  const ImageInfo jpeg = read_image_info(kImages / "rgb_420.jpg");
  EXPECT_EQ(jpeg.width, 61);
  EXPECT_EQ(jpeg.height, 47);
  EXPECT_EQ(jpeg.format, "jpeg");
  EXPECT_EQ(jpeg.samples_per_pixel, 3);
  // A progressive JPEG needs room for its coefficients.
  EXPECT_GT(read_image_info(kImages / "progressive.jpg").decode_bytes, jpeg.decode_bytes);
  EXPECT_TRUE(read_image_info(kImages / "palette.png").palette);
  EXPECT_EQ(read_image_info(kImages / "rgb16.png").bits_per_sample, 16);
  EXPECT_EQ(read_image_info(kImages / "group4.tif").format, "tiff");
  EXPECT_EQ(read_image_info(kImages / "gray.pgm").format, "pnm");
  EXPECT_EQ(read_image_info(kImages / "rgba.webp").format, "webp");
  EXPECT_EQ(read_image_info(kImages / "exif_8.webp").orientation, 8);
  const ImageInfo bmp = read_image_info(kImages / "rgb.bmp");
  EXPECT_EQ(bmp.format, "bmp");
  const auto decoded = open_image(kImages / "rgb.bmp");
  EXPECT_EQ(bmp.width, decoded->width());
  EXPECT_EQ(bmp.height, decoded->height());
}

TEST(Image, RefusesWithAReason) {
  const auto kind = [](const std::string& name) {
    const auto error = caught<ImageError>([&] { read_image_info(kImages / name); });
    EXPECT_THAT(error.problem().where, HasSubstr(name));
    EXPECT_FALSE(error.problem().remedy.empty());
    EXPECT_THROW(open_image(kImages / name), ImageError);
    return error.kind();
  };
  EXPECT_EQ(kind("none.png"), "image-missing");
  EXPECT_EQ(kind("refused.gif"), "image-kind");
  EXPECT_THAT(caught<ImageError>([&] { open_image(kImages / "refused_transparent.tif"); }).problem().what,
              HasSubstr("transparent parts"));
  EXPECT_EQ(kind("refused_text.png"), "image-kind");
  EXPECT_EQ(kind("refused_bomb.png"), "image-too-large");
  EXPECT_EQ(kind("refused_cut.jpg"), "image-unreadable");
  EXPECT_EQ(kind("refused_cut.png"), "image-unreadable");
  EXPECT_EQ(kind("refused_cut.webp"), "image-unreadable");
  EXPECT_THAT(caught<ImageError>([&] { open_image(kImages / "refused_animated.webp"); }).problem().what,
              HasSubstr("animation"));

  const ScratchFolder folder;
  EXPECT_THROW(read_image_info(folder.write("empty.png", "")), ImageError);
  EXPECT_THROW(read_image_info(folder.path()), ImageError);
  // Some bytes in the middle are lost: the header is fine, but decoding fails.
  std::string png = read_text_file(kImages / "rgb.png");
  for (std::size_t i = 300; i < 900; ++i) png[i] = '\0';
  const auto broken = folder.write("broken.png", png);
  EXPECT_EQ(read_image_info(broken).width, 61);
  EXPECT_THAT(caught<ImageError>([&] { read_all(broken); }).problem().found, HasSubstr("broken png data: "));
}

// Bytes behind a picture's end do not matter, and a picture without its end is found even if its preview has one.
TEST(Image, FindsTheEndWhateverFollowsIt) {
  const ScratchFolder folder;
  for (const char* name : {"rgb_444.jpg", "progressive.jpg", "rgb.png", "rgb.bmp", "lzw.tif", "rgb.ppm", "rgb.webp"}) {
    const std::string whole = read_text_file(kImages / name);
    EXPECT_NO_THROW(read_all(folder.write(name, whole + std::string(100'000, 'x')))) << name;
    const fs::path cut = folder.write(name, whole.substr(0, whole.size() * 2 / 3));
    EXPECT_EQ(caught<ImageError>([&] { read_image_info(cut); }).kind(), "image-unreadable") << name;
  }
  const std::string jpeg = read_text_file(kImages / "rgb_444.jpg");
  const std::string preview = std::string("\xFF\xE1\x10\x02", 4) + "\xFF\xD9" + std::string(4094, 'x');
  const std::string cut = jpeg.substr(0, 2) + preview + jpeg.substr(2, jpeg.size() / 2);
  EXPECT_THROW(read_image_info(folder.write("preview.jpg", cut + std::string(5000, 'x'))), ImageError);
}

TEST(Image, LetsWhitePaperThroughWhereATiffIsTransparent) {
  const auto image = open_image(kImages / "refused_transparent.tif", Alpha::kOnWhite);
  const auto same = open_image(kImages / "rgba.png", Alpha::kOnWhite);
  std::vector<std::uint8_t> row(3 * static_cast<std::size_t>(image->width())), expected(row.size());
  for (int y = 0; y < image->height(); ++y) {
    image->next_row(row);
    same->next_row(expected);
    for (std::size_t i = 0; i < row.size(); ++i) ASSERT_NEAR(row[i], expected[i], 1) << y << " " << i;
  }
}

// A page's size and boxes are those of the image as a viewer shows it.
TEST(Image, IsTurnedAsItsOrientationSays) {
  const ImageInfo plain = read_image_info(kImages / "rgb_420.jpg");
  for (int orientation = 2; orientation <= 8; ++orientation) {
    const fs::path path = kImages / fmt::format("exif_{}.jpg", orientation);
    const ImageInfo info = read_image_info(path);
    EXPECT_EQ(info.orientation, orientation);
    EXPECT_EQ(info.width, orientation < 5 ? plain.width : plain.height) << orientation;
    EXPECT_EQ(info.height, orientation < 5 ? plain.height : plain.width) << orientation;
    EXPECT_EQ(open_image(path)->width(), info.width) << orientation;
    // A picture whose last row is shown first is held whole, and the plan must count that.
    EXPECT_EQ(info.decode_bytes - plain.decode_bytes, orientation < 3 ? 0U : 3U * 61 * 47) << orientation;
  }
  EXPECT_EQ(read_image_info(kImages / "exif_8.png").orientation, 8);
  EXPECT_EQ(read_image_info(kImages / "gray_orientation_5.tif").width, plain.height);
  EXPECT_EQ(read_image_info(kImages / "rgb.png").orientation, 1);
}

// Libraries print to standard error themselves; their messages belong in ours, with the page's name.
TEST(Image, ABrokenOneIsToldByUsAlone) {
  const ScratchFolder folder;
  std::mt19937 random(5);
  testing::internal::CaptureStderr();
  int failed = 0;
  for (const char* name : {"rgb.png", "interlaced.png", "palette.png", "rgb_420.jpg", "progressive.jpg", "exif_6.jpg",
                           "rgb.tif", "lzw.tif", "rgb.bmp", "gray.pgm"}) {
    const std::string whole = read_text_file(kImages / name);
    for (int i = 0; i < 60; ++i) {
      std::string bytes = whole;
      const std::size_t bit = random() % (8 * bytes.size());
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      const fs::path path = folder.write(name, bytes);
      try {
        read_all(path);
      } catch (const ImageError& error) {
        ++failed;
        EXPECT_THAT(error.problem().where, HasSubstr(name));
        EXPECT_FALSE(error.problem().found.empty()) << name;
      }
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(failed, 100);
}

// The resampler differs from the definition in double precision by at most the two roundings.
TEST(Resample, AgreesWithDoublePrecision) {
  std::mt19937 random(7);
  const int sizes[][4] = {{61, 47, 24, 32}, {24, 32, 61, 47},  {100, 300, 24, 32}, {300, 100, 24, 32},
                          {1, 1, 5, 7},     {24, 50, 24, 32},  {50, 32, 24, 32},   {2, 200, 24, 32},
                          {7, 9, 1, 1},     {224, 10, 224, 3}, {33, 97, 32, 96}};
  for (const auto& [width, height, width_out, height_out] : sizes) {
    std::vector<std::uint8_t> source(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
    for (auto& byte : source) byte = static_cast<std::uint8_t>(random());
    std::vector<std::uint8_t> out(3 * static_cast<std::size_t>(width_out) * static_cast<std::size_t>(height_out));
    Resampler resampler;
    const auto row_bytes = 3 * static_cast<std::size_t>(width);
    resampler.begin(width, height, width_out, height_out, out);
    for (int y = 0; y < height; ++y) {
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(row_bytes) * y, row_bytes, resampler.row().begin());
      resampler.take_row();
    }
    // weight(i) of output position o: a triangle around its centre, as wide as the scale but at least 1.
    const auto weight = [](int o, int i, int input, int output) {
      const double scale = static_cast<double>(input) / output;
      return std::max(0.0, 1.0 - std::abs((i + 0.5 - (o + 0.5) * scale) / std::max(1.0, scale)));
    };
    for (int y = 0; y < height_out; ++y) {
      for (int x = 0; x < width_out; ++x) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
          double sum = 0, total = 0;
          for (int v = 0; v < height; ++v) {
            const double along_y = weight(y, v, height, height_out);
            if (along_y == 0) continue;
            for (int u = 0; u < width; ++u) {
              const double both = along_y * weight(x, u, width, width_out);
              total += both;
              sum += both * source[row_bytes * static_cast<std::size_t>(v) + 3 * static_cast<std::size_t>(u) + channel];
            }
          }
          const std::size_t at =
              3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width_out) + static_cast<std::size_t>(x)) +
              channel;
          ASSERT_NEAR(out[at], sum / total, 1.01) << width << "x" << height << " at " << x << "," << y;
        }
      }
    }
  }
}

TEST(ImageProcessor, NormalisesAsTheHuggingFaceProcessor) {
  const ImageProcessor processor(sized(32, 24));
  Resampler resampler;
  std::vector<std::uint8_t> bytes(processor.pixel_count());
  std::vector<float> values(processor.pixel_count());
  processor.load(kImages / "rgb.png", resampler, bytes);
  normalise(bytes, processor.values(), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t channel = i / (32 * 24), pixel = i % (32 * 24);
    const auto rescaled = static_cast<float>(bytes[3 * pixel + channel] * 0.00392156862745098);
    ASSERT_EQ(values[i], (rescaled - 0.5F) / 0.5F);
  }
}

TEST(ImageProcessor, ReadsBothKindsOfConfiguration) {
  const ScratchFolder folder;
  EXPECT_EQ(ImageProcessorConfig::from_model(folder.path()), ImageProcessorConfig{});
  EXPECT_EQ(ImageProcessorConfig::from_model(folder.path(), 48), (ImageProcessorConfig{.height = 48, .width = 48}));
  // The configuration of microsoft/layoutlmv3-base: its size is one number, and it names no rescaling.
  folder.write("preprocessor_config.json", R"({"apply_ocr": true, "do_normalize": true, "do_resize": true,
    "image_mean": [0.4, 0.5, 0.6], "image_std": [0.5, 0.25, 0.5], "ocr_lang": null, "resample": 2, "size": 192})");
  const auto old = ImageProcessorConfig::from_model(folder.path());
  EXPECT_EQ(old.height, 192);
  EXPECT_EQ(old.width, 192);
  EXPECT_EQ(old.mean[2], 0.6);
  EXPECT_EQ(old.std[1], 0.25);
  folder.write("processor_config.json", R"({"image_processor": {"size": {"height": 32, "width": 48},
    "do_rescale": false, "resample": 2}, "processor_class": "LayoutLMv3Processor"})");
  const auto nested = ImageProcessorConfig::from_model(folder.path());
  EXPECT_EQ(nested.height, 32);
  EXPECT_EQ(nested.width, 48);
  EXPECT_FALSE(nested.do_rescale);
  // A written configuration is read back unchanged.
  EXPECT_EQ(ImageProcessorConfig::from_json(old.to_json(), "test"), old);

  const auto fails = [](const std::string& json) {
    EXPECT_THROW(ImageProcessorConfig::from_json(json, "x.json"), DataError) << json;
  };
  fails(R"({"resample": 3})");
  fails(R"({"size": {"shortest_edge": 224}})");
  fails(R"({"size": 0})");
  fails(R"({"image_mean": [0.5]})");
  fails(R"({"image_std": [0.5, 0, 0.5]})");
  fails(R"({"image_mean": [0.5, 1e300, 0.5]})");
  fails(R"({"image_std": 1e-300})");
  for (const char* factor : {"0", "-0.004", "1e9", "\"1/255\""})
    fails(fmt::format(R"({{"rescale_factor": {}}})", factor));
  fails(R"({"do_resize": 1})");
  fails("[");
  const auto error = caught<DataError>([] { ImageProcessorConfig::from_json(R"({"resample": 3})", "x.json"); });
  EXPECT_EQ(error.problem().found, "3");
  EXPECT_EQ(error.problem().allowed, "2 (bilinear)");
}

TEST(ImageProcessor, RefusesAWrongSizeIfItMayNotResize) {
  ImageProcessorConfig config = sized(32, 24);
  config.do_resize = false;
  const ImageProcessor processor(config);
  Resampler resampler;
  std::vector<std::uint8_t> bytes(processor.pixel_count());
  EXPECT_THROW(processor.load(kImages / "rgb.png", resampler, bytes), ImageError);
  EXPECT_NO_THROW(processor.load(kImages / "same_size.png", resampler, bytes));
}

}  // namespace
}  // namespace plimsoll
