// Joins lines that a terminal's width, or the person who pasted them, has broken: "… to be on the same", "device, but
// found …". Besides each continued line, the reader searches the joined text, so that a rule's words may be on both
// sides of a break.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::doctor {

class WrappedLines {
 public:
  // Takes the next line. Returns true if it continues the previous one: `whole` is then all of it.
  bool add(std::uint64_t number, std::string_view text);
  // Returns the joined lines so far; if a break may be inside a word, once with a blank there and once without.
  const std::vector<std::string>& whole() const { return whole_; }
  // Returns the number of the first of them.
  std::uint64_t first() const { return first_; }
  // Makes the next line begin anew, whatever it is.
  void end() { whole_.clear(); }

 private:
  bool goes_on(std::string_view text) const;
  void remember_width(std::size_t columns);

  std::vector<std::string> whole_;
  std::string last_;       // the previous line, unchanged
  std::size_t lines_ = 0;  // how many `whole_` holds
  std::uint64_t first_ = 0;
  std::array<std::size_t, 8> widths_{};  // of the last lines, in columns
  std::size_t next_width_ = 0;
};

}  // namespace plimsoll::doctor
