// Decides which lines of a log belong to an error, and which are only near one.
#pragma once

#include <string_view>

namespace plimsoll::doctor {

// True if a line, in small letters, is an error's: "someerror: …" at the end of Python's traceback, or a C++ program's
// last message.
bool is_error(std::string_view small);

// True for "ValueError: …", Python's line at the end of a traceback; not for "mean absolute error: 0.1".
bool names_exception(std::string_view text);

// True for a logger's level, after which programs continue: "ERROR:    Error loading ASGI app", "2024-05-02 11:07 -
// ERROR - upload failed".
bool is_logged_error(std::string_view text);

// True for the end of a traceback without a message, or with an unusual name: "AssertionError", "queue.Empty".
bool is_exception_name(std::string_view text);

// True for a source line that a notebook's or rich's traceback shows around the one that failed, and which therefore
// did not fail: "    745         position_embeddings = …" beside "--> 746 …"; "│   376 │   …" beside "│ ❱ 377 │ …".
bool is_context_line(std::string_view text, bool notebook);

}  // namespace plimsoll::doctor
