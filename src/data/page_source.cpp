#include "data/page_source.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/file.h"
#include "base/log.h"
#include "data/file_kind.h"
#include "data/page_faults.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// A line's bytes and the values of its arrays and objects: the first of each follows a bracket, every other one a
// comma.
class LineSize {
 public:
  void add(char c) {
    ++bytes_;
    const bool is_escaped = std::exchange(is_escaped_, in_text_ && !is_escaped_ && c == '\\');
    if (c == '"' && !is_escaped) in_text_ = !in_text_;
    if (!in_text_ && (c == ',' || c == '[' || c == '{')) ++values_;
  }
  // A byte of text is held in eight places at most: as it was read, as it was repaired, in the parser (which doubles
  // what it has), in its string and in the page's. A value takes 96 besides its text: 16 in an array that grows to
  // twice as much, 48 as a string, 32 in the page; or 96 as an entry of an object. A conversation is also kept with the
  // order of its keys, and chat templates have their own values, and the text so far.
  std::uint64_t parsing_bytes(bool is_chat) const {
    return is_chat ? 12 * bytes_ + 480 * values_ : 8 * bytes_ + 96 * values_;
  }

 private:
  std::uint64_t bytes_ = 0, values_ = 0;
  bool in_text_ = false, is_escaped_ = false;
};

class JsonlSource final : public PageSource {
 public:
  // A page without an id is named by `id_prefix` and "line 3".
  JsonlSource(const fs::path& path, ReadOptions options, std::string id_prefix)
      : file_(path), options_(std::move(options)), id_prefix_(std::move(id_prefix)) {
    index_lines();
  }

  std::size_t size() const override { return options_.pairs ? 2 * lines_.size() : lines_.size(); }
  std::span<const fs::path> paths() const override { return {&file_.path(), 1}; }
  // A pair's line is parsed, then one page's JSON is written and parsed again.
  std::uint64_t parsing_bytes() const override { return options_.pairs ? 2 * parsing_ : parsing_; }
  std::uint64_t host_bytes() const override { return lines_.capacity() * sizeof(Line); }
  void add_to_key(CacheKey& key) const override {
    key.add_file(file_.path());
    key.add_text(file_.path().native());  // as messages name it
    key.add_text(id_prefix_);
  }

  Page read(std::size_t index, PageFaults* faults) const override {
    const Line& line = lines_.at(options_.pairs ? index / 2 : index);
    std::string text(line.length, '\0');
    file_.read_at(line.offset, std::as_writable_bytes(std::span(text.data(), text.size())));
    if (options_.counts != nullptr) ++options_.counts->parsed;
    const char* const side = !options_.pairs ? "" : index % 2 == 0 ? "a" : "b";
    if (options_.pairs) text = page_of_pair(text, side, line.number);
    Page page = parse_jsonl_page(text, file_.path(), line.number, options_, faults);
    if (page.id.empty())
      page.id = fmt::format("{}line {}{}{}", id_prefix_, line.number, options_.pairs ? " " : "", side);
    return page;
  }

 private:
  // Returns the JSON of one of a line's two pages.
  std::string page_of_pair(const std::string& text, const char* side, std::uint32_t line) const {
    constexpr LineForm kForm{"pair", R"({"a": {"words": …}, "b": {"words": …}, "label": …}, or texts, {"text": …})"};
    const nlohmann::json json = parse_json_line(text, file_.path(), line, kForm);
    const auto page = json.find(side);
    if (page != json.end() && page->is_object()) return page->dump();
    std::string remedy = "write the page, or omit the pair";
    if (json.contains("chosen") && json.contains("rejected")) {
      remedy = R"(name `chosen` "a", and `rejected` "b": each {"text": …}, the better one first)";
    } else if (page != json.end() && page->is_string()) {
      remedy = R"(write a text as {"text": …}; ids name pages of --pages FILE, which train, eval and predict take)";
    }
    throw PageError("pair-without-page", {.what = "a line of pairs has no page",
                                          .where = fmt::format("{}:{}, `{}`", file_.path().string(), line, side),
                                          .found = page == json.end() ? fmt::format("no `{}`", side) : shown(*page),
                                          .allowed = kForm.form,
                                          .remedy = std::move(remedy)});
  }

  struct Line {
    std::uint64_t offset;
    std::uint32_t length;
    std::uint32_t number;  // from 1, blank lines counted
  };

