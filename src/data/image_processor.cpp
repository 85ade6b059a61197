#include "data/image_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/file.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLongestConfigBytes = 16 * kMiB;
constexpr int kBilinear = 2;  // PIL.Image.Resampling.BILINEAR

DataError bad_value(const std::string& where, std::string_view key, const Json& found, std::string allowed,
                    std::string remedy = "correct the file, or download it again with the model") {
  return DataError({.what = fmt::format("unsupported {} in an image processor's configuration", key),
                    .where = where,
                    .found = json_text(found).substr(0, 80),
                    .allowed = std::move(allowed),
                    .remedy = std::move(remedy)});
}

const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void read_flag(const Json& object, const char* key, bool& value, const std::string& where) {
  const Json* found = find(object, key);
  if (found == nullptr) return;
  if (!found->is_boolean()) throw bad_value(where, key, *found, "true or false");
  value = found->get<bool>();
}

int read_edge(const Json& value, const std::string& where) {
  constexpr int kMostPixels = 4096;
  const double number = value.is_number() ? value.get<double>() : 0.0;
  if (!(number >= 1 && number <= kMostPixels) || number != std::floor(number)) {
    throw bad_value(where, "size", value, fmt::format("a whole number from 1 to {}", kMostPixels));
  }
  return static_cast<int>(number);
}

void read_size(const Json& object, ImageProcessorConfig& config, const std::string& where) {
  const Json* size = find(object, "size");
  if (size == nullptr) return;
  if (size->is_number()) {  // as in older files
    config.height = config.width = read_edge(*size, where);
    return;
  }
  const Json* height = size->is_object() ? find(*size, "height") : nullptr;
  const Json* width = size->is_object() ? find(*size, "width") : nullptr;
  if (height == nullptr || width == nullptr) {
    throw bad_value(where, "size", *size, R"({"height": 224, "width": 224} or 224)");
  }
  config.height = read_edge(*height, where);
  config.width = read_edge(*width, where);
}

// `low` to `high`: absolute values of the numbers.
void read_channels(const Json& object, const char* key, std::array<double, 3>& values, double low, double high,
                   const std::string& where) {
  const Json* found = find(object, key);
  if (found == nullptr) return;
  if (found->is_number()) {
    values.fill(found->get<double>());
  } else if (found->is_array() && found->size() == values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!(*found)[i].is_number()) throw bad_value(where, key, *found, "three numbers");
      values[i] = (*found)[i].get<double>();
    }
  } else {
    throw bad_value(where, key, *found, "three numbers");
  }
  for (const double value : values) {
    if (std::abs(value) >= low && std::abs(value) <= high) continue;
    throw bad_value(where, key, *found, fmt::format("numbers from {} to {}, or the same below 0", low, high));
  }
}

}  // namespace

ImageProcessorConfig ImageProcessorConfig::from_json(const std::string& text, const std::string& where) {
  const Json file = parse_json(text, where);
  if (!file.is_object()) {
    throw DataError({.what = "an image processor's configuration is not a JSON object",
                     .where = where,
                     .remedy = "correct the file, or download it again with the model"});
  }
  const Json* nested = find(file, "image_processor");
  const Json& object = nested != nullptr && nested->is_object() ? *nested : file;

  ImageProcessorConfig config;
  read_flag(object, "do_resize", config.do_resize, where);
  read_flag(object, "do_rescale", config.do_rescale, where);
  read_flag(object, "do_normalize", config.do_normalize, where);
  read_size(object, config, where);
  // Far beyond any model's values, and near enough that no pixel becomes infinite in the first layer.
  read_channels(object, "image_mean", config.mean, 0, 1000, where);
  read_channels(object, "image_std", config.std, 1e-3, 1000, where);
  if (const Json* factor = find(object, "rescale_factor")) {
    config.rescale_factor = factor->is_number() ? factor->get<double>() : 0;
    if (!(config.rescale_factor > 0 && config.rescale_factor <= 1)) {
      throw bad_value(where, "rescale_factor", *factor, "a number above 0, at most 1, such as 0.00392156862745098");
    }
  }
  if (const Json* resample = find(object, "resample");
      resample != nullptr && config.do_resize && *resample != kBilinear) {
    throw bad_value(where, "resample", *resample, "2 (bilinear)",
                    "LayoutLMv3 was trained with bilinear resizing: set resample to 2, or omit it");
  }
  return config;
}

