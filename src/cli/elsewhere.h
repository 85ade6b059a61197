// Options of other programs: those of Hugging Face's TrainingArguments, of its run_*.py scripts, of PEFT and
// bitsandbytes, and usual short forms. A name that is listed here is never taken for a misspelling.
//
// A script or a JSON file of TrainingArguments thus works unchanged, unless an option would change results.
//
//   if (const ElsewhereOption* known = find_elsewhere("--max-seq-length")) use(known->here);  // "--max-length"
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct ElsewhereOption {
  // `train` and `plan` refuse the option (kRefused), accept the values that have no effect and refuse the others
  // (kUsual), or accept every value, because none changes a result here (kAny).
  enum class Effect : std::uint8_t { kRefused, kUsual, kAny };
  std::string_view name;
  std::string_view here;  // Plimsoll's options with that meaning, likeliest first, separated by spaces; empty: none
  std::string_view note;  // what to do instead, or for kAny why no value matters; empty: nothing to say
  Effect effect = Effect::kRefused;
  // The default, if it is not false, none, 0 or the like, and other values without effect, separated by spaces. If it is
  // "true", no other value is without effect.
  std::string_view usual{};

  // Returns true if the value, as text or JSON, has no effect.
  bool asks_for_nothing(std::string_view value) const;
};

std::span<const ElsewhereOption> elsewhere_options();
// Returns nullptr if the name is not listed.
const ElsewhereOption* find_elsewhere(std::string_view name);

// Returns true if `command` may ignore an option with that name and value. It logs why, if the value asks for
// something. Throws UsageError for a value that would change a result.
bool passes_over(std::string_view command, std::string_view name, std::string_view value, const std::string& where);
// The arguments, in the order typed, without those that passes_over(). `own` says whether the command itself has the
// option.
std::vector<std::string> without_elsewhere(const std::vector<std::string>& arguments, std::string_view command,
                                           const std::function<bool(const std::string& name)>& own);

}  // namespace plimsoll
