// RankAgreement: what the ranks of a run tell each other between their programs, so that all make the same decisions: a
// page that one of them cannot read, a signal that one of them received, the parts of the loss.
//
//   RankAgreement agreement(session.ranks());            // nullptr: one process, and nothing is exchanged
//   const auto verdict = agreement.before_micro_batch(interrupt.pending(), bad);
//   loss = agreement.sum(loss);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "data/loader.h"
#include "ranks/communicator.h"
#include "runtime/checked_run.h"

namespace plimsoll {

class RankAgreement {
 public:
  // `ranks` must outlive this object. Afterwards, only a page that cannot be read causes an allocation.
  explicit RankAgreement(Communicator* ranks);

  bool alone() const { return ranks_ == nullptr; }
  bool is_first() const { return ranks_ == nullptr || ranks_->rank() == 0; }

  enum class Verdict : std::uint8_t { kGoOn, kDrop, kBadPage };
  // Returns what all ranks do with the next micro-batch. `bad` is the page that this rank cannot read, and becomes that
  // of the first rank that has one.
  Verdict before_micro_batch(bool drops, std::optional<BadPageError>& bad);

  // Returns the sum over ranks, in their order.
  double sum(double mine);

  // Returns the earliest of the faults that the ranks have found in a program, which each has run node by node, because
  // the others may follow from it; it has the description of the rank that found it.
  std::optional<StepFault> first_fault(std::optional<StepFault> mine);

  // The requests to the run, the same on every rank.
  struct Requests {
    int end_signal = 0;  // the signal that asks for the end; 0: none
    bool save = false;
    bool any() const { return end_signal != 0 || save; }
  };
  // Shares the requests that any rank has received with all ranks. Ranks must decide by the returned value: the others
  // do not know of a signal that one has received since.
  Requests share(Interrupt& interrupt);

  // Returns when all ranks have called it.
  void wait_for_all();

 private:
  struct Word {
    std::int32_t code = 0;  // a verdict, or a signal
    std::int32_t saves = 0;
    double number = 0;
  };
  void exchange(const Word& mine);

  Communicator* ranks_;
  std::vector<Word> words_;  // of all ranks
};

}  // namespace plimsoll
