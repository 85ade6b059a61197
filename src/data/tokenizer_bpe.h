// Byte pair encoding of one piece of text: starts from bytes and merges the neighbouring pair of lowest rank (the
// leftmost of equals) until no pair has a rank. Sennrich, Haddow, Birch: "Neural Machine Translation of Rare Words with
// Subword Units", ACL 2016.
//
//   Bpe bpe({.byte_ids = byte_ids, .merges = {{72, 101, 256}, {256, 108, 257}}});   // rank = index
//   bpe.encode(" TOTAL", ids);
//
// Invariant: it is immutable; encode only allocates to grow `ids` for pieces of up to 64 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll {

// Means that there is no token.
inline constexpr std::int32_t kNoToken = -1;

// Fibonacci hashing takes the high bits of a product with 2^64 / golden ratio.
inline constexpr std::uint64_t spread(std::uint64_t key) { return key * 0x9E3779B97F4A7C15U; }

struct BpeMerge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t result;
};

struct BpeRules {
  std::array<std::int32_t, 256> byte_ids{};  // the token of each byte; every byte has one, so nothing is unknown
  std::vector<BpeMerge> merges{};            // by rank, best first
};

class Bpe {
 public:
  explicit Bpe(const BpeRules& rules);

  // Appends the ids of `piece`, which may hold any bytes.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;
  // Does the same beginning with tokens, which need not be those of bytes.
  void merge(std::span<const std::int32_t> symbols, std::vector<std::int32_t>& ids) const;

  std::size_t memory_bytes() const {
    return slots_.size() * sizeof(std::uint64_t) + results_.size() * sizeof(std::int32_t) +
           byte_pairs_.size() * sizeof(std::uint32_t);
  }

 private:
  // Returns the rank of a pair's merge, kNoRank if it has none.
  std::uint32_t find(std::int32_t left, std::int32_t right) const;
  void encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const;

  // The tables looked up most are kept small, because the time goes into waiting for memory.
  std::array<std::int32_t, 256> byte_ids_;
  std::vector<std::uint32_t> byte_pairs_;  // the rank of each pair of bytes
  std::vector<std::uint64_t> slots_;       // pair << 22 | rank: open addressing, linear probing, at most half full
  std::vector<std::int32_t> results_;      // by rank
  int shift_ = 0;                          // 64 - log2(slots)
};

// Maps pieces of 1 to 12 bytes to their token: most words need one look-up, in one cache line. `find` is in this header
// because a call would cost as much as the look-up.
class PieceTable {
 public:
  static constexpr std::size_t kMaxPieceBytes = 12;

  explicit PieceTable(std::size_t expected_pieces);
  // `piece` has 1 to kMaxPieceBytes bytes. At most `expected_pieces` different pieces may be inserted.
  void insert(std::string_view piece, std::int32_t id);
  // Returns kNoToken if it is absent, or if `piece` is empty or too long.
  std::int32_t find(std::string_view piece) const;

  std::size_t memory_bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  static constexpr int kPieceIdBits = 24;
  struct alignas(16) Slot {
    std::uint64_t head = 0;  // the piece's bytes, padded with zeros
    std::uint32_t tail = 0;
    std::uint32_t value = 0;  // length << 24 | id; 0 = free
  };
  template <typename T>
  static std::uint64_t load(const char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  // Returns the piece's slot, without the id.
  static Slot key_of(std::string_view piece);
  std::size_t slot_of(const Slot& key) const;

  std::vector<Slot> slots_;
  int shift_ = 0;
};

// Uses loads of fixed widths, which may overlap; a copy of variable length would cost a call.
inline PieceTable::Slot PieceTable::key_of(std::string_view piece) {
  const char* const bytes = piece.data();
  const std::size_t length = piece.size();
  const auto byte = [bytes](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i; };
  Slot key;
  if (length >= 8) {
    key.head = load<std::uint64_t>(bytes);
    if (length > 8) {
      key.tail = static_cast<std::uint32_t>(load<std::uint64_t>(bytes + length - 8) >> 8 * (16 - length));
    }
  } else if (length >= 4) {
    key.head = load<std::uint32_t>(bytes) | load<std::uint32_t>(bytes + length - 4) << 8 * (length - 4);
  } else {
    key.head = byte(0) | byte(length / 2) | byte(length - 1);
  }
  key.value = static_cast<std::uint32_t>(length) << kPieceIdBits;
  return key;
}

inline std::size_t PieceTable::slot_of(const Slot& key) const {
  std::size_t slot = spread(spread(key.head) ^ key.tail ^ key.value) >> shift_;
  for (;; slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& entry = slots_[slot];
    if (entry.value == 0) return slot;
    if (entry.head == key.head && entry.tail == key.tail && ((entry.value ^ key.value) >> kPieceIdBits) == 0)
      return slot;
  }
}

inline std::int32_t PieceTable::find(std::string_view piece) const {
  if (piece.empty() || piece.size() > kMaxPieceBytes) return kNoToken;
  const Slot& entry = slots_[slot_of(key_of(piece))];
  return entry.value == 0 ? kNoToken : static_cast<std::int32_t>(entry.value & ((1U << kPieceIdBits) - 1));
}

}  // namespace plimsoll
