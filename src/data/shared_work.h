// Work on pages that ranks share (data/page_share.h): each rank does its part on several threads, and all ranks take
// all results in order, so that the outcome is that of a single process.
//
//   run_shared<BlockReport>(share, blocks, threads, [&](std::size_t i) { return check_block(i); }, pack_report, unpack,
//                           [&](const BlockReport& report) { add(report); });
//
// Invariant: the exchange takes place in the calling thread. Only a few results per thread, or with ranks those of one
// round, wait for their turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/in_order.h"
#include "data/page_share.h"

namespace plimsoll {

// Packs texts into one message.
class TextPacker {
 public:
  void add(std::string_view text) {
    const std::uint64_t length = text.size();
    packed_.append(reinterpret_cast<const char*>(&length), sizeof length);
    packed_.append(text);
  }
  const std::string& packed() const { return packed_; }

 private:
  std::string packed_;
};

class TextUnpacker {
 public:
  explicit TextUnpacker(std::string packed) : packed_(std::move(packed)) {}
  std::string_view next() {
    std::uint64_t length = 0;
    check(at_ + sizeof length <= packed_.size(), "every rank has sent its results");
    std::memcpy(&length, packed_.data() + at_, sizeof length);
    at_ += sizeof length;
    check(length <= packed_.size() - at_, "every rank has sent its results whole");
    at_ += length;
    return std::string_view(packed_).substr(at_ - length, length);
  }

 private:
  std::string packed_;
  std::size_t at_ = 0;
};

// `produce(i)` runs on any thread of the rank that has i; `consume` runs on every rank, in order of i, never in two
// threads at once. `pack` and `unpack` turn a result into a text to send and back, and are not called in a single
// process.
template <typename Result, typename Produce, typename Pack, typename Unpack, typename Consume>
void run_shared(const PageShare& share, std::size_t count, int threads, const Produce& produce, const Pack& pack,
                const Unpack& unpack, const Consume& consume) {
  if (share.ranks == 1) return run_in_order<Result>(count, threads, produce, consume);
  // The same on all ranks, however many threads each has; short enough that a rank that reads scans with one thread
  // does not seem dead.
  constexpr std::size_t kOfRank = 32;
  const std::size_t round = kOfRank * share.ranks;
  for (std::size_t begin = 0; begin < count; begin += round) {
    const std::size_t end = std::min(begin + round, count);
    // A round begins with rank 0's, because its length is a multiple of the number of ranks.
    const std::size_t own = (end - begin + share.ranks - 1 - share.rank) / share.ranks;
    TextPacker mine;
    run_in_order<std::string>(
        own, threads, [&](std::size_t i) { return pack(produce(begin + i * share.ranks + share.rank)); },
        [&](const std::string& text) { mine.add(text); });
    std::vector<TextUnpacker> all;
    for (std::string& text : share.exchange(mine.packed())) all.emplace_back(std::move(text));
    for (std::size_t i = begin; i < end; ++i) consume(unpack(all.at(i % share.ranks).next()));
  }
}

}  // namespace plimsoll
