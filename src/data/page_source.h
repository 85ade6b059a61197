// Sources of pages: JSONL files or FUNSD's folder layout, one or several, read one page at a time.
//
// Invariant: a file is never held whole in memory; opening makes one pass over it and keeps 16 bytes per page. `read`
// is thread-safe and gives the same page for the same index every time.
//
//   auto source = open_pages("train.jsonl", {});
//   for (std::size_t i = 0; i < source->size(); ++i) use(source->read(i));
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/cache_key.h"
#include "data/page.h"
#include "data/targets.h"

namespace plimsoll {

// The value of --data: at least one file or folder, whose pages follow one another in this order.
using PagePaths = std::vector<std::filesystem::path>;

// Returns "a.jsonl", "a.jsonl and b.jsonl", or "a.jsonl and 3 more", for messages.
std::string listed(std::span<const std::filesystem::path> paths);

// Returns the files and folders that `given` names, in that order; a name with *, ? or [] that is not a file is
// replaced by the sorted matches; each once (each_once). Throws DataError for a pattern that matches nothing.
PagePaths match_paths(const std::vector<std::string>& given);

// Returns each file once, where it is named first; a warning counts the others. A file in a directory, or with a link
// to it, may be named in several ways.
PagePaths each_once(PagePaths files);

// How often pages' JSON was parsed, and their words tokenised.
struct PageCounts {
  std::atomic<std::uint64_t> parsed = 0, tokenized = 0;
};

struct ReadOptions {
  // Names for integer labels (`ner_tags`: 3 means label_names[3]); if empty, labels must be names.
  std::vector<std::string> label_names{};
  // For FUNSD: gives each word its entity's box instead of its own.
  bool segment_boxes = false;
  PageParts parts{};
  // Does not read labels, not even bad ones (prediction).
  bool ignore_labels = false;
  // A page in JSONL may have a `text` instead of its words (Page::is_text).
  bool texts = false;
  // A line of JSONL is an object with two pages, `a` and `b`: pages 2 k and 2 k + 1 of line k.
  bool pairs = false;
  // Reads the keys of a task; nullptr: none are read.
  const TargetReader* target = nullptr;
  // How conversations become text; nullptr: unknown.
  std::shared_ptr<const ChatForm> chat{};
  // Counts what is done; nullptr: nothing is counted. It must outlive the source.
  PageCounts* counts = nullptr;
  // A longer line is an error.
  std::uint64_t max_page_bytes = std::uint64_t{16} << 20;
};

// The keys of boxes in JSONL; the first one present is used.
inline constexpr const char* kBoxKeys[] = {"boxes", "bboxes", "bbox"};
inline constexpr const char* kImageKeys[] = {"image", "image_path", "file_name"};

class PageSource {
 public:
  virtual ~PageSource() = default;
  virtual std::size_t size() const = 0;
  // Throws PageError that names the file, line, page and word. With `faults`, errors of single values are added there
  // instead, in order, and the page continues with a box of NaNs, an empty label, the word "?", or, where counts
  // differ, no boxes and empty labels; an error that leaves no page, such as broken JSON, is still thrown.
  virtual Page read(std::size_t index, PageFaults* faults) const = 0;
  Page read(std::size_t index) const { return read(index, nullptr); }
  // Returns the files or folders in the order of their pages.
  virtual std::span<const std::filesystem::path> paths() const = 0;
  // Returns the most bytes that reading a page takes, for the host memory plan: its text, the parsed JSON and the page.
  virtual std::uint64_t parsing_bytes() const = 0;
  // Returns the bytes that the source itself keeps in memory.
  virtual std::uint64_t host_bytes() const = 0;
  // Adds what shows whether its files are still the same: names, sizes and times of change.
  virtual void add_to_key(CacheKey& key) const = 0;
};

// Each path is a JSONL file, or a folder with annotations/*.json and images/ (FUNSD). Throws DataError for anything
// else, naming its kind if it is recognised (data/file_kind.h). With several files, a page without an id is named after
// its file and line, not its line alone.
std::unique_ptr<PageSource> open_pages(const PagePaths& paths, const ReadOptions& options);
inline std::unique_ptr<PageSource> open_pages(const std::filesystem::path& path, const ReadOptions& options) {
  return open_pages(PagePaths{path}, options);
}

// Calls `use` with every page that can be read, including those with unreadable values (PageSource::read). Returns the
// first fault of all pages, or nothing if there is none.
std::optional<PageError> read_as_far_as_possible(const PageSource& pages, const std::function<void(const Page&)>& use);

// Turns NaN, Infinity and -Infinity, which Python writes and JSON does not allow, into strings; keeps the rest.
std::string quote_non_finite(std::string_view json);
// A page's JSON has these as {"": "NaN"}, so that nobody takes one for a text. Returns the name; empty for other
// values.
std::string_view non_finite_name(const nlohmann::json& value);

// Says in messages what a line of JSONL holds: "page", and an example of its JSON.
struct LineForm {
  const char* name = "page";
  const char* form = R"({"image": …, "words": […], "boxes": […]})";
};
// Parses a line, which must be one JSON object. Throws PageError: "bad-json", "not-utf8", "not-finite", "repeated-key".
nlohmann::json parse_json_line(std::string_view text, const std::filesystem::path& file, std::size_t line,
                               const LineForm& form);

// Parses one line of JSONL. Keys: `words` or `tokens` (or, with options.texts, `text`); `boxes`, `bboxes` or `bbox`;
// `labels` or `ner_tags` (optional); `image`, `image_path` or `file_name` (relative to `file`'s folder, or absolute);
// `id`, `width`, `height` (optional). Boxes and image are optional unless options.parts asks for them.
Page parse_jsonl_page(std::string_view json, const std::filesystem::path& file, std::size_t line,
                      const ReadOptions& options, PageFaults* faults = nullptr);

// Parses one annotation file of FUNSD (Jaume, Ekenel, Thiran: "FUNSD: A Dataset for Form Understanding in Noisy
// Scanned Documents", 2019): {"form": [{"box", "label", "words": [{"text", "box"}]}]}. Labels become BIO with
// upper-case entity names, and "other" becomes O; words that are only spaces are left out, as in the published data
// sets.
Page parse_funsd_page(std::string_view json, const std::filesystem::path& file, const std::filesystem::path& image,
                      const ReadOptions& options, PageFaults* faults = nullptr);

}  // namespace plimsoll
