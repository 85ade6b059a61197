// Tells which lines of a log are an error's own, and which only stand beside one.
#pragma once

#include <string_view>

namespace plimsoll::doctor {

// True if a line, in small letters, is an error's: "someerror: …" as Python ends a traceback, a C++ program's last
// words.
bool is_error(std::string_view small);

// True for "ValueError: …", as Python names what ended a traceback; not for "mean absolute error: 0.1".
bool names_exception(std::string_view text);

// True for a logger's word, after which programs go on: "ERROR:    Error loading ASGI app", "2024-05-02 11:07 - ERROR -
// upload failed".
bool is_logged_error(std::string_view text);

// True for what ends a traceback without a message, or with a name of its own: "AssertionError", "queue.Empty".
bool is_exception_name(std::string_view text);

// True for a source line that a notebook's or rich's traceback shows around the one that failed, which says what did
// not happen: "    745         position_embeddings = …" beside "--> 746 …"; "│   376 │   …" beside "│ ❱ 377 │ …".
bool is_context_line(std::string_view text, bool notebook);

}  // namespace plimsoll::doctor
