#include "draw/form_look.h"

#include <array>
#include <string_view>

namespace plimsoll::draw {

FormLook pick_look(PageRandom& random) {
  constexpr auto kColons = std::to_array<std::string_view>({"", "", ":", ":"});
  FormLook look;
  look.body.family = pick_family(random, false);
  look.body.size = random.between(21, 25) * 0.5;
  look.small = look.body.with_size(look.body.size * random.uniform(0.78, 0.88));
  look.question = look.body.with_bold(random.chance(0.25));
  look.answer = look.body;
  // Most forms are printed in one font and filled in by typewriter or printer in another.
  if (random.chance(0.6)) {
    look.answer.family = random.chance(0.6) ? FontFamily::kLiberationMono : pick_family(random, random.chance(0.5));
    look.answer.size *= random.uniform(0.92, 1.05);
  }
  look.caption = {.upper = random.chance(0.25), .colon = pick(random, kColons)};
  look.header = look.body.with_bold().with_size(look.body.size * random.uniform(1.0, 1.2));
  look.header_shape = static_cast<FormLook::HeaderShape>(random.below(4));
  look.answer_line = static_cast<FormLook::AnswerLine>(random.below(3));
  look.row_gap = random.uniform(3, random.chance(0.5) ? 8 : 16);
  look.numbered = random.chance(0.2);
  look.codes = !look.numbered && random.chance(0.15);
  look.answers_close = random.chance(0.25);
  look.answers_left = random.chance(0.12);
  look.captions_below = random.chance(0.25);
  look.marks_right = random.chance(0.4);
  look.empty_share = random.uniform(0, 0.35);
  return look;
}

}  // namespace plimsoll::draw
