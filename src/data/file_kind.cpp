#include "data/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/in_quotes.h"
#include "base/lower_case.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  std::size_t offset;
  Format format;
  const char* name;
};

constexpr Magic kMagic[] = {
    {"PAR1"sv, 0, Format::kParquet, "a parquet file"},
    {"ARROW1"sv, 0, Format::kArrow, "an Arrow file"},
    {"\xFF\xFF\xFF\xFF"sv, 0, Format::kArrow, "an Arrow stream, as the datasets library saves it"},
    {"\x89PNG"sv, 0, Format::kPicture, "a PNG picture"},
    {"\xFF\xD8\xFF"sv, 0, Format::kPicture, "a JPEG picture"},
    {"II*\0"sv, 0, Format::kPicture, "a TIFF picture"},
    {"MM\0*"sv, 0, Format::kPicture, "a TIFF picture"},
    {"GIF8"sv, 0, Format::kPicture, "a GIF picture"},
    {"WEBP"sv, 8, Format::kPicture, "a WebP picture"},
    {"ftypheic"sv, 4, Format::kPicture, "a HEIC picture"},
    {"ftypheix"sv, 4, Format::kPicture, "a HEIC picture"},
    {"ftypmif1"sv, 4, Format::kPicture, "a HEIC picture"},
    {"ftypavif"sv, 4, Format::kPicture, "an AVIF picture"},
    {"\0\0\0\x0CjP  "sv, 0, Format::kPicture, "a JPEG 2000 picture"},
    {"%PDF"sv, 0, Format::kPdf, "a PDF document"},
    {"PK\x03\x04"sv, 0, Format::kZip, "a zip archive"},
    {"\x1F\x8B"sv, 0, Format::kCompressed, "a gzip file"},
    {"\xFD"
     "7zXZ"sv,
     0, Format::kCompressed, "an xz file"},
    {"BZh"sv, 0, Format::kCompressed, "a bzip2 file"},
    {"\x28\xB5\x2F\xFD"sv, 0, Format::kCompressed, "a zstd file"},
    {"ustar"sv, 257, Format::kCompressed, "a tar archive"},
    {"\xFF\xFE\x00\x00"sv, 0, Format::kUtf32, "text in UTF-32"},
    {"\x00\x00\xFE\xFF"sv, 0, Format::kUtf32, "text in UTF-32"},
    {"\xFF\xFE"sv, 0, Format::kUtf16, "text in UTF-16"},
    {"\xFE\xFF"sv, 0, Format::kUtf16, "text in UTF-16"},
    {"\x93NUMPY"sv, 0, Format::kBinary, "a NumPy array"},
    {"\x89HDF"sv, 0, Format::kBinary, "an HDF5 file"},
    {"SQLite format 3"sv, 0, Format::kBinary, "an SQLite database"},
    {"\x80\x02"sv, 0, Format::kWeights, "a Python pickle"},
    {"\x80\x03"sv, 0, Format::kWeights, "a Python pickle"},
    {"\x80\x04"sv, 0, Format::kWeights, "a Python pickle"},
    {"\x80\x05"sv, 0, Format::kWeights, "a Python pickle"},
};

// This covers some hundred lines of a table, or one page's line.
constexpr std::size_t kLookedAt = std::size_t{64} << 10;

std::string first_bytes(const fs::path& path) {
  const InputFile file(path);
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(file.size_bytes(), kLookedAt)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  return bytes;
}

bool has_extension(const fs::path& path, std::initializer_list<const char*> extensions) {
  const std::string extension = lower_case(path.extension().string());
  return std::ranges::any_of(extensions, [&](const char* each) { return extension == each; });
}

// A safetensors file begins with its header's length in eight bytes, then JSON.
bool is_safetensors(std::string_view bytes) {
  return bytes.size() > 9 && bytes[8] == '{' && bytes.substr(3, 5) == "\0\0\0\0\0"sv;
}

