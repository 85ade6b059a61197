// Log lines go to standard error through one sink, so that a progress bar can clear its line and `--json` stays clean.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace plimsoll {

enum class LogLevel { kInfo, kWarning };
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Replaces the sink (default: standard error, warnings with the prefix "warning: ") and returns the old one. It is not
// thread-safe against concurrent logging, so set it at start.
LogSink set_log_sink(LogSink sink);

void log_info(std::string_view message);
void log_warning(std::string_view message);

}  // namespace plimsoll
