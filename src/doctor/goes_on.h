// Recognises repeated lines of one shape whose numbers advance ("step=40", "step=50", "step=60"): a program that trains
// prints them, whatever library it uses. Like the signs of doctor/signs.h, they count only in a log in which nothing
// resembles an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::doctor {

class GoesOnReader {
 public:
  // Reads a line in small letters; true if it is at least the third of one shape, and the numbers next to training
  // words (epoch, step, forward, samples/s, …) differ from those of the previous lines.
  bool read(std::string_view small);

 private:
  struct Shape {
    std::string text{};     // the line with # for each number
    std::string numbers{};  // those next to training words, in the last line of that shape
    std::uint64_t lines = 0;
    std::uint64_t read_at = 0;  // when it was last read, counted in lines
  };
  Shape& shape_of(std::string text);

  std::vector<Shape> shapes_;  // the most recent ones
  std::uint64_t read_ = 0;
};

}  // namespace plimsoll::doctor
