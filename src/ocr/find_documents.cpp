#include "ocr/find_documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <system_error>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "data/file_kind.h"
#include "data/page_source.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string lower_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return extension;
}

bool has_known_extension(const fs::path& path) {
  static const std::set<std::string> known = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp",
                                              ".pnm", ".pbm", ".pgm",  ".ppm", ".webp", ".pdf"};
  return known.count(lower_extension(path)) > 0;
}

// True for the name of a picture or document in a format that is not read.
bool is_other_picture(const fs::path& path) {
  static const std::set<std::string> others = {".gif", ".jp2",  ".j2k", ".jpx", ".heic", ".heif", ".avif", ".jxl",
                                               ".svg", ".djvu", ".ps",  ".eps", ".xps",  ".docx", ".doc"};
  return others.contains(lower_extension(path));
}

}  // namespace

bool is_pdf(const fs::path& path) {
  const std::optional<FileKind> kind = recognise_file(path);
  return kind ? kind->format == Format::kPdf : lower_extension(path) == ".pdf";
}

std::vector<fs::path> find_documents(const std::vector<std::string>& given) {
  std::vector<fs::path> files;
  for (const fs::path& path : match_paths(given)) {
    const std::string name = path.string();
    std::error_code error;
    if (!fs::exists(name, error)) {
      throw DataError({.what = "an input is not found",
                       .where = "--input",
                       .found = name,
                       .allowed = "pictures, PDF files, or directories with such files",
                       .remedy = "check the path"});
    }
    if (!fs::is_directory(path, error)) {
      if (const std::string extension = lower_extension(path); extension == ".jsonl" || extension == ".json") {
        throw DataError({.what = "a file of pages is not a document to read",
                         .where = "--input",
                         .found = name,
                         .allowed = "pictures, PDF files, or directories with such files",
                         .remedy = "pass pages to predict by --data; results of OCR engines: plimsoll convert"});
      }
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> inside;
    std::set<std::string> other_kinds;
    std::uint64_t others = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.path().filename().string().starts_with(".") || !entry.is_regular_file()) continue;
      if (has_known_extension(entry.path())) {
        inside.push_back(entry.path());
      } else if (is_other_picture(entry.path())) {
        other_kinds.insert(lower_extension(entry.path()));
        ++others;
      }
    }
    if (others > 0 && !inside.empty()) {
      log_warning(fmt::format("{}: {} of kinds that are not read ({}) {} left out: convert them to PNG or PDF", name,
                              counted(others, "file"), fmt::join(other_kinds, ", "), others == 1 ? "is" : "are"));
    }
    if (inside.empty()) {
      throw DataError({.what = "a directory holds no documents",
                       .where = "--input",
                       .found = name,
                       .allowed = "files named .png, .jpg, .tif, .bmp, .pnm, .webp or .pdf, not in its subdirectories",
                       .remedy =
                           "convert other pictures, such as GIF and HEIC, to PNG; name a file of one of these kinds "
                           "that has another name"});
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return each_once(std::move(files));
}

}  // namespace plimsoll
