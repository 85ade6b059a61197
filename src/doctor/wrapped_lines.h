// Puts lines together again that a terminal of so many columns, or whoever pasted them, has broken: "… to be on the
// same", "device, but found …". Beside each line that goes on, the reader looks through the whole, so that a rule's
// words may stand on both sides of a break.
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
  // Takes the next line. True if it goes on with the one before: `whole` is then all of it.
  bool add(std::uint64_t number, std::string_view text);
  // The lines that belong together so far; where a break may be inside a word, once with a blank there and once
  // without.
  const std::vector<std::string>& whole() const { return whole_; }
  // The number of the first of them.
  std::uint64_t first() const { return first_; }
  // The next line begins anew, whatever it is.
  void end() { whole_.clear(); }

 private:
  bool goes_on(std::string_view text) const;
  void remember_width(std::size_t columns);

  std::vector<std::string> whole_;
  std::string last_;       // the line before, as it is
  std::size_t lines_ = 0;  // how many `whole_` holds
  std::uint64_t first_ = 0;
  std::array<std::size_t, 8> widths_{};  // of the last lines, in columns
  std::size_t next_width_ = 0;
};

}  // namespace plimsoll::doctor
