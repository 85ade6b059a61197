// CacheKey: a hash of everything that a cache's bytes depend on.
//
//   CacheKey key;
//   key.add_file("train.jsonl");
//   key.add_text("how the file is read");
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace plimsoll {

class CacheKey {
 public:
  void add(std::span<const std::byte> bytes);
  // Marks where a text ends, so that "ab", "c" and "a", "bc" differ.
  void add_text(std::string_view text);
  // A file is identified by its path, its size and the time when it was last changed, renamed or replaced. A missing
  // file is identified by its path alone.
  void add_file(const std::filesystem::path& path);
  friend bool operator==(const CacheKey&, const CacheKey&) = default;

 private:
  friend class PageCache;
  std::array<std::uint64_t, 2> words_ = {1, 2};
};

}  // namespace plimsoll
