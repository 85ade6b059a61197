// The look of one form: its fonts, and the habits that all of its blocks follow.
//
// A habit is the page's, not a block's, so that a reader who has understood one block of a page can read the others.
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
  bool codes = false;              // a number of no meaning stands between a question and its answer
  bool answers_close = false;      // an answer begins where its question ends, not at the column's own edge
  bool answers_left = false;       // answers stand left of their questions
  bool captions_below = false;     // a cell's caption stands below its answer
  bool marks_right = false;        // a check box stands right of its text
  double empty_share = 0.15;       // questions that nobody has answered
  std::size_t most_entities = 50;  // the foot has its own above this
};
FormLook pick_look(PageRandom& random);

}  // namespace plimsoll::draw