  void index_lines() {
    constexpr std::size_t kChunkBytes = kMiB;
    std::vector<char> chunk(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, file_.size_bytes())));
    std::uint64_t start = 0;  // of the line being read
    bool blank = true;        // only white space so far
    std::uint32_t number = 1;
    LineSize size;
    const auto end_line = [&](std::uint64_t end) {
      if (!blank) add_line(start, end, number);
      parsing_ = std::max(parsing_, size.parsing_bytes(options_.chat != nullptr));
      start = end + 1;
      blank = true;
      size = LineSize();
      ++number;
    };
    for (std::uint64_t offset = 0; offset < file_.size_bytes();) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), file_.size_bytes() - offset));
      file_.read_at(offset, std::as_writable_bytes(std::span(chunk.data(), count)));
      for (std::size_t i = 0; i < count; ++i) {
        const char c = chunk[i];
        if (offset == 0 && i == 0 && count >= 3 && std::memcmp(chunk.data(), "\xEF\xBB\xBF", 3) == 0) {
          start = 3;  // skips a byte order mark
          i = 2;
        } else if (c == '\n') {
          end_line(offset + i);
        } else if (c != ' ' && c != '\t' && c != '\r') {
          blank = false;
        }
        size.add(c);
      }
      offset += count;
    }
    end_line(file_.size_bytes());
    lines_.shrink_to_fit();
    if (!lines_.empty()) return;
    throw DataError({.what = "a data file has no pages",
                     .where = file_.path().string(),
                     .found = fmt::format("{}, no line with text", format_bytes(file_.size_bytes())),
                     .allowed = "one JSON object per line",
                     .remedy = "pass a JSONL file with at least one page"});
  }

  void add_line(std::uint64_t start, std::uint64_t end, std::uint32_t number) {
    if (end - start > options_.max_page_bytes) {
      throw DataError({.what = "a line is too long for one page",
                       .where = fmt::format("{}:{}", file_.path().string(), number),
                       .found = format_bytes(end - start),
                       .allowed = fmt::format("at most {}", format_bytes(options_.max_page_bytes)),
                       .remedy = "write one JSON object per line (JSONL), not one array of all pages"});
    }
    lines_.push_back({start, static_cast<std::uint32_t>(end - start), number});
  }

  InputFile file_;
  ReadOptions options_;
  std::string id_prefix_;
  std::vector<Line> lines_;
  std::uint64_t parsing_ = 0;
};

class FunsdSource final : public PageSource {
 public:
  FunsdSource(const fs::path& path, ReadOptions options) : path_(path), options_(std::move(options)) {
    for (const auto& entry : fs::directory_iterator(path / "annotations")) {
      if (entry.path().extension() != ".json") continue;
      names_.push_back(entry.path().stem().string());
      longest_ = std::max<std::uint64_t>(longest_, entry.file_size());
    }
    std::sort(names_.begin(), names_.end());
    if (!names_.empty()) return;
    throw DataError({.what = "a FUNSD folder has no pages",
                     .where = (path / "annotations").string(),
                     .allowed = "annotations/*.json beside images/*.png",
                     .remedy = "pass the folder that holds annotations and images, such as training_data"});
  }

  std::size_t size() const override { return names_.size(); }
  std::span<const fs::path> paths() const override { return {&path_, 1}; }
  // Its files are not read for this: forty bytes for a byte of text, as for "[0,0,1,1]," at worst.
  std::uint64_t parsing_bytes() const override { return 40 * longest_; }
  std::uint64_t host_bytes() const override {
    std::uint64_t bytes = names_.capacity() * sizeof(std::string);
    for (const std::string& name : names_) bytes += name.capacity();
    return bytes;
  }
  void add_to_key(CacheKey& key) const override {
    for (const std::string& name : names_) {
      key.add_file(annotation_of(name));
      key.add_text(annotation_of(name).native());
      key.add_text(image_of(name).native());
    }
  }

  Page read(std::size_t index, PageFaults* faults) const override {
    const std::string& name = names_.at(index);
    const fs::path file = annotation_of(name);
    const std::string text = read_text_file(file, options_.max_page_bytes);
    if (options_.counts != nullptr) ++options_.counts->parsed;
    return parse_funsd_page(text, file, image_of(name), options_, faults);
  }

 private:
  fs::path annotation_of(const std::string& name) const { return path_ / "annotations" / (name + ".json"); }
  fs::path image_of(const std::string& name) const {
    for (const char* extension : {".png", ".jpg", ".jpeg", ".tif", ".tiff"}) {
      fs::path image = path_ / "images" / (name + extension);
      std::error_code error;
      if (fs::exists(image, error)) return image;
    }
    return path_ / "images" / (name + ".png");  // does not exist: opening it reports the error
  }

  fs::path path_;
  ReadOptions options_;
  std::vector<std::string> names_;
  std::uint64_t longest_ = 0;
};

// Several files or folders, read one after the other.
class ManySources final : public PageSource {
 public:
  explicit ManySources(std::vector<std::unique_ptr<PageSource>> sources) : sources_(std::move(sources)) {
    for (const auto& source : sources_) {
      paths_.insert(paths_.end(), source->paths().begin(), source->paths().end());
      ends_.push_back(size() + source->size());
    }
  }

