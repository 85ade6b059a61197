#include "data/page_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/in_order.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

struct Header {
  std::array<char, 8> magic = {'P', 'L', 'I', 'M', 'P', 'A', 'G', 'E'};
  std::uint64_t version = 3;
  std::array<std::uint64_t, 2> key{};
  std::uint64_t pages = 0;
  std::uint64_t list_offset = 0;
  std::uint64_t list_checksum = 0;
  std::uint64_t checksum = 0;  // of everything before it
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

std::uint64_t checksum_of(const Header& header) {
  return hash_bytes(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum)));
}

// Held by the process that makes a cache; others wait and then find it complete. The lock file beside it stays.
class Lock {
 public:
  explicit Lock(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (descriptor_ >= 0) ::flock(descriptor_, LOCK_EX);
  }
  ~Lock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

PageCache::PageCache(const fs::path& path, const CacheKey& key, const Contents& contents)
    : path_(path), key_(key), entries_(contents.pages) {
  if (!open()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    throw EnvironmentError({.what = "cannot create the cache's directory",
                            .where = path.parent_path().string(),
                            .found = error.message(),
                            .remedy = "check the path, its permissions and the disk, or pass another with --cache"});
  }
  const Lock lock(path.string() + ".lock");
  const std::optional<std::string> why = open();
  if (!why) return;  // another process has made it
  log_info(fmt::format("making the cache {} of {}{}: {}", path.string(), counted(contents.pages, "page"),
                       contents.bytes > 0 ? fmt::format(" ({})", format_bytes(contents.bytes)) : "", *why));
  make(contents);
  const std::optional<std::string> still = open();
  if (still) {
    throw EnvironmentError({.what = "the page cache does not match what was written",
                            .where = path.string(),
                            .found = *still,
                            .remedy = "check the disk, or pass another directory with --cache"});
  }
}

PageCache::PageCache(const fs::path& directory, const Contents& contents) : entries_(contents.pages) {
  OutputFile file = OutputFile::nameless(directory);
  write(file, contents);
  file_.emplace(std::move(file).reopen());
  measure();
}

std::optional<std::string> PageCache::open() {
  file_.reset();
  std::error_code error;
  if (!fs::exists(path_, error)) return "it does not exist yet";
  InputFile file(path_);
  Header header;
  const std::uint64_t list_bytes = entries_.size() * sizeof(Entry);
  if (file.size_bytes() < sizeof(Header)) return "the existing one is truncated";
  file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != Header().magic) return "the existing file is not a cache";
  if (header.version != Header().version) return "the existing one has another version";
  if (header.checksum != checksum_of(header)) return "the existing one is damaged";
  if (header.key != key_.words_ || header.pages != entries_.size()) {
    return "the existing one belongs to other data or options";
  }
  if (file.size_bytes() != header.list_offset + list_bytes) return "the existing one is truncated";
  const std::span<std::byte> list = std::as_writable_bytes(std::span(entries_));
  file.read_at(header.list_offset, list);
  if (hash_bytes(list) != header.list_checksum) return "the existing one is damaged";
  file_.emplace(std::move(file));
  measure();
  return std::nullopt;
}

void PageCache::make(const Contents& contents) {
  const std::uint64_t whole = contents.bytes + entries_.size() * sizeof(Entry);
  std::error_code error;
  const fs::space_info space = fs::space(path_.parent_path(), error);
  if (!error && space.available < whole) {
    throw EnvironmentError({.what = "not enough disk space for the page cache",
                            .where = path_.string(),
                            .found = fmt::format("{} free", format_bytes(space.available)),
                            .allowed = fmt::format("{} or more", format_bytes(whole)),
                            .remedy = "free some disk space, pass another directory, or omit --cache"});
  }
  OutputFile file(path_);
  write(file, contents);
  file.close();
}

void PageCache::write(OutputFile& file, const Contents& contents) {
  Header header{.key = key_.words_, .pages = entries_.size()};
  // The list is written last: the header is not valid until the list's checksum is known.
  file.write(std::as_bytes(std::span(&header, 1)));
  std::size_t page = 0;
  std::uint64_t end = sizeof(Header);
  run_in_order<std::vector<std::byte>>(entries_.size(), contents.threads, contents.fill,
                                       [&](const std::vector<std::byte>& entry) {
                                         end += entry.size();
                                         entries_[page++] = {.end = end, .checksum = hash_bytes(entry)};
                                         file.write(entry);
                                         if (contents.on_progress) contents.on_progress(page, entries_.size());
                                       });
  const std::span<const std::byte> list = std::as_bytes(std::span(entries_));
  header.list_offset = end;
  header.list_checksum = hash_bytes(list);
  header.checksum = checksum_of(header);
  file.write(list);
  file.write_at(0, std::as_bytes(std::span(&header, 1)));
}

void PageCache::measure() {
  std::uint64_t begin = sizeof(Header);
  for (const Entry& entry : entries_) {
    largest_ = std::max(largest_, entry.end - begin);
    begin = entry.end;
  }
}

bool PageCache::read(std::size_t page, const std::function<void(std::span<const std::byte>)>& use) const {
  const std::uint64_t begin = page == 0 ? sizeof(Header) : entries_.at(page - 1).end;
  const MappedBytes entry(*file_, begin, entries_.at(page).end - begin);
  if (hash_bytes(entry.bytes()) != entries_[page].checksum) {
    if (damaged_.exchange(true)) return false;
    if (path_.empty()) {
      log_warning(fmt::format("the temporary file of pages in {} is damaged at page {}: damaged pages are read anew",
                              file_->path().string(), page));
      return false;
    }
    std::error_code error;
    fs::remove(path_, error);
    log_warning(fmt::format(
        "the cache {} is damaged at page {}: damaged pages are read from the data, and the next run rebuilds it",
        path_.string(), page));
    return false;
  }
  use(entry.bytes());
  return true;
}

std::uint64_t PageCache::host_bytes() const { return entries_.capacity() * sizeof(Entry); }

std::uint64_t PageCache::mapped_bytes() const { return MappedBytes::resident_bytes(largest_); }

}  // namespace plimsoll
