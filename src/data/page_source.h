// Where pages come from: JSONL files or FUNSD's folder layout, one or several, read one page at a time.
//
// Invariant: a file is never held whole in memory; opening makes one pass over it and keeps 16
// bytes a page. `read` is thread-safe and gives the same page for the same index every time.
//
//   auto source = open_pages("train.jsonl", {});
//   for (std::size_t i = 0; i < source->size(); ++i) use(source->read(i));
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/page.h"

namespace plimsoll {

// What --data names: at least one file or folder, whose pages follow one another in this order.
using PagePaths = std::vector<std::filesystem::path>;

// "a.jsonl", "a.jsonl and b.jsonl", or "a.jsonl and 3 more", for messages.
std::string listed(std::span<const std::filesystem::path> paths);

// The files and folders that `given` names, in that order; where a name has *, ? or [] and no file has it, those that
// match, sorted. Throws DataError for a pattern that matches nothing.
PagePaths match_paths(const std::vector<std::string>& given);

struct ReadOptions {
  // Names of integer labels (`ner_tags`: 3 means label_names[3]); empty: labels must be names.
  std::vector<std::string> label_names{};
  // FUNSD: each word gets its entity's box instead of its own.
  bool segment_boxes = false;
  // Do not read labels, not even bad ones (prediction).
  bool ignore_labels = false;
  // A longer line is not a page.
  std::uint64_t max_page_bytes = std::uint64_t{16} << 20;
};

// Keys of a page in JSONL, the first that is there.
inline constexpr const char* kBoxKeys[] = {"boxes", "bboxes", "bbox"};
inline constexpr const char* kImageKeys[] = {"image", "image_path", "file_name"};

using PageFaults = std::vector<PageError>;

class PageSource {
 public:
  virtual ~PageSource() = default;
  virtual std::size_t size() const = 0;
  // Throws PageError saying file, line, page, word. With `faults`, what is wrong with one value is added there instead,
  // in order, and the page goes on with a box of NaNs, an empty label, the word "?", or, where counts differ, no boxes
  // and empty labels; what leaves no page, such as broken JSON, is thrown all the same.
  virtual Page read(std::size_t index, PageFaults* faults) const = 0;
  Page read(std::size_t index) const { return read(index, nullptr); }
  // The files or folders, in the order of their pages.
  virtual std::span<const std::filesystem::path> paths() const = 0;
  // Bytes of the longest page as written, for the host memory plan.
  virtual std::uint64_t longest_page_bytes() const = 0;
  // What the source itself keeps in memory.
  virtual std::uint64_t host_bytes() const = 0;
};

// Each path is a JSONL file, or a folder with annotations/*.json and images/ (FUNSD). Throws DataError for anything
// else, which says what it is where that can be told (data/file_kind.h). Of several files, a page without an id is
// named after its file and line, not its line alone.
std::unique_ptr<PageSource> open_pages(const PagePaths& paths, const ReadOptions& options);
inline std::unique_ptr<PageSource> open_pages(const std::filesystem::path& path, const ReadOptions& options) {
  return open_pages(PagePaths{path}, options);
}

// NaN, Infinity and -Infinity, which JSON does not have and Python writes, as strings; all else as it is.
std::string quote_non_finite(std::string_view json);

// One line of JSONL. Keys: `words` or `tokens`; `boxes`, `bboxes` or `bbox`; `labels` or `ner_tags`
// (optional); `image`, `image_path` or `file_name` (relative to `file`'s folder, or absolute);
// `id`, `width`, `height` (optional).
Page parse_jsonl_page(std::string_view json, const std::filesystem::path& file, std::size_t line,
                      const ReadOptions& options, PageFaults* faults = nullptr);

// One annotation file of FUNSD (Jaume, Ekenel, Thiran: "FUNSD: A Dataset for Form Understanding in
// Noisy Scanned Documents", 2019): {"form": [{"box", "label", "words": [{"text", "box"}]}]}. Labels
// become BIO with upper-case entity names, "other" becomes O; words of nothing but spaces are left
// out, as in the published data sets.
Page parse_funsd_page(std::string_view json, const std::filesystem::path& file, const std::filesystem::path& image,
                      const ReadOptions& options, PageFaults* faults = nullptr);

}  // namespace plimsoll
