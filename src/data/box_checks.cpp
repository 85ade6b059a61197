#include "data/box_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/counted.h"
#include "data/dataset.h"

namespace plimsoll {
namespace {

bool is_read(const Box& box) { return !std::isnan(box[0]); }
bool is_inverted(const Box& box) { return box[2] < box[0] || box[3] < box[1]; }
Box with_corners_ordered(const Box& b) {
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}
bool is_on_page(const Box& box, const Page& page, BoxFormat format) {
  return box_on_page(scale_box(box, page.width, page.height, format));
}

std::vector<Box> boxes_read(const Page& page) {
  std::vector<Box> boxes;
  std::ranges::copy_if(page.boxes, std::back_inserter(boxes), is_read);
  return boxes;
}

// All coordinates lie in 0 to 1, so they are fractions, unless they are whole numbers of a few words in the corner.
bool are_fractions(const std::vector<Box>& boxes) {
  constexpr std::size_t kManyWords = 5;
  bool broken = false;
  for (const Box& box : boxes) {
    for (const double value : box) {
      if (value < 0 || value > 1) return false;
      broken |= value != std::floor(value);
    }
  }
  return broken || boxes.size() >= kManyWords;
}

// Many boxes lie well outside the page, but none beyond 1000.
bool are_thousandths(const std::vector<Box>& boxes, const Page& page) {
  constexpr std::size_t kFewest = 3, kOneIn = 5;
  constexpr double kWellOutside = 1.1;
  std::size_t outside = 0;
  double most = 0;
  for (const Box& box : boxes) {
    if (std::ranges::any_of(box, [](double value) { return value < 0 || value > 1000; })) return false;
    const double beyond = std::max(std::max(box[0], box[2]) / page.width, std::max(box[1], box[3]) / page.height);
    outside += beyond > 1 ? 1U : 0U;
    most = std::max(most, beyond);
  }
  return outside >= kFewest && kOneIn * outside >= boxes.size() && most > kWellOutside;
}

struct Order {
  const char* name;
  Box (*read)(const Box&);
};
constexpr Order kOrders[] = {
    {"[x1, y1, x0, y0]",
     [](const Box& b) {
       return Box{b[2], b[3], b[0], b[1]};
     }},
    {"[x, y, width, height]",
     [](const Box& b) {
       return Box{b[0], b[1], b[0] + b[2], b[1] + b[3]};
     }},
    {"[x0, x1, y0, y1]",
     [](const Box& b) {
       return Box{b[0], b[2], b[1], b[3]};
     }},
    {"[y0, x0, y1, x1]",
     [](const Box& b) {
       return Box{b[1], b[0], b[3], b[2]};
     }},
    {"[y0, y1, x0, x1]",
     [](const Box& b) {
       return Box{b[2], b[0], b[3], b[1]};
     }},
};

// Returns the order of coordinates in which all boxes have ordered corners, lie on the page and are smallest, because
// text is small. Used only where many boxes are inverted or outside.
std::optional<std::string> other_order(const std::vector<Box>& boxes, const Page& page, BoxFormat format) {
  constexpr std::size_t kFewest = 3, kOneIn = 5;
  const auto wrong = static_cast<std::size_t>(
      std::ranges::count_if(boxes, [&](const Box& box) { return is_inverted(box) || !is_on_page(box, page, format); }));
  if (wrong < kFewest || kOneIn * wrong < boxes.size()) return std::nullopt;
  const Order* best = nullptr;
  double least = 0;
  for (const Order& order : kOrders) {
    double area = 0;
    const bool fits = std::ranges::all_of(boxes, [&](const Box& box) {
      const Box other = order.read(box);
      area += (other[2] - other[0]) * (other[3] - other[1]);
      return !is_inverted(other) && is_on_page(other, page, format);
    });
    if (!fits || (best != nullptr && area >= least)) continue;
    best = &order;
    least = area;
  }
  // Swapping both corners everywhere is the same as inverted boxes one by one, which can be repaired.
  if (best == nullptr || best == &kOrders[0]) return std::nullopt;
  return best->name;
}

// x and y are exchanged: nearly all words of several letters stand upright.
bool are_upright(const Page& page) {
  constexpr std::size_t kFewest = 10, kLetters = 4;
  std::size_t words = 0, upright = 0;
  for (std::size_t i = 0; i < page.boxes.size(); ++i) {
    const Box& box = page.boxes[i];
    if (!is_read(box) || page.words[i].size() < kLetters) continue;
    ++words;
    upright += std::abs(box[3] - box[1]) > 2 * std::abs(box[2] - box[0]) ? 1U : 0U;
  }
  return words >= kFewest && 10 * upright >= 9 * words;
}

// Hebrew and Arabic are meant to run from right to left.
bool is_right_to_left(const std::string& word) {
  const auto lead = static_cast<unsigned char>(word.empty() ? 0 : word[0]);
  return lead >= 0xD6 && lead <= 0xDF;
}

// Most steps within a line go left, or most steps to another line go up.
std::optional<std::string> mirrored(const Page& page) {
  constexpr int kFewest = 8;
  int left = 0, right = 0, up = 0, down = 0, foreign = 0;
  for (std::size_t i = 1; i < page.boxes.size(); ++i) {
    if (!is_read(page.boxes[i - 1]) || !is_read(page.boxes[i])) continue;
    const Box a = with_corners_ordered(page.boxes[i - 1]), b = with_corners_ordered(page.boxes[i]);
    if (a == b) continue;
    const double overlap = std::min(a[3], b[3]) - std::max(a[1], b[1]);
    if (2 * overlap > std::min(a[3] - a[1], b[3] - b[1])) {
      ++(b[0] < a[0] ? left : right);
      foreign += is_right_to_left(page.words[i]) ? 1 : 0;
    } else {
      ++(b[1] < a[1] ? up : down);
    }
  }
  if (left + right >= kFewest && 10 * left >= 9 * (left + right) && 2 * foreign < left)
    return "words from right to left";
  if (up + down >= kFewest && 10 * up >= 9 * (up + down)) return "lines from the bottom up";
  return std::nullopt;
}

void add_habit(const Page& page, BoxFormat format, const BoxReading& reading, Findings& findings) {
  const auto add = [&](std::string_view kind, Problem problem) {
    problem.where = place(page);
    findings.add(Severity::kWarning, kind, std::move(problem));
  };
  const auto expected = [&] {
    return format == BoxFormat::kPixel ? fmt::format("pixels of a page of {} x {}", page.width, page.height)
                                       : std::string("thousandths of the page");
  };
  switch (reading.habit) {
    case BoxHabit::kUsual:
      return;
    case BoxHabit::kFractions:
      return add("box-fractions", {.what = "a page's boxes look like fractions of the page, 0 to 1",
                                   .found = reading.looks_like,
                                   .allowed = expected(),
                                   .remedy = fmt::format("multiply them by {}; plimsoll check --fix OUT does that",
                                                         format == BoxFormat::kPixel ? "width and height" : "1000")});
    case BoxHabit::kThousandths:
      return add("box-thousandths", {.what = "a page's boxes look like thousandths of the page, 0 to 1000",
                                     .found = reading.looks_like,
                                     .allowed = expected(),
                                     .remedy = "pass --box-format 1000 if all pages are like this"});
    case BoxHabit::kOrder:
      return add("box-order", {.what = "a page's boxes seem to have their numbers in another order",
                               .found = "numbers that fit " + reading.looks_like,
                               .allowed = "[left, top, right, bottom]",
                               .remedy = "write boxes as [left, top, right, bottom]"});
    case BoxHabit::kConstant:
      return add("box-constant", {.what = "all words of a page have the same box",
                                  .found = reading.looks_like,
                                  .allowed = "a box for each word or segment",
                                  .remedy = "the layout is lost: get the boxes from the OCR again"});
    case BoxHabit::kMirrored:
      return add("box-mirrored", {.what = "a page's boxes look mirrored: the words run backwards",
                                  .found = reading.looks_like,
                                  .allowed = "x from the left edge, y from the top edge",
                                  .remedy = "PDFs count y from the bottom: write height - y; or sort the words into "
                                            "reading order"});
  }
}

}  // namespace

BoxReading read_boxes(const Page& page, BoxFormat format) {
  constexpr std::size_t kFewestAlike = 5;
  const std::vector<Box> boxes = boxes_read(page);
  BoxReading reading;
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    ++reading.neighbours;
    reading.shared += boxes[i] == boxes[i - 1] ? 1 : 0;
  }
  const auto is = [&](BoxHabit habit, std::string looks_like) {
    reading.habit = habit;
    reading.looks_like = std::move(looks_like);
    return reading;
  };
  if (boxes.empty()) return reading;
  if (boxes.size() >= kFewestAlike && reading.shared == reading.neighbours) {
    return is(BoxHabit::kConstant, fmt::format("{} {}", to_string(boxes[0]), counted(boxes.size(), "time")));
  }
  if (are_fractions(boxes)) return is(BoxHabit::kFractions, to_string(boxes[0]) + " and others, none beyond 1");
  if (const auto order = other_order(boxes, page, format)) return is(BoxHabit::kOrder, *order);
  if (format == BoxFormat::kPixel && are_thousandths(boxes, page)) {
    return is(BoxHabit::kThousandths, "boxes beyond the page's edge, none beyond 1000");
  }
  if (are_upright(page)) return is(BoxHabit::kOrder, "[y0, x0, y1, x1], or a rotated page");
  if (const auto direction = mirrored(page)) return is(BoxHabit::kMirrored, *direction);
  return reading;
}

