// Decides which of the matching rules is the root of a failure, and whether to say so without a "perhaps".
//
// A log is a story with an end. The last error ended the run; a root is reported with confidence only if its evidence
// is in that error, or leads to it in a way that a rule knows. Everything else is reported with a doubt or not at all.
#pragma once

#include "doctor/diagnosis.h"
#include "doctor/raised.h"

namespace plimsoll::doctor {

// An exception's line, at the end of Python's traceback.
struct Exception {
  Evidence evidence{};
  std::uint64_t chain = 0, updates = 0;
  std::vector<int> patterns{};  // those that the line matches
  bool teardown = false;        // raised by the rest of a program when the program is ended from outside
  bool known = false;           // one of them begins a rule that holds
  bool direct = false;          // the previous exception in its chain was its direct cause
  Raised raised{};
};

// The facts about a log besides what rules look for.
struct Story {
  std::uint64_t updates = 0;        // losses printed
  bool finite = true;               // the last of them was a finite number above 0
  bool eval_finite = true;          // the last one of an evaluation was finite
  std::uint64_t relapses = 0;       // how often a loss was NaN after a finite one
  std::uint64_t closing_line = 0;   // the last line that only a finished run prints; 0: none
  std::uint64_t bar_line = 0;       // the last line of a progress bar; like errors, bars are not buffered
  std::uint64_t bars = 0;           // lines of progress bars
  bool results = false;             // it has the results of an evaluation
  bool signs = false;               // it has weaker signs of a run that works (doctor/signs.h)
  bool troubled = false;            // one of its lines reports some trouble, error or not
  bool tracked = false;             // a tracker repeats such results, which it does however a run ends
  std::uint64_t exit_line = 0;      // the last line with exit status 0
  std::uint64_t error_updates = 0;  // losses printed up to the last error's line
  std::uint64_t fatal_line = 0;     // the last of these that is more than a logger's level; 0: none
  std::uint64_t fatal_updates = 0;  // losses printed up to then
  bool ranks = false;               // several processes wrote the log
  std::uint64_t cut_line = 0;       // the heading of a traceback that the end of the log cuts; 0: none
  std::vector<Exception> exceptions{};
  std::vector<Evidence> errors{};  // lines that are an error's, the first and the last ones
};

// True if a line calls itself a warning, or less: no such line ended a run. Exceptions: CUDA warns about why it found
// no device, NCCL has no higher level, nor has Kubernetes for what keeps a pod from starting, and FSDP warns that it
// saves a file without some weights.
bool only_warns(std::string_view line);

// A run that printed this many further losses has survived an error. Ranks that wait for a dead one print at most one.
inline constexpr std::uint64_t kUpdatesAfterSurvival = 2;

// Fills everything except numbers, lines and bytes.
Diagnosis judge(std::vector<Finding> findings, const Story& story);

}  // namespace plimsoll::doctor
