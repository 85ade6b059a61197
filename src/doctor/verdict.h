// Decides which of the matching rules is the root of a failure, and whether to say so without a "perhaps".
//
// A log is a story with an end. What ended the run is its last error; a root is told with confidence only where its
// evidence lies in that error, or leads to it in a way that a rule knows. Everything else is hedged or not told.
#pragma once

#include "doctor/diagnosis.h"
#include "doctor/raised.h"

namespace plimsoll::doctor {

// An exception's line, as Python ends a traceback with.
struct Exception {
  Evidence evidence{};
  std::uint64_t chain = 0, updates = 0;
  std::vector<int> patterns{};  // that the line matches
  bool teardown = false;        // as what is left of a program raises it when the program is ended from outside
  bool known = false;           // one of them is what a rule that holds begins with
  bool direct = false;          // the exception before it in its chain was its direct cause
  Raised raised{};
};

// The facts of a log besides what rules look for.
struct Story {
  std::uint64_t updates = 0;        // losses printed
  bool finite = true;               // the last of them was a number above 0
  bool eval_finite = true;          // the last one of an evaluation was a number
  std::uint64_t relapses = 0;       // how often a loss was NaN after one that was a number
  std::uint64_t closing_line = 0;   // the last line that only a run which came to its end prints; 0: none
  std::uint64_t bar_line = 0;       // the last line of a progress bar, which is not buffered, as errors are not
  std::uint64_t bars = 0;           // lines of progress bars
  bool results = false;             // it holds the results of an evaluation
  bool signs = false;               // it holds weaker signs of a run that works (doctor/signs.h)
  bool troubled = false;            // a line of it tells of some trouble, error or not
  bool tracked = false;             // a tracker repeats such results, as it does however a run ends
  std::uint64_t exit_line = 0;      // the last that says exit status 0
  std::uint64_t error_updates = 0;  // losses printed by the last line that is an error's
  std::uint64_t fatal_line = 0;     // the last of these that is more than a logger's word; 0: none
  std::uint64_t fatal_updates = 0;  // losses printed by then
  bool ranks = false;               // several processes wrote the log
  std::uint64_t cut_line = 0;       // the heading of a traceback in which the log ends; 0: none
  std::vector<Exception> exceptions{};
  std::vector<Evidence> errors{};  // lines that are an error's, the first and the last ones
};

// True if a line calls itself a warning, or less: no such line ended a run. Except that CUDA tells in one why it found
// no device, NCCL has no higher word, nor has Kubernetes for what keeps a pod from starting, and FSDP tells in one that
// it saves a file without some weights.
bool only_warns(std::string_view line);

// A run that printed so many further losses has outlived an error. Ranks that wait for a dead one print one at most.
inline constexpr std::uint64_t kUpdatesAfterSurvival = 2;

// Fills all but numbers, lines and bytes.
Diagnosis judge(std::vector<Finding> findings, const Story& story);

}  // namespace plimsoll::doctor
