#include "data/tokenizer_bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <queue>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kFreePair = std::numeric_limits<std::uint64_t>::max();
// Above this the quadratic scan loses to a heap.
constexpr std::size_t kShortPieceBytes = 64;

constexpr std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// Fibonacci hashing: the high bits of a product with 2^64 / golden ratio.
constexpr std::uint64_t spread(std::uint64_t key) { return key * 0x9E3779B97F4A7C15U; }

// The power of two that keeps a table of `count` entries at most half full, and the shift that indexes it.
std::size_t table_size(std::size_t count) { return std::bit_ceil(std::max<std::size_t>(16, 2 * count)); }
int table_shift(std::size_t size) { return 64 - std::countr_zero(size); }

template <typename T>
std::uint64_t load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

Bpe::Bpe(const BpeRules& rules) : byte_ids_(rules.byte_ids) {
  const std::size_t size = table_size(rules.merges.size());
  slots_.assign(size, {kFreePair, kNoRank, kNoToken});
  shift_ = table_shift(size);
  for (std::uint32_t rank = 0; rank < rules.merges.size(); ++rank) {
    const BpeMerge& merge = rules.merges[rank];
    check(merge.left >= 0 && merge.right >= 0 && merge.result >= 0, "a merge names no token");
    const std::uint64_t key = pair_key(merge.left, merge.right);
    std::size_t slot = spread(key) >> shift_;
    while (slots_[slot].pair != kFreePair && slots_[slot].pair != key) slot = (slot + 1) & (size - 1);
    slots_[slot] = {key, rank, merge.result};  // a pair given twice counts by its last rank, as in `tokenizers`
  }
}

Bpe::Merge Bpe::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t slot = spread(key) >> shift_;; slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& entry = slots_[slot];
    if (entry.pair == key) return {entry.rank, entry.result};
    if (entry.pair == kFreePair) return {kNoRank, kNoToken};
  }
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  piece.size() <= kShortPieceBytes ? encode_short(piece, ids) : encode_long(piece, ids);
}

// Arrays on the stack, the best pair found by looking at all: quickest where pieces have some ten bytes.
void Bpe::encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, kShortPieceBytes> symbols;
  std::array<std::uint32_t, kShortPieceBytes> ranks;  // of the pair (i, i + 1)
  std::array<std::int32_t, kShortPieceBytes> results;
  std::size_t count = piece.size();
  if (count == 0) return;
  for (std::size_t i = 0; i < count; ++i) symbols[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  const auto look_up = [&](std::size_t i) {
    const Merge merge = find(symbols[i], symbols[i + 1]);
    ranks[i] = merge.rank;
    results[i] = merge.result;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  ranks[count - 1] = kNoRank;  // the last symbol begins no pair
  results[count - 1] = kNoToken;
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    symbols[best] = results[best];
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      results[i] = results[i + 1];
    }
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
}

// A linked list and a heap: n log n, so that a page-long "word" costs no quadratic time.
void Bpe::encode_long(std::string_view piece, std::vector<std::int32_t>& ids) const {
  struct Symbol {
    std::int32_t id;
    std::size_t previous;
    std::size_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t position;
    std::int32_t left;
    std::int32_t right;
    std::int32_t result;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();

  std::vector<Symbol> symbols(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i == 0 ? kEnd : i - 1, i + 1};
  }
  symbols.back().next = kEnd;

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto look_up = [&](std::size_t position) {
    if (position == kEnd || symbols[position].next == kEnd) return;
    const std::int32_t left = symbols[position].id, right = symbols[symbols[position].next].id;
    const Merge merge = find(left, right);
    if (merge.rank != kNoRank) queue.push({merge.rank, position, left, right, merge.result});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) look_up(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& symbol = symbols[best.position];
    // Stale: one of the two has been merged since.
    if (symbol.id != best.left || symbol.next == kEnd || symbols[symbol.next].id != best.right) continue;
    Symbol& absorbed = symbols[symbol.next];
    symbol.id = best.result;
    symbol.next = absorbed.next;
    absorbed = {kNoToken, kEnd, kEnd};
    if (symbol.next != kEnd) symbols[symbol.next].previous = best.position;
    look_up(symbol.previous);
    look_up(best.position);
  }
  for (std::size_t i = 0; i != kEnd; i = symbols[i].next) ids.push_back(symbols[i].id);
}

PieceTable::PieceTable(std::size_t expected_pieces)
    : slots_(table_size(expected_pieces), Slot{0, 0, 0, kNoToken}), shift_(table_shift(slots_.size())) {}

PieceTable::Key PieceTable::key_of(std::string_view piece) {
  const char* bytes = piece.data();
  const std::size_t length = piece.size();
  const auto length32 = static_cast<std::uint32_t>(length);
  if (length >= 8) {
    return {load<std::uint64_t>(bytes), load<std::uint64_t>(bytes + length - 8), length32};
  }
  if (length >= 4) {
    return {load<std::uint32_t>(bytes), load<std::uint32_t>(bytes + length - 4), length32};
  }
  return {load<std::uint8_t>(bytes),
          load<std::uint8_t>(bytes + length / 2) << 8 | load<std::uint8_t>(bytes + length - 1), length32};
}

std::size_t PieceTable::slot_of(const Key& key) const {
  std::size_t slot = spread(spread(key.head) ^ std::rotl(key.tail, 23) ^ key.length) >> shift_;
  while (slots_[slot].length != 0) {
    const Slot& entry = slots_[slot];
    if (entry.head == key.head && entry.tail == key.tail && entry.length == key.length) break;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

void PieceTable::insert(std::string_view piece, std::int32_t id) {
  check(!piece.empty() && piece.size() <= kMaxPieceBytes, "a piece of 1 to 16 bytes");
  const Key key = key_of(piece);
  slots_[slot_of(key)] = {key.head, key.tail, key.length, id};
}

std::int32_t PieceTable::find(std::string_view piece) const {
  if (piece.empty() || piece.size() > kMaxPieceBytes) return kNoToken;
  return slots_[slot_of(key_of(piece))].id;
}

}  // namespace plimsoll
