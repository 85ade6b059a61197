#include "data/tokenizer_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kFreeSlot = std::numeric_limits<std::uint64_t>::max();
// A slot holds two ids and a rank.
constexpr int kIdBits = 21, kRankBits = 22;
// Above this length a heap is faster than the quadratic scan.
constexpr std::size_t kShortPieceBytes = 64;

constexpr std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << kIdBits | static_cast<std::uint32_t>(right);
}

// Returns the power of two that keeps a table of `count` entries at most half full, and the shift that indexes it.
std::size_t table_size(std::size_t count) { return std::bit_ceil(std::max<std::size_t>(16, 2 * count)); }
int table_shift(std::size_t size) { return 64 - std::countr_zero(size); }

}  // namespace

Bpe::Bpe(const BpeRules& rules)
    : byte_ids_(rules.byte_ids),
      byte_pairs_(std::size_t{256} * 256),
      slots_(table_size(rules.merges.size()), kFreeSlot) {
  shift_ = table_shift(slots_.size());
  results_.reserve(rules.merges.size());
  std::int32_t largest = *std::ranges::max_element(rules.byte_ids);
  for (const BpeMerge& merge : rules.merges) largest = std::max({largest, merge.left, merge.right, merge.result});
  if (largest >> kIdBits != 0 || rules.merges.size() >> kRankBits != 0) {
    throw DataError({.what = "a tokenizer has too many tokens",
                     .found = fmt::format("token {}, {}", largest, counted(rules.merges.size(), "merge")),
                     .allowed = fmt::format("tokens up to {}", (1 << kIdBits) - 1),
                     .remedy = "use the tokenizer of a LayoutLMv3 model"});
  }
  for (std::uint64_t rank = 0; rank < rules.merges.size(); ++rank) {
    const BpeMerge& merge = rules.merges[rank];
    check(std::min({merge.left, merge.right, merge.result}) >= 0, "a merge names no token");
    const std::uint64_t key = pair_key(merge.left, merge.right);
    std::size_t slot = spread(key) >> shift_;
    while (slots_[slot] != kFreeSlot && slots_[slot] >> kRankBits != key) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = key << kRankBits | rank;  // of a duplicate pair the last rank counts, as in `tokenizers`
    results_.push_back(merge.result);
  }
  for (std::size_t pair = 0; pair < byte_pairs_.size(); ++pair) {
    byte_pairs_[pair] = find(byte_ids_[pair / 256], byte_ids_[pair % 256]);
  }
}

std::uint32_t Bpe::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t slot = spread(key) >> shift_;; slot = (slot + 1) & (slots_.size() - 1)) {
    const std::uint64_t entry = slots_[slot];
    if (entry == kFreeSlot) return kNoRank;
    if (entry >> kRankBits == key) return static_cast<std::uint32_t>(entry & ((1U << kRankBits) - 1));
  }
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() <= kShortPieceBytes) return encode_short(piece, ids);
  std::vector<std::int32_t> symbols(piece.size());
  std::ranges::transform(piece, symbols.begin(),
                         [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; });
  merge(symbols, ids);
}

// Uses arrays on the stack and finds the best pair by scanning them all, which is fastest for pieces of some ten bytes.
void Bpe::encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, kShortPieceBytes> symbols;
  std::array<std::uint32_t, kShortPieceBytes> ranks;  // rank of the pair (i, i + 1)
  std::size_t count = piece.size();
  if (count == 0) return;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(piece[i]); };
  for (std::size_t i = 0; i < count; ++i) symbols[i] = byte_ids_[byte(i)];
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = byte_pairs_[std::size_t{byte(i)} * 256 + byte(i + 1)];
  ranks[count - 1] = kNoRank;  // the last symbol begins no pair
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    symbols[best] = results_[ranks[best]];
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
    }
    if (best > 0) ranks[best - 1] = find(symbols[best - 1], symbols[best]);
    ranks[best] = best + 1 < count ? find(symbols[best], symbols[best + 1]) : kNoRank;
  }
  for (std::size_t i = 0; i < count; ++i) ids.push_back(symbols[i]);
}

// Uses a linked list and a heap in n log n, so that a page-long "word" does not take quadratic time.
void Bpe::merge(std::span<const std::int32_t> begin, std::vector<std::int32_t>& ids) const {
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

  if (begin.empty()) return;
  std::vector<Symbol> symbols(begin.size());
  for (std::size_t i = 0; i < begin.size(); ++i) symbols[i] = {begin[i], i == 0 ? kEnd : i - 1, i + 1};
  symbols.back().next = kEnd;

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto look_up = [&](std::size_t position) {
    if (position == kEnd || symbols[position].next == kEnd) return;
    const std::int32_t left = symbols[position].id, right = symbols[symbols[position].next].id;
    const std::uint32_t rank = find(left, right);
    if (rank != kNoRank) queue.push({rank, position, left, right, results_[rank]});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) look_up(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& symbol = symbols[best.position];
    // The entry is stale: one of the two symbols has been merged since.
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
    : slots_(table_size(expected_pieces)), shift_(table_shift(slots_.size())) {}

void PieceTable::insert(std::string_view piece, std::int32_t id) {
  check(!piece.empty() && piece.size() <= kMaxPieceBytes, "a piece of 1 to 12 bytes");
  check(id >= 0 && id >> kPieceIdBits == 0, "an id of 24 bits");
  Slot key = key_of(piece);
  const std::size_t slot = slot_of(key);
  key.value |= static_cast<std::uint32_t>(id);
  slots_[slot] = key;
}

}  // namespace plimsoll
