// What a log of a failed run says about why it failed: the rules that match, and which of them is the root.
//
//   LogReader reader;
//   reader.feed(bytes);                            // piece by piece
//   const Diagnosis diagnosis = reader.finish();
//   if (diagnosis.no_failure) return;              // the run survived everything that looks like a failure
//   if (diagnosis.rule == nullptr) return;         // the failure is not recognised
//   use(diagnosis.rule->cause, diagnosis.doubt);   // a doubt says why the cause may be another
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/log_facts.h"
#include "doctor/oom_message.h"
#include "doctor/pattern.h"
#include "doctor/rule.h"

namespace plimsoll::doctor {

struct Evidence {
  std::uint64_t line = 0;  // the first is 1
  std::string text{};      // at most kMaxQuoteBytes, printable
};
inline constexpr std::size_t kMaxQuoteBytes = 400;

struct Finding {
  const Rule* rule = nullptr;
  Evidence trigger{};
  std::uint64_t updates = 0;            // losses printed before it
  std::uint64_t chain = 0;              // the same number for tracebacks that Python links as one failure
  bool told = false;                    // the trigger is an error's line, or is in a traceback
  bool inside = false;                  // it is in a traceback
  std::size_t weight = 0;               // how much of the trigger's text the pattern covers
  std::vector<std::uint64_t> chains{};  // of all errors in which the rule's words were found
  std::vector<Evidence> context{};      // what else the rule found, in the log's order
};

// The exception that a diagnosis is about, as the log prints it.
struct Ending {
  std::string text{};   // its class and its whole message; empty if a rule knows it, because the evidence then has it
  std::string where{};  // the part of the program, the file and the line; empty if the log shows no frames
  std::string package{};  // the package that the message asks for, by its name in pip; empty if it names none
};

struct Diagnosis {
  const Rule* rule = nullptr;  // the root cause; null: not recognised, or no failure
  std::string_view doubt{};    // why the root may be another; empty if it is in what ended the run
  bool no_failure = false;     // the run survived everything that failed: see `others`
  std::vector<Evidence> evidence{};
  Ending ending{};
  OomNumbers numbers{};           // of the out-of-memory message, if the root cause is one
  LogFacts facts{};               // what else the log says about the run
  std::vector<Finding> others{};  // also found, but neither the root nor a vaguer description of it
  // If nothing was recognised, these lines look like errors; the exception that no rule explains comes first.
  std::vector<Evidence> errors{};
  std::optional<Evidence> unexplained{};  // set if it makes the root doubtful: an exception that no rule explains
  std::uint64_t lines = 0, bytes = 0;
};

// Takes a log piece by piece, of any size, with any bytes in it; keeps a few hundred lines at most.
class LogReader {
 public:
  LogReader();
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  void feed(std::string_view bytes);
  Diagnosis finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns a line that is safe to print: control characters and bytes that are not UTF-8 are replaced, and it is cut at
// `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = kMaxQuoteBytes);
// Does the same for the part of a longer line around the match, for which the line is quoted.
std::string printable_around(std::string_view text, Match match);

}  // namespace plimsoll::doctor
