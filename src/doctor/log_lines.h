// A log cut into lines as it streams by: colours taken out, carriage returns of progress bars taken as ends of lines,
// what is not text made harmless. Holds one line at a time, at most kMaxLineBytes; a longer one comes in parts with the
// same number.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace plimsoll::doctor {

inline constexpr std::size_t kMaxLineBytes = 16 << 10;

class LineReader {
 public:
  // `line` is what stands between two line feeds, the first being 1.
  using Visit = std::function<void(std::uint64_t line, std::string_view text)>;
  explicit LineReader(Visit visit) : visit_(std::move(visit)) {}

  void feed(std::string_view bytes);
  // The last line, if no line feed ended it.
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

// Returns the line without the marks of emphasis that a thread sets around it: "**RuntimeError: …**", "###
// RuntimeError".
std::string_view without_emphasis(std::string_view text);

}  // namespace plimsoll::doctor
