#include "data/image_webp.h"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace plimsoll {
namespace {

constexpr std::uint64_t kChunkHead = 8;  // four letters, and the number of bytes that follow

struct Chunk {
  std::array<char, 4> letters{};
  std::uint64_t bytes = 0;

  bool is(std::string_view name) const { return std::string_view(letters.data(), letters.size()) == name; }
};

std::optional<Chunk> chunk_at(const InputFile& file, std::uint64_t at) {
  std::array<std::byte, kChunkHead> head{};
  if (at + head.size() > file.size_bytes()) return std::nullopt;
  file.read_at(at, head);
  Chunk chunk;
  for (std::size_t i = 0; i < 4; ++i) {
    chunk.letters[i] = std::to_integer<char>(head[i]);
    chunk.bytes |= std::to_integer<std::uint64_t>(head[4 + i]) << 8 * i;
  }
  return chunk;
}

}  // namespace

std::optional<WebpContainer> read_webp_container(const InputFile& file) {
  constexpr std::uint64_t kFirst = 12;  // after "RIFF", the size and "WEBP"
  const std::optional<Chunk> whole = chunk_at(file, 0), first = chunk_at(file, kFirst);
  if (!whole || !first) return std::nullopt;
  WebpContainer container{.bytes = kChunkHead + whole->bytes};
  // Only a file in the extended format is animated or has EXIF data.
  if (!first->is("VP8X") || kFirst + kChunkHead >= file.size_bytes()) return container;
  std::array<std::byte, 1> flags{};
  file.read_at(kFirst + kChunkHead, flags);
  container.is_animated = (flags[0] & std::byte{0x02}) != std::byte{0};
  std::uint64_t at = kFirst;
  for (std::optional<Chunk> chunk = first; chunk; chunk = chunk_at(file, at)) {
    if (chunk->is("EXIF")) {
      // Some writers put the marker of JPEG's segment in front.
      const std::optional<Chunk> begin = chunk_at(file, at + kChunkHead);
      container.exif = at + kChunkHead + (begin && begin->is("Exif") ? 6 : 0);
      break;
    }
    at += kChunkHead + chunk->bytes + chunk->bytes % 2;
  }
  return container;
}

}  // namespace plimsoll