void check_boxes(const Page& page, BoxFormat format, const BoxReading& reading, Findings& findings) {
  for (std::size_t word = 0; word < page.boxes.size(); ++word) {
    const Box& box = page.boxes[word];
    if (!is_read(box)) continue;
    if (!is_on_page(box, page, format)) {
      findings.add(Severity::kError, "box-outside", box_outside_problem(page, word, format));
    } else if (is_inverted(box) && reading.habit != BoxHabit::kOrder) {
      findings.add(
          Severity::kWarning, "box-inverted",
          {.what = "a box's right or bottom edge lies before its left or top edge",
           .where = place(page, word),
           .found = to_string(box),
           .allowed = "[left, top, right, bottom]",
           .remedy = "write boxes as corners, not as x, y, width, height; plimsoll check --fix OUT swaps them"});
    }
  }
  add_habit(page, format, reading, findings);
}

std::vector<BoxRepair> repair_boxes(const Page& page, BoxFormat format, const BoxReading& reading) {
  const double width = format == BoxFormat::kPixel ? page.width : 1000;
  const double height = format == BoxFormat::kPixel ? page.height : 1000;
  const bool fractions = reading.habit == BoxHabit::kFractions;
  std::vector<BoxRepair> repairs;
  if (reading.habit != BoxHabit::kUsual && !fractions) return repairs;
  for (std::size_t word = 0; word < page.boxes.size(); ++word) {
    if (!is_read(page.boxes[word])) continue;
    BoxRepair repair{.word = word, .from = page.boxes[word], .to = page.boxes[word]};
    const auto mended = [&](const char* kind, const Box& box) {
      repair.kinds += (repair.kinds.empty() ? "" : ", ") + std::string(kind);
      repair.to = box;
    };
    if (fractions) {
      Box box = repair.to;
      // No box is measured more finely than a thousandth of a pixel.
      for (std::size_t i = 0; i < 4; ++i) box[i] = std::round(box[i] * (i % 2 == 0 ? width : height) * 1000) / 1000;
      mended("box-fractions", box);
    }
    if (is_inverted(repair.to)) mended("box-inverted", with_corners_ordered(repair.to));
    if (!is_on_page(repair.to, page, format)) {
      Box box = repair.to;
      bool near = true;
      for (std::size_t i = 0; i < 4; ++i) {
        box[i] = std::clamp(box[i], 0.0, i % 2 == 0 ? width : height);
        near &= std::abs(box[i] - repair.to[i]) <= 1;
      }
      if (near) mended("box-outside", box);
    }
    // A box that would still be wrong is not repaired at all.
    if (!repair.kinds.empty() && is_on_page(repair.to, page, format)) repairs.push_back(repair);
  }
  return repairs;
}

}  // namespace plimsoll
