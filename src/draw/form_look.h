// The look of one form: its fonts, and the habits that all of its blocks follow.
//
// Habits apply to a whole page, not to a block, so that a reader who has understood one block of a page can read the
// others.
//
//   const FormLook look = pick_look(random);
//   const Placed asked = form.put(block, EntityKind::kQuestion, {look.caption("Date")}, area, look.question);
#pragma once

#include <cstddef>

#include "draw/layouts.h"
#include "draw/random.h"
#include "draw/sheet.h"

namespace plimsoll::draw {

inline constexpr double kCellPad = 5, kColumnGap = 22;  // pixels

struct FormLook {
  Style body{}, question{}, answer{}, header{}, small{};
  CaptionTaste caption{};
  double row_gap = 6;
  enum class AnswerLine { kNone, kRule, kDashes } answer_line = AnswerLine::kRule;
  enum class HeaderShape { kPlain, kBar, kRuleBelow, kFramed } header_shape = HeaderShape::kPlain;
  bool numbered = false;           // questions and headers have numbers
  bool codes = false;              // a meaningless number is between a question and its answer
  bool answers_close = false;      // an answer begins where its question ends, not at the column's own edge
  bool answers_left = false;       // answers are left of their questions
  bool captions_below = false;     // a cell's caption is below its answer
  bool marks_right = false;        // a check box is right of its text
  double empty_share = 0.15;       // share of questions without an answer
  std::size_t most_entities = 50;  // blocks with entities are left out at the foot above this
};
FormLook pick_look(PageRandom& random);

}  // namespace plimsoll::draw
