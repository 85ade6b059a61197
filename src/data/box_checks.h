// What a page's boxes look like as a whole, what is wrong with each, and which faults can be mended without a guess.
//
//   const BoxReading reading = read_boxes(page, BoxFormat::kPixel);
//   check_boxes(page, BoxFormat::kPixel, reading, findings);
//   for (const BoxRepair& repair : repair_boxes(page, BoxFormat::kPixel, reading)) …
#pragma once

#include <string>
#include <vector>

#include "data/findings.h"
#include "data/page.h"

namespace plimsoll {

enum class BoxHabit : std::uint8_t {
  kUsual,
  kFractions,    // 0 to 1 of the page
  kThousandths,  // 0 to 1000 of the page where pixels were expected
  kOrder,        // corners in another order than x0, y0, x1, y1
  kConstant,     // the same box for every word
  kMirrored      // the reading order runs from right to left, or upwards
};

struct BoxReading {
  BoxHabit habit = BoxHabit::kUsual;
  std::string looks_like{};  // "[x, y, width, height]"
  int neighbours = 0;        // pairs of words in a row
  int shared = 0;            // of these, pairs with one box: segment-level boxes
};

struct BoxRepair {
  std::size_t word = 0;
  std::string kinds{};  // of the findings that it mends: "box-inverted, box-outside"
  Box from{}, to{};
};

// Boxes of NaNs, which could not be read, count nowhere. Precondition: the page's size is known for kPixel.
BoxReading read_boxes(const Page& page, BoxFormat format);

// Adds "box-outside", "box-inverted" and the page's habit: "box-fractions", "box-thousandths", "box-order",
// "box-constant", "box-mirrored". Boxes of a page in another order or unit are not called inverted one by one.
void check_boxes(const Page& page, BoxFormat format, const BoxReading& reading, Findings& findings);

// Repairs that are sure: boxes from 0 to 1 scaled, corners swapped, and what lies outside by at most a pixel (or a
// thousandth) moved to the edge. Nothing on pages whose boxes have another habit, which a person has to decide on.
std::vector<BoxRepair> repair_boxes(const Page& page, BoxFormat format, const BoxReading& reading);

}  // namespace plimsoll
