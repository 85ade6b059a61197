// Shards: which rank owns which elements of each parameter that trains. The owner sums their gradients over ranks, and
// from stage 1 of ZeRO on only the owner keeps their optimizer state (Rajbhandari et al. 2020, "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models").
//
// A large parameter is cut into as many parts as there are ranks, at whole blocks of 8-bit states, so that a block's
// code does not depend on the number of ranks; a small one belongs to one rank as a whole.
//
//   Shards shards(parameters, /*rank=*/1, /*ranks=*/4);
//   const Shards::Range mine = shards.own("encoder.layer.0.output.dense.weight");
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace plimsoll {

struct ShardedParameter {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t unit = 1;  // it is cut at multiples of this; `elements` keeps it whole
};

class Shards {
 public:
  struct Range {
    std::int64_t first = 0, count = 0;
  };

  Shards() = default;
  // All ranks must name the same parameters in the same order.
  Shards(std::span<const ShardedParameter> parameters, int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // Rank r owns the elements [bounds[r], bounds[r + 1]). Throws InternalError for a name that is not a parameter's.
  const std::vector<std::int64_t>& bounds(const std::string& name) const { return bounds_.at(name); }
  Range range(const std::string& name, int rank) const;
  Range own(const std::string& name) const { return range(name, rank_); }
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return bounds_.contains(name); }
  // Returns whether every rank owns a part of it.
  bool divides(const std::string& name) const;

 private:
  int rank_ = 0, ranks_ = 1;
  std::map<std::string, std::vector<std::int64_t>> bounds_;
};

}  // namespace plimsoll
