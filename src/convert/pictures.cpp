#include "convert/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/in_quotes.h"
#include "base/lower_case.h"
#include "data/image.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// The kinds that read_image_info reads.
constexpr const char* kExtensions[] = {".png", ".jpg", ".jpeg", ".tif", ".tiff",
                                       ".bmp", ".pnm", ".ppm",  ".pgm", ".pbm"};
constexpr double kLargest = 1e7;  // no page has such a coordinate

constexpr Loss kCut{"box reaches beyond its page and is cut off there",
                    "boxes reach beyond their pages and are cut off there"};
constexpr Loss kNoPicture{"page has no picture: LayoutLMv3 needs one (--images DIR)",
                          "pages have no picture: LayoutLMv3 needs them (--images DIR)"};
constexpr Loss kOtherShape{"page has another shape than its picture: its boxes may be those of another picture",
                           "pages have another shape than their pictures: their boxes may be those of other pictures"};

bool is_picture(const fs::path& path) {
  const std::string extension = lower_case(path.extension().string());
  std::error_code error;
  return std::any_of(std::begin(kExtensions), std::end(kExtensions),
                     [&](const char* each) { return extension == each; }) &&
         fs::is_regular_file(path, error);
}

std::optional<fs::path> with_extension(const fs::path& folder, const std::string& stem) {
  for (const char* extension : kExtensions) {
    std::string upper = extension;
    std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
    for (const std::string& each : {std::string(extension), upper}) {
      if (is_picture(folder / (stem + each))) return folder / (stem + each);
    }
  }
  return std::nullopt;
}

// Label Studio puts eight hexadecimal digits and a dash before the name of a picture that is uploaded.
std::string without_upload_mark(const std::string& name) {
  constexpr std::size_t kDigits = 8;
  if (name.size() <= kDigits + 1 || name[kDigits] != '-') return name;
  const bool hexadecimal =
      std::all_of(name.begin(), name.begin() + kDigits, [](unsigned char c) { return std::isxdigit(c) != 0; });
  return hexadecimal ? name.substr(kDigits + 1) : name;
}

// The path of a picture that was searched for is relative, so that a data set can move together with its pictures.
fs::path from_here(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.is_absolute() ? normal.lexically_proximate(fs::current_path()) : normal;
}

[[noreturn]] void refuse_box(const FoundPage& page, std::size_t word, const Box& box, std::string what,
                             std::string allowed, std::string remedy) {
  throw DataError({.what = std::move(what),
                   .where = fmt::format("{}, word {} ({})", page.where, word, in_quotes(page.words[word].text)),
                   .found = to_string(box),
                   .allowed = std::move(allowed),
                   .remedy = std::move(remedy)});
}

struct Scale {
  double x = 1, y = 1;
};

// Rounds to whole pixels; a box keeps at least a pixel, unless it had no extent.
double rounded(double value) { return std::round(value); }

void widen(double& low, double& high, double low_before, double high_before, double edge) {
  if (high > low || !(high_before > low_before)) return;
  if (high < edge) {
    high += 1;
  } else {
    low -= 1;
  }
}

// Boxes from 0 to 1 would all be in one corner.
void refuse_fractions(const FoundPage& page) {
  bool has_fraction = false;
  for (const FoundWord& word : page.words) {
    for (const double value : word.box) {
      if (value > 1) return;
      has_fraction = has_fraction || (value > 0 && value < 1);
    }
  }
  if (!has_fraction) return;
  refuse_box(page, 0, page.words.front().box, "boxes are fractions of the page", "pixels, or thousandths of the page",
             "multiply them by its size: plimsoll check --data FILE --fix FIXED writes such pages in pixels");
}

}  // namespace

