// What has become of arguments that the Trainer and its relatives no longer take, or do not take yet. A message that
// names one deserves an answer about that one.
#pragma once

#include <string_view>

namespace plimsoll::doctor {

struct ArgumentNews {
  std::string_view argument{};
  std::string_view callee{};  // a part of the function's name, in small letters; empty: any
  std::string_view cause{};   // what became of it
  std::string_view fix{};     // what to write instead
};

// The news of the argument that the message names; null where it names none that is known.
const ArgumentNews* argument_news(std::string_view message);

}  // namespace plimsoll::doctor
