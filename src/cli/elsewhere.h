// Options of other programs: those of Hugging Face's TrainingArguments, of its run_*.py scripts, of PEFT and
// bitsandbytes, and usual short forms. A name that is listed here is never taken for a misspelling.
//
//   if (const ElsewhereOption* known = find_elsewhere("--max-seq-length")) use(known->here);  // "--max-length"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

struct ElsewhereOption {
  std::string_view name;
  std::string_view here;  // Plimsoll's options with that meaning, the likeliest first, with spaces between; empty: none
  std::string_view note;  // what to do instead; empty: nothing is to be said
};

std::span<const ElsewhereOption> elsewhere_options();
// nullptr: not listed.
const ElsewhereOption* find_elsewhere(std::string_view name);

}  // namespace plimsoll
