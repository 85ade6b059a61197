// PageCache: preprocessed pages (resized pixels, tokens), kept in one file between runs.
//
//   header | entry of page 0 | entry of page 1 | … | a checksum for each entry
//
// Invariant: the file is complete or absent: it is written under another name, synced and renamed, by one process at a
// time. A file that has another key or version, is cut, or has a damaged header or list is made again. An entry's
// checksum is compared on each read.
//
//   PageCache cache(directory / "train.pages", key, entry_bytes, threads, fill);   // fill(page, out) makes an entry
//   if (!cache.read(17, [&](std::span<const std::byte> entry) { use(entry); })) load();   // damaged: not called
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/mapped_bytes.h"

namespace plimsoll {

// Decides whether a cache can be used: a hash of everything that its bytes depend on.
class CacheKey {
 public:
  void add(std::span<const std::byte> bytes);
  friend bool operator==(const CacheKey&, const CacheKey&) = default;

 private:
  friend class PageCache;
  std::array<std::uint64_t, 2> words_ = {1, 2};
};

class PageCache {
 public:
  // Makes the entry of a page. It is called from several threads at once.
  using Fill = std::function<void(std::size_t page, std::span<std::byte> out)>;

  // Opens `path`, or makes it first; `entry_bytes` has the size of each page's entry. Throws EnvironmentError if it has
  // to be made and cannot be (no permission, disk full), and what `fill` throws.
  PageCache(const std::filesystem::path& path, const CacheKey& key, std::span<const std::uint64_t> entry_bytes,
            int threads, const Fill& fill);

  const std::filesystem::path& path() const { return path_; }
  // Calls `use` with the page's bytes while they are mapped. Returns false without calling it if they are damaged; then
  // warns the first time and removes the file, so that the next run makes it again.
  bool read(std::size_t page, const std::function<void(std::span<const std::byte>)>& use) const;

  // The bytes that the cache itself keeps, and the most that one reading thread has mapped.
  std::uint64_t host_bytes() const;
  std::uint64_t mapped_bytes() const;

 private:
  // Returns the reason why the file cannot be used, or nothing if it is open.
  std::optional<std::string> open();
  void make(int threads, const Fill& fill);

  std::filesystem::path path_;
  CacheKey key_;
  std::vector<std::uint64_t> offsets_;    // of each entry, and of the list after the last
  std::vector<std::uint64_t> checksums_;  // of each entry
  std::uint64_t largest_ = 0;
  std::optional<InputFile> file_;
  mutable std::atomic<bool> damaged_ = false;
};

}  // namespace plimsoll
