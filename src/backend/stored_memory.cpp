#include "backend/stored_memory.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/offload_file.h"

namespace plimsoll {
namespace {

constexpr std::uint64_t kBase = kOffloadAlignment;  // an address is never null

std::uint64_t offset_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address) - kBase; }

using Block = std::array<std::byte, kOffloadAlignment>;

}  // namespace

DeviceTensor StoredMemory::tensor(const TensorType& type, std::uint64_t offset) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a view has a pointer, which this memory takes for an offset
  return {TensorView(type, reinterpret_cast<void*>(static_cast<std::uintptr_t>(kBase + offset))), *this};
}

void StoredMemory::change(std::uint64_t offset, std::size_t size, const Fill& fill) const {
  if (size == 0) return;
  const std::uint64_t begin = offset / kOffloadAlignment * kOffloadAlignment, end = offset + size;
  const std::uint64_t last = (end - 1) / kOffloadAlignment * kOffloadAlignment;
  Block first_block, last_block;  // their current content
  const auto read_block = [this](std::uint64_t at, Block& block) {
    store_.visit(at, block.size(), false,
                 [&block](std::span<std::byte> bytes) { std::ranges::copy(bytes, block.begin()); });
  };
  if (begin < offset) read_block(begin, first_block);
  if (last + kOffloadAlignment > end) read_block(last, last_block);
  std::uint64_t at = begin;
  store_.visit(
      begin, static_cast<std::size_t>(last + kOffloadAlignment - begin), true, [&](std::span<std::byte> piece) {
        const std::uint64_t piece_end = at + piece.size();
        if (at < offset)
          std::ranges::copy(std::span(first_block).first(static_cast<std::size_t>(offset - at)), piece.begin());
        if (piece_end > end) {
          const auto kept = static_cast<std::size_t>(piece_end - end);
          std::ranges::copy(std::span(last_block).last(kept), piece.end() - static_cast<std::ptrdiff_t>(kept));
        }
        const std::uint64_t from = std::max(at, offset), to = std::min(piece_end, end);
        fill(static_cast<std::size_t>(from - offset),
             piece.subspan(static_cast<std::size_t>(from - at), static_cast<std::size_t>(to - from)));
        at = piece_end;
      });
}

void StoredMemory::write(std::span<const std::byte> from, void* to) const {
  change(offset_of(to), from.size(), [&](std::size_t first, std::span<std::byte> piece) {
    std::ranges::copy(from.subspan(first, piece.size()), piece.begin());
  });
}

void StoredMemory::fill_zeros(std::span<std::byte> bytes) const {
  change(offset_of(bytes.data()), bytes.size(),
       [](std::size_t, std::span<std::byte> piece) { std::fill(piece.begin(), piece.end(), std::byte{0}); });
}

void StoredMemory::read(const void* from, std::span<std::byte> to) const {
  if (to.empty()) return;
  const std::uint64_t offset = offset_of(from), begin = offset / kOffloadAlignment * kOffloadAlignment;
  const std::uint64_t end = offset + to.size();
  std::uint64_t at = begin;
  std::byte* next = to.data();
  store_.visit(begin, static_cast<std::size_t>(end - begin), false, [&](std::span<std::byte> piece) {
    const std::span<std::byte> wanted = piece.subspan(static_cast<std::size_t>(std::max(at, offset) - at));
    std::memcpy(next, wanted.data(), wanted.size());
    next += wanted.size();
    at += piece.size();
  });
}

}  // namespace plimsoll
