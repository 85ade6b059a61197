#include "base/log.h"

#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "base/in_quotes.h"

namespace plimsoll {
namespace {

struct Logger {
  std::mutex mutex;
  LogSink sink = [](LogLevel level, std::string_view message) {
    const std::string line =
        fmt::format("{}{}\n", level == LogLevel::kWarning ? "warning: " : "", printable(message, "\n\t"));
    std::fwrite(line.data(), 1, line.size(), stderr);  // if it cannot be written, the work goes on
  };
};

Logger& logger() {
  static Logger instance;
  return instance;
}

void log(LogLevel level, std::string_view message) {
  Logger& target = logger();
  const std::scoped_lock lock(target.mutex);
  if (target.sink) target.sink(level, message);
}

}  // namespace

LogSink set_log_sink(LogSink sink) { return std::exchange(logger().sink, std::move(sink)); }
void log_info(std::string_view message) { log(LogLevel::kInfo, message); }
void log_warning(std::string_view message) { log(LogLevel::kWarning, message); }

}  // namespace plimsoll
