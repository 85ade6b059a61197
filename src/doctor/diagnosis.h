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
  std::uint64_t updates = 0;            // losses that had been printed by then
  std::uint64_t chain = 0;              // the tracebacks that Python says are of one failure have one number
  bool told = false;                    // the trigger is an error's line, or stands in a traceback
  bool inside = false;                  // it stands in a traceback
  std::size_t weight = 0;               // of the trigger's text, how much the pattern says
  std::vector<std::uint64_t> chains{};  // of all errors that the rule's words were found in
  std::vector<Evidence> context{};      // what the rule found besides, in the log's order
};

// The exception that a diagnosis is about, as the log prints it.
struct Ending {
  std::string text{};   // its class and its whole message; empty where a rule knows it, for the evidence holds it then
  std::string where{};  // the part of the program, the file and the line; empty where the log shows no frames
  std::string package{};  // that the message asks for, as pip names it; empty where it names none
};

struct Diagnosis {
  const Rule* rule = nullptr;  // the root cause; null: not recognised, or no failure
  std::string_view doubt{};    // why the root may be another; empty: it lies in what ended the run
  bool no_failure = false;     // nothing failed but what the run outlived: see `others`
  std::vector<Evidence> evidence{};
  Ending ending{};
  OomNumbers numbers{};           // of the out-of-memory message, where the root cause is one
  LogFacts facts{};               // what else the log says of the run
  std::vector<Finding> others{};  // also seen, and neither the root nor a vaguer word for it
  // If nothing was recognised, these lines look like errors; the exception that no rule explains comes first.
  std::vector<Evidence> errors{};
  std::optional<Evidence> unexplained{};  // where the root is doubtful for it: an exception that no rule explains
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

// A line as it may be printed: control characters and what is no UTF-8 replaced, cut at `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = kMaxQuoteBytes);
// The same of a longer line around the match in it, which is what the line is quoted for.
std::string printable_around(std::string_view text, Match match);

}  // namespace plimsoll::doctor
