// RankAgreement: what the ranks of a run tell each other between their programs, so that all take the same decisions: a
// page that one of them cannot read, a signal that one of them was sent, the loss that each has a part of.
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
  // `ranks` must outlive this object. Nothing but a page that cannot be read allocates afterwards.
  explicit RankAgreement(Communicator* ranks);

  bool alone() const { return ranks_ == nullptr; }
  bool is_first() const { return ranks_ == nullptr || ranks_->rank() == 0; }

  enum class Verdict : std::uint8_t { kGoOn, kDrop, kBadPage };
  // What all ranks do with the micro-batch that comes next. `bad` is the page that this rank cannot read, and becomes
  // that of the first rank that has one.
  Verdict before_micro_batch(bool drops, std::optional<BadPageError>& bad);

  // The sum over ranks, in their order.
  double sum(double mine);

  // Of the faults that the ranks have found in a program that each has run node by node, the one that is earliest in
  // it, because the others may follow from it; as the rank that found it describes it.
  std::optional<StepFault> first_fault(std::optional<StepFault> mine);

  // What the run has been asked for, the same on every rank.
  struct Requests {
    int end_signal = 0;  // the signal that asks for the end; 0: none does
    bool save = false;
    bool any() const { return end_signal != 0 || save; }
  };
  // Makes every rank see the requests that any rank was sent. Ranks must decide by what this returns: a signal that has
  // come to one of them since is not known to the others.
  Requests share(Interrupt& interrupt);

  // Returns when all ranks have come here.
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