// A table has lines that are not JSON, each with a separator.
bool is_table(std::string_view bytes) {
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);  // a byte order mark
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < bytes.size() && lines < 20; ++lines) {
    const std::size_t end = bytes.find('\n', begin);
    if (end == std::string_view::npos && lines > 0) break;  // the last line is cut
    const std::string_view line = bytes.substr(begin, end - begin);
    const std::size_t first = line.find_first_not_of(" \t\r\"");
    begin = end == std::string_view::npos ? bytes.size() : end + 1;
    if (first == std::string_view::npos) continue;
    if (line[first] == '{' || line[first] == '[') return false;
    if (lines == 0 && line.find_first_of(",\t;") == std::string_view::npos) return false;
  }
  return lines > 1;
}

std::string convert_command(const fs::path& path) {
  return fmt::format("convert it: tools/convert_dataset.py --output pages {}; then pass pages/train.jsonl",
                     shell_word(path.string()));
}

std::string ocr_command(const fs::path& path) {
  return fmt::format(
      "read its words and boxes first: plimsoll ocr --input {} --output pages.jsonl, and pass pages.jsonl; to predict, "
      "pass it by --input",
      shell_word(path.string()));
}

}  // namespace

std::string data_remedy(const FileKind& kind, const fs::path& path) {
  switch (kind.format) {
    case Format::kParquet:
      return convert_command(path);
    case Format::kArrow:
      return fmt::format(
          "write it as parquet: python3 -c \"from datasets import Dataset; "
          "Dataset.from_file('{}').to_parquet('train.parquet')\"; then tools/convert_dataset.py --output pages "
          "train.parquet",
          path.string());
    case Format::kPicture:
    case Format::kPdf:
      return ocr_command(path);
    case Format::kZip:
      return fmt::format("unpack it: unzip {} -d DIR; then pass the data in it", shell_word(path.string()));
    case Format::kCompressed:
      return "unpack it first (gunzip, unxz, bunzip2, unzstd, tar -xf); then pass the data in it";
    case Format::kTable:
      return "write one JSON object per line, with lists of words, boxes and labels; with pandas: "
             "frame.to_json('pages.jsonl', orient='records', lines=True)";
    case Format::kMarkup:
      return fmt::format("if it is hOCR, ALTO or PAGE, convert it: plimsoll convert --input {} --output pages.jsonl",
                         shell_word(path.string()));
    case Format::kUtf32:
      return fmt::format("convert it: iconv -f UTF-32 -t UTF-8 {} > pages.jsonl", shell_word(path.string()));
    case Format::kUtf16:
      return fmt::format("convert it: iconv -f UTF-16 -t UTF-8 {} > pages.jsonl", shell_word(path.string()));
    case Format::kWeights:
      return "weights belong to --model: pass the model's directory there, and a JSONL file to --data";
    case Format::kBinary:
      break;
  }
  return "write the pages as JSONL: one JSON object per line";
}

namespace {

[[noreturn]] void refuse(const std::string& where, std::string found, std::string remedy) {
  throw DataError({.what = "unsupported data format",
                   .where = where,
                   .found = std::move(found),
                   .allowed = "a JSONL file, one page per line: {\"image\": …, \"words\": […], \"boxes\": […], "
                              "\"labels\": […]}; or a folder with annotations/ and images/ (FUNSD)",
                   .remedy = std::move(remedy)});
}

// Throws an error that says what a folder without annotations/ holds.
void refuse_folder(const fs::path& folder) {
  constexpr int kMostEntries = 100'000;  // the folder may be a whole disk
  std::error_code error;
  fs::path parquet, arrow, jsonl, picture;
  int entries = 0;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::end(at) && ++entries < kMostEntries; at.increment(error)) {
    const fs::path& path = at->path();
    const auto keep = [&](fs::path& kept, std::initializer_list<const char*> extensions) {
      if (has_extension(path, extensions) && (kept.empty() || path < kept)) kept = path;
    };
    keep(parquet, {".parquet"});
    keep(arrow, {".arrow"});
    keep(jsonl, {".jsonl"});
    keep(picture, {".png", ".jpg", ".jpeg", ".tif", ".tiff"});
  }
  if (fs::is_directory(folder / "training_data", error)) return;  // FUNSD's own layout; opening it reports the error
  const std::string where = folder.string();
  if (!jsonl.empty())
    refuse(where, "a folder with JSONL files in it", fmt::format("pass the file itself: {}", jsonl.string()));
  if (!parquet.empty()) refuse(where, "a folder of parquet files", convert_command(folder));
  if (!arrow.empty()) {
    refuse(where, "a data set that the datasets library saved (Arrow)",
           data_remedy({.format = Format::kArrow, .name = {}}, arrow));
  }
  if (!picture.empty()) refuse(where, "a folder of pictures without words and boxes", ocr_command(folder));
}

}  // namespace

