#include "data/cache_key.h"

#include <sys/stat.h>

#include "base/hash.h"

namespace plimsoll {

void CacheKey::add(std::span<const std::byte> bytes) {
  for (std::uint64_t& word : words_) word = hash_bytes(bytes, word);
}

void CacheKey::add_text(std::string_view text) {
  const std::uint64_t length = text.size();
  add(std::as_bytes(std::span(&length, 1)));
  add(std::as_bytes(std::span(text)));
}

void CacheKey::add_file(const std::filesystem::path& path) {
  add_text(std::filesystem::absolute(path).lexically_normal().native());
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return;
  const std::array<std::int64_t, 5> facts = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                                             info.st_ctim.tv_sec, info.st_ctim.tv_nsec};
  add(std::as_bytes(std::span(facts)));
}

}  // namespace plimsoll
