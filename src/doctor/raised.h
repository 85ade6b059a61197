// What a Python exception says: its class, its message and the place where it was raised. Most failures end in one that
// states its own cause; the kinds below say what its class and message mean and what to do, for every message that no
// rule knows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/frame.h"
#include "doctor/rule.h"

namespace plimsoll::doctor {

// An exception's line, parsed.
struct Raised {
  std::string type{};      // "torch.cuda.OutOfMemoryError", as printed
  std::string message{};   // empty: it has none
  std::string asserted{};  // for an assertion without a message, the condition in the traceback
  std::string place{};     // place_of its frames
  Layer layer = Layer::kUnknown;
  bool has_frames = false;
  bool in_library = false;  // the last of its frames is a library's
  bool at_start = false;    // the line begins with it, apart from a rank's number

  std::string name() const;  // the class without its module
};

// Reads "ValueError: …" in a line. `ends_traceback`: the line ends Python's traceback, so it need not look like an
// exception's name.
std::optional<Raised> read_raised(std::string_view text, bool ends_traceback);
// Returns the condition of an assertion if the line of a traceback shows one.
std::optional<std::string> read_assertion(std::string_view text);

// True if a launcher, a pool or a lazy import only reports an exception from elsewhere.
bool only_reports(const Raised& raised);
// True if this happens to processes when another one has ended.
bool follows_another_end(const Raised& raised);
// True if the class and the message say what was refused, and are not delayed like CUDA's errors.
bool says_enough(const Raised& raised);
// Finds which of the exceptions that Python reports as one failure, in the log's order, names the cause. `direct`: the
// first was the direct cause of the last.
std::size_t telling_one(std::span<const Raised> chain, bool direct);

// A kind of exception and what it means. `rule.when` has patterns for the message; empty: any.
struct Kind {
  AnyOf classes{};              // without their modules; empty: any
  std::vector<Layer> layers{};  // empty: any
  Rule rule{};
};
// They are tried in this order; the last fits every exception.
const std::vector<Kind>& all_kinds();
// Returns the first kind that fits; nullptr if the exception does not say enough.
const Kind* kind_of(const Raised& raised);

}  // namespace plimsoll::doctor
