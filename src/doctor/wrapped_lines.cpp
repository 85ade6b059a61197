#include "doctor/wrapped_lines.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "doctor/error_lines.h"
#include "doctor/frame.h"
#include "doctor/pattern.h"

namespace plimsoll::doctor {
namespace {

// The range of terminals' widths, in columns.
constexpr std::size_t kNarrowest = 60, kWidest = 260;
// The most lines and bytes that are joined.
constexpr std::size_t kMaxLines = 5, kMaxBytes = 1600;

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// True for text that begins a new line: a list's entry, a frame, a heading, a date or a time, a progress bar.
bool begins_anew(std::string_view text) {
  for (const std::string_view start : {"│", "╭", "╰", "File \"", "Traceback", "During handling", "The above exception",
                                       "Epoch", "epoch", "Step", "step", "wandb:", "Cell In", "[rank"})
    if (text.starts_with(start)) return true;
  if (std::string_view("{|->#<*=^~!").find(text.front()) != std::string_view::npos) return true;
  // "[2024-05-01 …", "[INFO]", "[ 850/1200"; a message continues with "[columns]".
  if (text.size() > 1 && text.front() == '[' && (text[1] < 'a' || text[1] > 'z') && text[1] != '\'') return true;
  std::size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  // "2024-05-01", "12:30:07", "33%|███", "17 |"; a number in a message is followed by a unit: "23.69 GiB".
  if (digits > 0 && digits < text.size() && std::string_view("-:/%|,)").find(text[digits]) != std::string_view::npos)
    return true;
  const std::string_view word = text.substr(0, text.find(' '));
  for (const std::string_view level : {"INFO", "WARNING", "ERROR", "DEBUG", "WARN", "FATAL"})
    if (word.starts_with(level)) return true;
  const std::string_view name = word.substr(0, word.find(':'));
  for (const std::string_view end : {"Error", "Exception", "Interrupt", "Exit", "Invalid", "Empty"})
    if (name.ends_with(end)) return true;
  return read_frame(text).has_value();
}
// True for a whole frame; one without its function is broken.
bool names_function(std::string_view text) {
  const std::optional<Frame> frame = read_frame(text);
  return frame && (!frame->function.empty() || !text.starts_with("File \""));
}
// True for a line that is never continued.
bool stands_alone(std::string_view text) {
  const std::string_view code = trimmed(text);
  return code.empty() || code.starts_with("│") || code.starts_with("╰") || code.starts_with("╭") ||
         code.ends_with("last):") || code.find("%|") != std::string_view::npos;
}

}  // namespace

void WrappedLines::remember_width(std::size_t columns) {
  widths_[next_width_] = columns;
  next_width_ = (next_width_ + 1) % widths_.size();
}

bool WrappedLines::goes_on(std::string_view text) const {
  if (whole_.empty() || lines_ >= kMaxLines || whole_.front().size() > kMaxBytes || stands_alone(last_)) return false;
  const std::string_view next = trimmed(text);
  if (next.empty() || next.find("%|") != std::string_view::npos || begins_anew(next)) return false;
  // Lines that a logger begins with the same words are separate lines.
  constexpr std::size_t kPrefix = 5;
  const std::string_view before = trimmed(last_);
  if (next.size() > kPrefix && before.starts_with(next.substr(0, kPrefix))) return false;
  // True if the next word had no room: with it, the line would have been the widest of those around.
  const std::size_t width = std::max(kNarrowest, *std::max_element(widths_.begin(), widths_.end()));
  // A whole frame is followed by its source, unless its last word was cut.
  if (names_function(before) && (text.starts_with(' ') || columns(last_) < width)) return false;
  const std::size_t word = columns(next.substr(0, next.find(' ')));
  return width <= kWidest && columns(last_) + 1 + word > width;
}

bool WrappedLines::add(std::uint64_t number, std::string_view text) {
  remember_width(columns(text));
  const bool goes = goes_on(text);
  if (goes) {
    const bool is_cut = columns(last_) == *std::max_element(widths_.begin(), widths_.end()) && !last_.ends_with(' ') &&
                        !text.starts_with(' ');
    const std::string rest(trimmed(text));
    if (is_cut && whole_.size() == 1) whole_.push_back(whole_.front());
    whole_.front() += " " + rest;
    if (whole_.size() > 1) whole_[1] += (is_cut ? "" : " ") + rest;
    ++lines_;
  } else {
    whole_.assign(1, std::string(trimmed(text).substr(0, kMaxBytes)));
    lines_ = 1;
    first_ = number;
  }
  last_ = text.substr(0, kMaxBytes);
  return goes;
}

}  // namespace plimsoll::doctor
