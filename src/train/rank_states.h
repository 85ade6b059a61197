// RankStates: the optimizer states of a run whose ranks each keep a part of them (transform/shards.h), as one whole:
// the first rank's part, then the next rank's. So a checkpoint does not depend on the number of ranks that wrote it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "fit/session.h"
#include "train/checkpoint.h"

namespace plimsoll {

class RankStates {
 public:
  // How much the first rank receives at a time while it saves; the plan counts it.
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

  // `own` has the names of this rank's states. All ranks of the session construct one at the same time.
  RankStates(const Session& session, const std::vector<std::string>& own);

  // Returns those of all ranks, sorted.
  std::vector<std::string> names() const;
  // `read` gives the whole to rank 0, and nothing to the others; all ranks call it, in the same order. `fill` fills
  // this rank's part.
  StateAccess access() const;

 private:
  struct State {
    DType dtype = DType::kF32;
    std::vector<std::int64_t> elements;  // by rank; 0 where a rank has nothing of it
  };

  void read(const std::string& name, const std::function<void(std::span<const std::byte>)>& visit) const;

  const Session& session_;
  Communicator& ranks_;
  std::map<std::string, State> states_;
  mutable std::vector<std::byte> piece_;
};

}  // namespace plimsoll
