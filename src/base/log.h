// Log lines go to standard error through one sink, so that a progress bar can step aside and `--json` stays clean.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace plimsoll {

enum class LogLevel { kInfo, kWarning };
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Replaces the sink (default: "warning: " prefix where due, to standard error) and returns the old one. Not thread-safe
// against concurrent logging: set it at start.
LogSink set_log_sink(LogSink sink);

void log_info(std::string_view message);
void log_warning(std::string_view message);

}  // namespace plimsoll
