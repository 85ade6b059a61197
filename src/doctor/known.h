// The patterns that are searched for in a log's lines: those of all rules, and those of words that identify a line
// (doctor/log_words.h), in one immutable set.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "doctor/pattern.h"

namespace plimsoll::doctor {

// The numbers refer to `patterns`.
struct Known {
  PatternSet patterns{};
  std::unordered_map<std::string_view, int> number{};  // of a rule's pattern
  std::set<int> out_of_memory{}, elsewhere{}, links{}, threads{}, after{}, closings{}, exits{}, trackers{}, tracked{},
      summaries{}, teardown{}, ranks{}, results{}, signs{}, troubles{}, bars{}, preparing{}, timeouts{};
  std::map<int, std::size_t> facts{};  // of a pattern, which fact it begins (doctor/log_facts.h)
  // What the reader finds by means other than a line's words.
  int traceback = 0, train_nan = 0, eval_nan = 0, own_import = 0, other_import = 0, module_none = 0,
      preparing_timeout = 0, stale_source = 0, one_letter = 0, scale_fallen = 0, extension_symbol = 0,
      extension_kernel = 0, image_sizes = 0, image_channels = 0, longer_sequence = 0, padded_apart = 0;
};

// Made once, for every reader.
const Known& known_patterns();

}  // namespace plimsoll::doctor