std::string path_of_url(std::string_view url) {
  const std::size_t query = url.find("?d=");
  std::string_view path = url;
  if (query != std::string_view::npos) {
    path = url.substr(query + 3);
    path = path.substr(0, path.find('&'));
  } else {
    const std::size_t scheme = url.find("://");
    if (scheme == std::string_view::npos && !url.starts_with("/data/")) return std::string(url);
    if (scheme != std::string_view::npos) {
      path = url.substr(scheme + 3);
      const std::size_t slash = path.find('/');
      path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    }
    path = path.substr(0, path.find_first_of("?#"));
  }
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const int letter = std::tolower(static_cast<unsigned char>(c));
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool coded = path[i] == '%' && i + 2 < path.size() && digit(path[i + 1]) >= 0 && digit(path[i + 2]) >= 0;
    decoded += coded ? static_cast<char>(digit(path[i + 1]) * 16 + digit(path[i + 2])) : path[i];
    if (coded) i += 2;
  }
  return decoded;
}

std::vector<fs::path> Pictures::folders(const FoundPage& page) const {
  if (!folder_.empty()) return {folder_};
  const fs::path beside = page.file.parent_path();
  return {beside, beside / "images", beside / "image", beside / ".." / "images", beside / ".." / "image"};
}

std::optional<fs::path> Pictures::find(const FoundPage& page) const {
  std::string named = path_of_url(page.image);
  // Engines on Windows name pictures with its separators.
  if (named.find('/') == std::string::npos) std::replace(named.begin(), named.end(), '\\', '/');
  if (named.find('\0') == std::string::npos && !named.empty()) {
    const fs::path path = named;
    if (folder_.empty() && path.is_absolute() && is_picture(path)) return path;
    const std::string name = path.filename().string();
    for (const fs::path& folder : folders(page)) {
      for (const fs::path& each : {path.relative_path(), fs::path(name), fs::path(without_upload_mark(name))}) {
        if (!each.empty() && is_picture(folder / each)) return from_here(folder / each);
      }
      // The file may name a kind that Plimsoll does not read (JPEG 2000), but a readable one may be beside it.
      for (const std::string& stem : {path.stem().string(), without_upload_mark(path.stem().string())}) {
        if (stem.empty()) continue;
        if (const std::optional<fs::path> found = with_extension(folder, stem)) return from_here(*found);
      }
    }
  }
  // "scan.textract.json" belongs to "scan.textract.png" or "scan.png".
  std::vector<std::string> stems = {page.file.stem().string()};
  for (std::size_t dot = stems.back().rfind('.'); dot != std::string::npos && dot > 0; dot = stems.back().rfind('.')) {
    stems.push_back(stems.back().substr(0, dot));
  }
  std::vector<std::string> names;
  for (const std::string& stem : stems) {
    if (page.only) names.push_back(stem);
    for (const char* mark : {"-", "_"}) {
      for (const int digits : {1, 2, 3, 4}) {
        if (page.number > 0) names.push_back(fmt::format("{}{}{:0{}}", stem, mark, page.number, digits));
      }
    }
  }
  for (const fs::path& folder : folders(page)) {
    for (const std::string& name : names) {
      if (const std::optional<fs::path> found = with_extension(folder, name)) return from_here(*found);
    }
  }
  if (folder_.empty()) return std::nullopt;
  throw DataError(
      {.what = "the picture of a page is not found",
       .where = page.where,
       .found = fmt::format("no {} in {}",
                            !page.image.empty() ? in_quotes(page.image)
                            : names.empty()     ? "name of a picture, so none"
                                                : names.front() + ".png, .jpg, .tif",
                            folder_.string()),
       .allowed = "a picture that the page names, or with its file's name (with -1, -2, … for several pages)",
       .remedy = "pass the folder of the pictures with --images DIR, or leave the page's file out"});
}

