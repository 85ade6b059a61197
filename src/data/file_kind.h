// Recognises a file that was given as pages or as a model and is neither, by its first bytes, by the contents of a
// folder, or by the form of its name, and names the command that helps.
//
//   if (const std::optional<FileKind> kind = recognise_file("train.parquet")) use(kind->name);  // "a parquet file"
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace plimsoll {

enum class Format : std::uint8_t {
  kParquet,
  kArrow,
  kPicture,
  kPdf,
  kZip,
  kCompressed,
  kTable,    // CSV, TSV
  kMarkup,   // XML, HTML
  kWeights,  // safetensors, PyTorch
  kUtf16,
  kUtf32,
  kBinary,  // any other binary file
};

struct FileKind {
  Format format;
  std::string name;  // "a PNG picture"
};

// Returns nullopt if the file may be JSONL, or cannot be read (an error that is reported when it is opened).
std::optional<FileKind> recognise_file(const std::filesystem::path& path);

// True for the form of a name on the Hugging Face hub ("nielsr/funsd") if no such file or folder exists on disk.
bool is_hub_name(const std::string& name);

// Throws DataError, with what to do, if `path` is a file, a folder or a name of a kind that holds no pages; returns if
// it may be a JSONL file or a FUNSD folder.
void refuse_other_data(const std::filesystem::path& path);

// Says what to do with a file of that kind where data is expected.
std::string data_remedy(const FileKind& kind, const std::filesystem::path& path);

// Says what to do with a file of that kind where a model directory is expected.
std::string model_remedy(const FileKind& kind, const std::filesystem::path& path);

}  // namespace plimsoll
