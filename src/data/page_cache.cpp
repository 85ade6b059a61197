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
  std::uint64_t version = 1;
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

void CacheKey::add(std::span<const std::byte> bytes) {
  for (std::uint64_t& word : words_) word = hash_bytes(bytes, word);
}

PageCache::PageCache(const fs::path& path, const CacheKey& key, std::span<const std::uint64_t> entry_bytes, int threads,
                     const Fill& fill)
    : path_(path), key_(key), checksums_(entry_bytes.size()) {
  offsets_.reserve(entry_bytes.size() + 1);
  offsets_.push_back(sizeof(Header));
  for (const std::uint64_t bytes : entry_bytes) {
    offsets_.push_back(offsets_.back() + bytes);
    largest_ = std::max(largest_, bytes);
  }
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
  log_info(fmt::format("making the cache {} of {} ({}): {}", path.string(), counted(entry_bytes.size(), "page"),
                       format_bytes(offsets_.back()), *why));
  make(threads, fill);
  const std::optional<std::string> still = open();
  if (still) {
    throw EnvironmentError({.what = "the page cache does not match what was written",
                            .where = path.string(),
                            .found = *still,
                            .remedy = "check the disk, or pass another directory with --cache"});
  }
}

std::optional<std::string> PageCache::open() {
  file_.reset();
  std::error_code error;
  if (!fs::exists(path_, error)) return "it does not exist yet";
  InputFile file(path_);
  Header header;
  const std::uint64_t whole = offsets_.back() + checksums_.size() * sizeof(std::uint64_t);
  if (file.size_bytes() < sizeof(Header)) return "the existing one is truncated";
  file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != Header().magic) return "the existing file is not a cache";
  if (header.version != Header().version) return "the existing one has another version";
  if (header.checksum != checksum_of(header)) return "the existing one is damaged";
  if (header.key != key_.words_ || header.pages != checksums_.size() || header.list_offset != offsets_.back()) {
    return "the existing one belongs to other data or options";
  }
  if (file.size_bytes() != whole) return "the existing one is truncated";
  const std::span<std::byte> list = std::as_writable_bytes(std::span(checksums_));
  file.read_at(offsets_.back(), list);
  if (hash_bytes(list) != header.list_checksum) return "the existing one is damaged";
  file_.emplace(std::move(file));
  return std::nullopt;
}

void PageCache::make(int threads, const Fill& fill) {
  const std::uint64_t whole = offsets_.back() + checksums_.size() * sizeof(std::uint64_t);
  std::error_code error;
  const fs::space_info space = fs::space(path_.parent_path(), error);
  if (!error && space.available < whole) {
    throw EnvironmentError({.what = "not enough disk space for the page cache",
                            .where = path_.string(),
                            .found = fmt::format("{} free", format_bytes(space.available)),
                            .allowed = fmt::format("{} or more", format_bytes(whole)),
                            .remedy = "free some disk space, pass another directory, or omit --cache"});
  }
  Header header{.key = key_.words_, .pages = checksums_.size(), .list_offset = offsets_.back()};
  OutputFile file(path_);
  // The list is written last: the header is not valid until the list's checksum is known.
  file.write(std::as_bytes(std::span(&header, 1)));
  std::size_t page = 0;
  run_in_order<std::vector<std::byte>>(
      checksums_.size(), threads,
      [&](std::size_t index) {
        std::vector<std::byte> entry(offsets_[index + 1] - offsets_[index]);
        fill(index, entry);
        return entry;
      },
      [&](const std::vector<std::byte>& entry) {
        checksums_[page++] = hash_bytes(entry);
        file.write(entry);
      });
  const std::span<const std::byte> list = std::as_bytes(std::span(checksums_));
  header.list_checksum = hash_bytes(list);
  header.checksum = checksum_of(header);
  file.write(list);
  file.write_at(0, std::as_bytes(std::span(&header, 1)));
  file.close();
}

bool PageCache::read(std::size_t page, const std::function<void(std::span<const std::byte>)>& use) const {
  const MappedBytes entry(*file_, offsets_.at(page), offsets_.at(page + 1) - offsets_.at(page));
  if (hash_bytes(entry.bytes()) != checksums_[page]) {
    if (damaged_.exchange(true)) return false;
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

std::uint64_t PageCache::host_bytes() const {
  return (offsets_.capacity() + checksums_.capacity()) * sizeof(std::uint64_t);
}

std::uint64_t PageCache::mapped_bytes() const { return MappedBytes::resident_bytes(largest_); }

}  // namespace plimsoll