void Pictures::place(FoundPage& page, Losses& losses) const {
  std::optional<ImageInfo> info;
  if (const std::optional<fs::path> found = find(page)) {
    page.picture = *found;
    info = read_image_info(*found);
  } else {
    losses.add(kNoPicture, page.where);
  }
  Scale scale;
  double width = info ? info->width : 0, height = info ? info->height : 0;
  const bool sized = page.width > 0 && page.height > 0;
  switch (page.unit) {
    case BoxUnit::kPixels:
      if (sized) {
        width = page.width;
        height = page.height;
      }
      break;
    case BoxUnit::kLength:
      // A picture's resolution is unknown; only the page's own size gives the pixels per unit.
      if (!sized) {
        width = height = 0;
      } else if (info) {
        scale = {width / page.width, height / page.height};
      } else {
        scale.x = scale.y = dpi_ / page.units_per_inch;
        width = std::round(page.width * scale.x);
        height = std::round(page.height * scale.y);
      }
      break;
    case BoxUnit::kShare:
      if (!info) {
        width = page.share_width;
        height = page.share_height;
      }
      scale = {width / page.width, height / page.height};
      break;
  }
  if (page.words.empty() && !(width > 0 && height > 0)) {
    // Nothing on a blank page needs its size.
    page.width = page.height = 0;
    page.unit = BoxUnit::kPixels;
    return;
  }
  if (!(width >= 1 && height >= 1 && width <= kLargest && height <= kLargest)) {
    throw DataError(
        {.what = "the size of a page in pixels is not known",
         .where = page.where,
         .found = sized && page.unit != BoxUnit::kShare ? fmt::format("{} x {}", page.width, page.height)
                                                        : "no size in the file, and no picture",
         .allowed = "a picture, whose pixels the boxes then become",
         .remedy = page.more.is_object()
                       ? "write `width` and `height`, or put the picture where the page names it: --images DIR"
                       : "put the picture beside the file, under the same name, or name its folder: --images DIR"});
  }
  if (info && (page.unit != BoxUnit::kShare && sized)) {
    // Two per cent is more than rounding makes.
    const double shape = (page.width / page.height) / (static_cast<double>(info->width) / info->height);
    if (shape > 1.02 || shape < 0.98) losses.add(kOtherShape, page.where);
  }
  width = std::round(width);
  height = std::round(height);
  if (page.unit == BoxUnit::kPixels && page.more.is_object()) refuse_fractions(page);
  const auto placed = [&](const Box& from, std::size_t word) {
    const bool finite = std::all_of(from.begin(), from.end(), [](double value) { return std::isfinite(value); });
    if (!finite || from[2] < from[0] || from[3] < from[1]) {
      refuse_box(page, word, from, "a box is not left, top, right, bottom",
                 "finite numbers, left before right, top before bottom", "correct the file, or write it again");
    }
    const Box exact = {from[0] * scale.x, from[1] * scale.y, from[2] * scale.x, from[3] * scale.y};
    // Engines and people draw boxes that extend slightly beyond the page.
    if (exact[0] >= width || exact[1] >= height || exact[2] <= 0 || exact[3] <= 0) {
      const bool edge = exact[0] <= width && exact[1] <= height && exact[2] >= 0 && exact[3] >= 0;
      if (!edge) {
        refuse_box(page, word, exact, "a box lies outside its page",
                   fmt::format("x from 0 to {}, y from 0 to {} pixels", width, height),
                   page.more.is_object()
                       ? "if boxes are in thousandths of the page: --box-format 1000; otherwise check "
                         "them (plimsoll check), and the picture's size"
                       : "check the unit that the file names for its boxes, and the picture's size");
      }
    }
    Box box{};
    bool cut = false;
    for (std::size_t i = 0; i < 4; ++i) {
      const double whole = rounded(exact[i]);
      box[i] = std::clamp(whole, 0.0, i % 2 == 0 ? width : height);
      cut = cut || box[i] != whole;
    }
    if (cut) losses.add(kCut, page.where);
    widen(box[0], box[2], exact[0], exact[2], width);
    widen(box[1], box[3], exact[1], exact[3], height);
    return box;
  };
  for (std::size_t w = 0; w < page.words.size(); ++w) {
    FoundWord& word = page.words[w];
    word.box = placed(word.box, w);
    if (word.segment) word.segment = placed(*word.segment, w);
  }
  page.unit = BoxUnit::kPixels;
  page.width = width;
  page.height = height;
}

}  // namespace plimsoll