std::optional<FileKind> recognise_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  const std::string bytes = first_bytes(path);
  for (const Magic& magic : kMagic) {
    if (bytes.size() >= magic.offset && std::string_view(bytes).substr(magic.offset).starts_with(magic.bytes)) {
      const bool is_torch = magic.format == Format::kZip && has_extension(path, {".bin", ".pt", ".pth", ".ckpt"});
      if (is_torch) return FileKind{Format::kWeights, "weights that PyTorch saved"};
      return FileKind{magic.format, magic.name};
    }
  }
  // Programs that read PDF look for its mark in the first kilobyte: mail and scanners may put something before it.
  if (has_extension(path, {".pdf"}) &&
      std::string_view(bytes).substr(0, 1024).find("%PDF-") != std::string_view::npos) {
    return FileKind{Format::kPdf, "a PDF document"};
  }
  if (is_safetensors(bytes)) return FileKind{Format::kWeights, "a safetensors file"};
  const std::size_t first = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string::npos) return std::nullopt;
  if (bytes.find('\0') != std::string::npos && bytes[first] != '{') return FileKind{Format::kBinary, "binary data"};
  if (bytes[first] == '<') return FileKind{Format::kMarkup, "XML or HTML"};
  if (is_table(bytes)) return FileKind{Format::kTable, "a table (CSV or TSV)"};
  return std::nullopt;
}

bool is_hub_name(const std::string& name) {
  std::error_code error;
  if (name.empty() || fs::exists(name, error)) return false;
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == name.size() ||
      name.find('/', slash + 1) != std::string::npos) {
    return false;
  }
  const fs::path path = name;
  if (name.front() == '.' || name.front() == '~' || fs::is_directory(path.parent_path(), error)) return false;
  if (has_extension(
          path, {".json", ".jsonl", ".csv", ".tsv", ".txt", ".parquet", ".arrow", ".zip", ".png", ".jpg", ".pdf"})) {
    return false;
  }
  return std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

void refuse_other_data(const fs::path& path) {
  const std::string name = path.string();
  std::error_code error;
  if (fs::is_directory(path, error)) return refuse_folder(path);
  constexpr std::string_view kHub = "https://huggingface.co/datasets/";
  const bool is_url = name.find("://") != std::string::npos || name.find(":/") != std::string::npos;
  if (is_hub_name(name) || name.starts_with(kHub)) {
    std::string id = name.starts_with(kHub) ? name.substr(kHub.size()) : name;
    const std::string folder = fs::path(id).filename().string();
    refuse(name, "the name of a data set on the Hugging Face hub",
           fmt::format("Plimsoll downloads nothing: hf download {} --repo-type dataset --local-dir {}; then "
                       "tools/convert_dataset.py --output pages {}, and pass pages/train.jsonl",
                       id, folder, folder));
  }
  if (is_url && !fs::exists(path, error)) {
    refuse(name, "a URL", "Plimsoll downloads nothing: download the file first (curl -LO URL), then pass it");
  }
  if (const std::optional<FileKind> kind = recognise_file(path)) refuse(name, kind->name, data_remedy(*kind, path));
}

std::string model_remedy(const FileKind& kind, const fs::path& path) {
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  switch (kind.format) {
    case Format::kWeights:
      return fmt::format("pass the directory that holds it and config.json: --model {}", folder);
    case Format::kZip:
    case Format::kCompressed:
      return "unpack it first, then pass the directory in it that holds config.json";
    case Format::kBinary:
      return "ONNX and TensorFlow models are not supported: get the model's safetensors weights";
    default:
      return fmt::format("data belongs to --data: pass a model directory or a preset to --model, and --data {}",
                         path.string());
  }
}

}  // namespace plimsoll
