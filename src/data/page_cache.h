// PageCache: the preprocessed pages (words and tokens, resized pixels) in one file: kept between runs, or nameless and
// gone with the process.
//
//   header | entry of page 0 | entry of page 1 | … | the end and the checksum of each entry
//
// Invariant: a kept file is complete or absent: it is written under another name, synced and renamed, by one process at
// a time. A file that has another key or version, is cut, or has a damaged header or list is made again. An entry's
// checksum is compared on each read.
//
//   const PageCache cache(directory / "train.pages", key, {.pages = pages, .threads = 2, .fill = fill});
//   if (!cache.read(17, [&](std::span<const std::byte> entry) { use(entry); })) load();   // damaged: not called
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/mapped_bytes.h"
#include "data/cache_key.h"

namespace plimsoll {

class PageCache {
 public:
  struct Contents {
    std::size_t pages = 0;
    int threads = 1;
    // Makes the entry of a page. It is called from several threads at once.
    std::function<std::vector<std::byte>(std::size_t page)> fill{};
    // The bytes of all entries, if known before these are made: a lack of disk space is then noticed at once.
    std::uint64_t bytes = 0;
    // Called now and then with the number of entries made, by one thread at a time.
    std::function<void(std::size_t done, std::size_t pages)> on_progress{};
  };

  // Opens `path`, or makes it first. Throws EnvironmentError if it has to be made and cannot be (no permission, disk
  // full), and what `fill` throws.
  PageCache(const std::filesystem::path& path, const CacheKey& key, const Contents& contents);
  // Makes a file without a name in `directory`. Throws as above.
  PageCache(const std::filesystem::path& directory, const Contents& contents);

  // Calls `use` with the page's bytes while they are mapped. Returns false without calling it if they are damaged; then
  // warns the first time and removes the file, so that the next run makes it again.
  bool read(std::size_t page, const std::function<void(std::span<const std::byte>)>& use) const;

  // Return the bytes that the cache itself keeps, and the most that one reading thread has mapped.
  std::uint64_t host_bytes() const;
  std::uint64_t mapped_bytes() const;

 private:
  // Returns the reason why the file cannot be used, or nothing if it is open.
  std::optional<std::string> open();
  void make(const Contents& contents);
  void write(OutputFile& file, const Contents& contents);
  void measure();

  struct Entry {
    std::uint64_t end = 0, checksum = 0;
  };

  std::filesystem::path path_;  // empty: the file has no name
  CacheKey key_;
  std::vector<Entry> entries_;
  std::uint64_t largest_ = 0;  // bytes of an entry
  std::optional<InputFile> file_;
  mutable std::atomic<bool> damaged_ = false;
};

}  // namespace plimsoll