  std::size_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::span<const fs::path> paths() const override { return paths_; }
  std::uint64_t parsing_bytes() const override {
    std::uint64_t most = 0;
    for (const auto& source : sources_) most = std::max(most, source->parsing_bytes());
    return most;
  }
  void add_to_key(CacheKey& key) const override {
    for (const auto& source : sources_) source->add_to_key(key);
  }
  std::uint64_t host_bytes() const override {
    std::uint64_t bytes = sources_.capacity() * (sizeof(void*) + sizeof(std::size_t) + sizeof(fs::path));
    for (const auto& source : sources_) bytes += source->host_bytes();
    return bytes;
  }

  Page read(std::size_t index, PageFaults* faults) const override {
    const auto source = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return sources_.at(source)->read(index - (source == 0 ? 0 : ends_[source - 1]), faults);
  }

 private:
  std::vector<std::unique_ptr<PageSource>> sources_;
  std::vector<std::size_t> ends_;  // for each source, the number of pages up to its end
  std::vector<fs::path> paths_;
};

std::unique_ptr<PageSource> open_one(const fs::path& path, const ReadOptions& options, std::string id_prefix) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (options.segment_boxes) {
      throw UsageError({.what = "--segment-boxes needs FUNSD's folder layout, which tells which words form an entity",
                        .where = path.string(),
                        .found = "not a folder",
                        .remedy = "omit --segment-boxes, and write segment boxes into the JSONL file"});
    }
    refuse_other_data(path);
    return std::make_unique<JsonlSource>(path, options, std::move(id_prefix));
  }
  if (fs::is_directory(path / "annotations", error)) return std::make_unique<FunsdSource>(path, options);
  const fs::path whole = fs::absolute(path / "", error).parent_path();  // "annotations" and "annotations/" end alike
  const bool is_half = (whole.filename() == "annotations" || whole.filename() == "images") &&
                       fs::is_directory(whole.parent_path() / "annotations", error);
  if (!is_half) refuse_other_data(path);
  throw DataError({.what = "a data folder has no annotations folder in it",
                   .where = path.string(),
                   .allowed = "a JSONL file, or a folder with annotations/*.json and images/*.png (FUNSD)",
                   .remedy = is_half ? "name " + whole.parent_path().string()
                             : fs::is_directory(path / "training_data", error)
                                 ? "name " + (path / "training_data").string()
                                 : "pass the JSONL file itself"});
}

// Expands a pattern like glob(3); returns nothing if nothing matches.
std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> names;
  if (result == 0) names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOSPACE) throw std::bad_alloc();
  return names;
}

}  // namespace

std::string listed(std::span<const fs::path> paths) {
  if (paths.empty()) return {};
  if (paths.size() == 1) return paths[0].string();
  if (paths.size() == 2) return fmt::format("{} and {}", paths[0].string(), paths[1].string());
  return fmt::format("{} and {} more", paths[0].string(), paths.size() - 1);
}

PagePaths match_paths(const std::vector<std::string>& given) {
  PagePaths paths;
  for (const std::string& name : given) {
    std::error_code error;
    if (name.find_first_of("*?[") == std::string::npos || fs::exists(name, error)) {
      paths.emplace_back(name);
      continue;
    }
    const std::vector<std::string> names = matches_of(name);
    if (names.empty()) {
      throw DataError({.what = "no file matches a pattern",
                       .where = name,
                       .allowed = "a pattern of files: * stands for any part of a name, ? for one character, [0-9] for "
                                  "one of several",
                       .remedy = "check the pattern and the folder that it names"});
    }
    paths.insert(paths.end(), names.begin(), names.end());
  }
  return each_once(std::move(paths));
}

PagePaths each_once(PagePaths files) {
  std::set<fs::path> known;
  PagePaths once;
  for (fs::path& file : files) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(file, error);
    if (known.insert(error ? file : whole).second) once.push_back(file);
  }
  if (const std::size_t repeats = files.size() - once.size(); repeats > 0) {
    log_warning(fmt::format("{} named more than once, and read once", counted(repeats, "file is", "files are")));
  }
  return once;
}

std::unique_ptr<PageSource> open_pages(const PagePaths& paths, const ReadOptions& options) {
  check(!paths.empty(), "pages come from at least one file");
  if (paths.size() == 1) return open_one(paths.front(), options, {});
  std::vector<std::unique_ptr<PageSource>> sources;
  for (const fs::path& path : paths) sources.push_back(open_one(path, options, path.string() + " "));
  return std::make_unique<ManySources>(std::move(sources));
}

std::optional<PageError> read_as_far_as_possible(const PageSource& pages, const std::function<void(const Page&)>& use) {
  std::optional<PageError> first;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    PageFaults faults;
    std::optional<Page> page;
    try {
      page = pages.read(i, &faults);
    } catch (const PageError& error) {
      faults.push_back(error);
    }
    if (!first && !faults.empty()) first = faults.front();
    if (page) use(*page);
  }
  return first;
}

}  // namespace plimsoll
