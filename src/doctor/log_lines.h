// Cuts a log into lines as it is read: removes colours, treats progress bars' carriage returns as line ends, and makes
// bytes that are not text harmless. Holds one line at a time, at most kMaxLineBytes; a longer one comes in parts with
// the same number.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace plimsoll::doctor {

inline constexpr std::size_t kMaxLineBytes = 16 << 10;

class LineReader {
 public:
  // `line` counts line feeds; the first line is 1.
  using Visit = std::function<void(std::uint64_t line, std::string_view text)>;
  explicit LineReader(Visit visit) : visit_(std::move(visit)) {}

  void feed(std::string_view bytes);
  // Passes on the last line, if no line feed ended it.
  void finish();
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t lines() const { return lines_; }

 private:
  void end_part();

  enum class Escape { kNone, kBegun, kControl, kTitle };
  Visit visit_;
  std::string part_;
  std::uint64_t number_ = 1, bytes_ = 0, lines_ = 0;
  Escape escape_ = Escape::kNone;
};

// Returns the line without the markup for emphasis that forum threads have: "**RuntimeError: …**", "### RuntimeError".
std::string_view without_emphasis(std::string_view text);

}  // namespace plimsoll::doctor
