// What happened to arguments that the Trainer and similar classes no longer take, or do not take yet. A message that
// names one gets an answer about that one.
#pragma once

#include <string_view>

namespace plimsoll::doctor {

struct ArgumentNews {
  std::string_view argument{};
  std::string_view callee{};  // a part of the function's name, in small letters; empty: any
  std::string_view cause{};   // what happened to it
  std::string_view fix{};     // what to write instead
};

// Returns the news of the argument that the message names; null if it names none that is known.
const ArgumentNews* argument_news(std::string_view message);

}  // namespace plimsoll::doctor
