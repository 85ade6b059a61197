// What is logged while it lives, also where the test ends by an exception: the sink before it comes back with its end.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace plimsoll::test {

class LogCapture {
 public:
  LogCapture()
      : before_(set_log_sink([this](LogLevel, std::string_view line) {
          text_ += line;
          text_ += '\n';
        })) {}
  ~LogCapture() { set_log_sink(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  const std::string& text() const { return text_; }  // a line a message
  bool has(std::string_view part) const { return text_.find(part) != std::string::npos; }
  void clear() { text_.clear(); }

 private:
  std::string text_;
  LogSink before_;
};

}  // namespace plimsoll::test
