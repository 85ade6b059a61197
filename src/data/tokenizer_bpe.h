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
#include <string_view>
#include <vector>

namespace plimsoll {

// Stands for no token.
inline constexpr std::int32_t kNoToken = -1;

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

  std::size_t memory_bytes() const {
    return slots_.size() * sizeof(std::uint64_t) + results_.size() * sizeof(std::int32_t) +
           byte_pairs_.size() * sizeof(std::uint32_t);
  }

 private:
  // Returns the rank of a pair's merge, kNoRank if it has none.
  std::uint32_t find(std::int32_t left, std::int32_t right) const;
  void encode_short(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<std::int32_t>& ids) const;

  // The tables looked up most are kept small, because the time goes into waiting for memory.
  std::array<std::int32_t, 256> byte_ids_;
  std::vector<std::uint32_t> byte_pairs_;  // the rank of each pair of bytes
  std::vector<std::uint64_t> slots_;       // pair << 22 | rank: open addressing, linear probing, at most half full
  std::vector<std::int32_t> results_;      // by rank
  int shift_ = 0;                          // 64 - log2(slots)
};

// Maps pieces of 1 to 12 bytes to their token: most words need one look-up, in one cache line.
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
  struct alignas(16) Slot {
    std::uint64_t head = 0;  // the piece's bytes, padded with zeros
    std::uint32_t tail = 0;
    std::uint32_t value = 0;  // length << 24 | id; 0 = free
  };
  // Returns the piece's slot, without the id.
  static Slot key_of(std::string_view piece);
  std::size_t slot_of(const Slot& key) const;

  std::vector<Slot> slots_;
  int shift_ = 0;
};

}  // namespace plimsoll
