// Finds what a page's boxes look like as a whole, what is wrong with each, and which faults have a certain repair.
//
//   const BoxReading reading = read_boxes(page, BoxFormat::kPixel);
//   check_boxes(page, BoxFormat::kPixel, reading, findings);
//   for (const BoxRepair& repair : repair_boxes(page, BoxFormat::kPixel, reading)) use(repair.word, repair.to);
#pragma once

#include <string>
#include <vector>

#include "data/findings.h"
#include "data/page.h"

namespace plimsoll {

enum class BoxHabit : std::uint8_t {
  kUsual,
  kFractions,    // 0 to 1 of the page's sides
  kThousandths,  // 0 to 1000 of the page's sides where pixels were expected
  kOrder,        // corners in another order than x0, y0, x1, y1
  kConstant,     // the same box for every word
  kMirrored      // the reading order runs from right to left, or upwards
};

struct BoxReading {
  BoxHabit habit = BoxHabit::kUsual;
  std::string looks_like{};  // "[x, y, width, height]"
  int neighbours = 0;        // pairs of consecutive words
  int shared = 0;            // those pairs that have the same box: segment-level boxes
};

struct BoxRepair {
  std::size_t word = 0;
  std::string kinds{};  // the findings that it repairs: "box-inverted, box-outside"
  Box from{}, to{};
};

// Unreadable boxes (NaN) are ignored. Precondition: the page's size is known for kPixel.
BoxReading read_boxes(const Page& page, BoxFormat format);

// Adds "box-outside", "box-inverted" and the fault of the whole page: "box-fractions", "box-thousandths", "box-order",
// "box-constant", "box-mirrored". Boxes of a page in another order or unit are not reported as inverted one by one.
void check_boxes(const Page& page, BoxFormat format, const BoxReading& reading, Findings& findings);

// Returns repairs that are certain: boxes from 0 to 1 scaled, corners swapped, and boxes that lie outside by at most a
// pixel (or a thousandth) moved to the edge. Pages with any other fault get none; a person has to decide on those.
std::vector<BoxRepair> repair_boxes(const Page& page, BoxFormat format, const BoxReading& reading);

}  // namespace plimsoll