ImageProcessorConfig ImageProcessorConfig::from_model(const fs::path& directory, int size) {
  std::error_code error;
  const fs::path processor = directory / "processor_config.json";
  if (fs::is_regular_file(processor, error)) {
    const std::string text = read_text_file(processor, kLongestConfigBytes);
    const Json json = parse_json(text, processor.string());
    if (!json.is_object() || find(json, "image_processor") != nullptr) return from_json(text, processor.string());
  }
  const fs::path own = directory / "preprocessor_config.json";
  if (fs::is_regular_file(own, error)) return from_json(read_text_file(own, kLongestConfigBytes), own.string());
  return {.height = size, .width = size};
}

std::string ImageProcessorConfig::to_json() const {
  const nlohmann::ordered_json json = {{"apply_ocr", false},
                                       {"do_normalize", do_normalize},
                                       {"do_rescale", do_rescale},
                                       {"do_resize", do_resize},
                                       {"image_mean", mean},
                                       {"image_processor_type", "LayoutLMv3ImageProcessor"},
                                       {"image_std", std},
                                       {"ocr_lang", nullptr},
                                       {"processor_class", "LayoutLMv3Processor"},
                                       {"resample", kBilinear},
                                       {"rescale_factor", rescale_factor},
                                       {"size", {{"height", height}, {"width", width}}},
                                       {"tesseract_config", ""}};
  return json.dump(2) + "\n";
}

ImageProcessor::ImageProcessor(const ImageProcessorConfig& config) : config_(config) {
  // The order of rounding is that of Hugging Face's processor: byte times factor in double, rounded to float; then
  // minus mean and divided by deviation, both in float.
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      auto value = static_cast<float>(byte);
      if (config.do_rescale) value = static_cast<float>(static_cast<double>(byte) * config.rescale_factor);
      if (config.do_normalize) {
        value = (value - static_cast<float>(config.mean[channel])) / static_cast<float>(config.std[channel]);
      }
      values_[channel][byte] = value;
    }
  }
}

std::size_t ImageProcessor::pixel_count() const {
  return 3 * static_cast<std::size_t>(config_.height) * static_cast<std::size_t>(config_.width);
}

void ImageProcessor::load(const fs::path& path, Resampler& resampler, std::span<std::uint8_t> out, int scale) const {
  const std::unique_ptr<ImageRows> image = open_image(path);
  if (!config_.do_resize && (image->width() != config_.width || image->height() != config_.height)) {
    throw ImageError("image-size", {.what = "a page's image has the wrong size, and resizing is off (do_resize)",
                                    .where = path.string(),
                                    .found = fmt::format("{} x {} pixels", image->width(), image->height()),
                                    .allowed = fmt::format("{} x {} pixels", config_.width, config_.height),
                                    .remedy = "set do_resize to true in the image processor's configuration"});
  }
  resampler.begin(image->width(), image->height(), scale * config_.width, scale * config_.height, out);
  for (int y = 0; y < image->height(); ++y) {
    image->next_row(resampler.row());
    resampler.take_row();
  }
}

void normalise(std::span<const std::uint8_t> bytes, const PixelValues& values, std::span<float> out) {
  check(out.size() == bytes.size(), "pixel values fit their buffer");
  const std::size_t area = out.size() / 3;
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      out[channel * area + i] = values[channel][bytes[3 * i + channel]];
    }
  }
}

void ImageLimits::include(const ImageInfo& info) {
  width = std::max(width, info.width);
  height = std::max(height, info.height);
  decode_bytes = std::max(decode_bytes, info.decode_bytes);
}

std::uint64_t ImageProcessor::host_bytes(const ImageLimits& limits, int scale) const {
  return Resampler::host_bytes(limits.width, limits.height, scale * config_.width, scale * config_.height);
}

}  // namespace plimsoll
