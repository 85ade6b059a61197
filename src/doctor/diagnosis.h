// What a log of a failed run says about why it failed: the rules that match, and which of them is the root.
//
//   LogReader reader;
//   while (…) reader.feed(bytes);
//   const Diagnosis diagnosis = reader.finish();
//   if (diagnosis.rule == nullptr) …not recognised…
//   if (diagnosis.unexplained) …perhaps…
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/oom_message.h"
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
  std::uint64_t updates = 0;        // losses that had been printed by then
  std::vector<Evidence> context{};  // what the rule found besides, in the log's order
};

struct Diagnosis {
  const Rule* rule = nullptr;  // the root cause; null: not recognised
  std::vector<Evidence> evidence{};
  OomNumbers numbers{};            // of the out-of-memory message, where the root cause is one
  std::vector<Finding> others{};   // also seen, and neither the root nor a vaguer word for it
  std::vector<Evidence> errors{};  // where nothing was recognised: what looks like an error
  // Where the root is doubtful, for it stands on a line that is no error's or the run outlived it: a later exception
  // that no rule knows, and that may be the failure.
  std::optional<Evidence> unexplained{};
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

}  // namespace plimsoll::doctor
