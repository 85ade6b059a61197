#include "doctor/error_lines.h"

#include <algorithm>
#include <cctype>

#include "doctor/pattern.h"

namespace plimsoll::doctor {

bool is_error(std::string_view small) {
  // Matches "SomeError: …" at the end of Python's traceback, after any prefix of a launcher, but not "mean absolute
  // error: 0.1".
  for (const std::string_view word : {"error: ", "exception: ", "invalid: "}) {
    const std::size_t at = small.find(word), end = at + word.size();
    if (at == std::string_view::npos) continue;
    const bool is_name = at > 0 && std::isalpha(static_cast<unsigned char>(small[at - 1])) != 0;
    if (!is_name && end < small.size() && std::isdigit(static_cast<unsigned char>(small[end])) != 0) continue;
    return small.find("warning") == std::string_view::npos;
  }
  for (const std::string_view words :
       {"terminate called", "segmentation fault", "core dumped", "returned non-zero exit status", "aborted ("})
    if (small.find(words) != std::string_view::npos) return true;
  return small.ends_with("error") || small.starts_with("fatal");
}

bool names_exception(std::string_view text) {
  for (const std::string_view word : {"Error: ", "Exception: ", "Invalid: "}) {
    const std::size_t at = text.find(word);
    if (at != std::string_view::npos && at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0)
      return text.find("Warning") == std::string_view::npos;
  }
  return false;
}

bool is_logged_error(std::string_view text) {
  const std::size_t at = text.find("ERROR");
  if (at == std::string_view::npos || at > 48) return false;
  const std::string small = to_small_letters(text);
  for (const std::string_view word :
       {"fatal", "terminate called", "core dumped", "segmentation fault", "non-zero exit"})
    if (small.find(word) != std::string::npos) return false;
  const auto is_letter = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  return (at == 0 || !is_letter(at - 1)) && !is_letter(at + 5);
}

bool is_exception_name(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_'; });
}

bool is_context_line(std::string_view text, bool notebook) {
  const auto skip_blanks = [&] {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  };
  skip_blanks();
  constexpr std::string_view kBar = "│";
  const bool rich = text.starts_with(kBar);
  if (rich) text.remove_prefix(kBar.size());
  if (!rich && !notebook) return false;
  skip_blanks();
  // "    [157](file:///…) try:", as in VS Code.
  if (text.starts_with('[') && text.find("](") != std::string_view::npos && text.size() > 1 && text[1] >= '0' &&
      text[1] <= '9')
    return true;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  return digits > 0 && (digits == text.size() || text[digits] == ' ');
}

}  // namespace plimsoll::doctor
