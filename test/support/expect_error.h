// expect_error: expects a typed error whose message contains the given texts.
//
//   expect_error<DataError>([&] { parse_config(json, "here"); }, {"hidden_size", "-1"});
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"

namespace plimsoll::test {

template <typename Exception, typename Action>
void expect_error(const Action& action, std::initializer_list<std::string_view> parts) {
  try {
    action();
  } catch (const Exception& error) {
    const std::string message = error.what();
    for (const std::string_view part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
    }
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown; expected a message with '" << (parts.size() > 0 ? *parts.begin() : "") << "'";
}

}  // namespace plimsoll::test
