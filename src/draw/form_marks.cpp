// What is between a form's fields: check boxes, lines to sign on, text that answers nothing.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "draw/form_blocks.h"
#include "draw/names.h"

namespace plimsoll::draw {

double FormBlocks::check_boxes(const Area& area) {
  const CheckGroup group = check_group(*text_);
  if (full(1 + 2 * group.options.size())) return area.y;
  const int block = form_->new_block();
  const Style& style = look_->body;
  const Placed caption =
      form_->put(block, EntityKind::kHeader, {look_->caption(group.caption)}, area, look_->question.with_bold());
  const double box = style.size * 0.95, line = FormSheet::line_height(style) + 4;
  const bool stacked = random_->chance(0.25), beside = !stacked && caption.right < area.left + 0.3 * area.width();
  const double left = beside ? caption.right + 20 : area.left + 14, spacing = random_->uniform(14, 26);
  double x = left, y = beside ? area.y : caption.bottom + 2;
  std::vector<bool> ticked(group.options.size());
  const auto any = [&] { return text_->below(static_cast<std::uint32_t>(ticked.size())); };
  if (!text_->chance(look_->empty_share)) ticked[any()] = true;
  if (text_->chance(0.15)) ticked[any()] = true;
  const std::string mark = text_->chance(0.7) ? "X" : "x";
  Sheet& sheet = form_->sheet();
  for (std::size_t i = 0; i < group.options.size(); ++i) {
    const double width = sheet.text_width(group.options[i], style);
    if (i > 0 && (stacked || x + width + box + 8 > area.right)) {
      x = left;
      y += line;
    }
    const double box_x = look_->marks_right ? x + width + 6 : x, text_x = look_->marks_right ? x : x + box + 6;
    sheet.frame(box_x, y + 0.13 * style.size, box_x + box, y + 0.13 * style.size + box, 1);
    const Placed option = form_->put(block, EntityKind::kQuestion, {group.options[i]},
                                     {.left = text_x, .right = text_x + width + 1, .y = y}, style);
    form_->link(caption, option);
    if (ticked[i]) {
      const Placed tick = form_->put(block, EntityKind::kAnswer, {mark}, {.left = box_x, .right = box_x + box, .y = y},
                                     look_->answer.with_size(style.size * 0.95), Align::kCenter);
      form_->link(option, tick);
    }
    x += width + box + 6 + spacing;
  }
  return y + line + look_->row_gap;
}

double FormBlocks::signatures(const Area& area) {
  constexpr auto kCaptions =
      std::to_array<std::string_view>({"Signature", "Authorised signature", "Signature of applicant", "Approved by",
                                       "Print name", "Witness", "For the company"});
  const int slots = random_->between(2, 3), block = form_->new_block();
  const double width = (area.width() - (slots - 1) * kColumnGap) / slots;
  const double line = area.y + 14 + FormSheet::line_height(look_->answer);
  double bottom = line;
  for (int i = 0; i < slots; ++i) {
    const double left = area.left + i * (width + kColumnGap);
    const bool date = i > 0 && random_->chance(0.5);
    form_->sheet().rule(left, line, left + width, line, 1);
    const std::string caption = date ? question_text(*text_, AnswerKind::kDate) : pick(*text_, kCaptions);
    const Placed asked = form_->put(block, EntityKind::kQuestion, {look_->caption.plain(caption)},
                                    {.left = left, .right = left + width, .y = line + 2}, look_->small);
    bottom = std::max(bottom, asked.bottom);
    if (text_->chance(look_->empty_share)) continue;
    if (!date && random_->chance(0.4)) {
      draw_signature(form_->sheet(), left + 12, line - 6, width * 0.7, *random_);
      continue;
    }
    const std::vector<std::string> lines = answer_lines(*text_, date ? AnswerKind::kDate : AnswerKind::kPerson, voice_);
    form_->link(asked, form_->put(block, EntityKind::kAnswer, lines,
                                  {.left = left, .right = left + width, .y = area.y + 12}, look_->answer));
  }
  return bottom + look_->row_gap;
}

double FormBlocks::paragraph(const Area& area) {
  std::string text = instruction(*text_);
  for (int more = random_->between(0, 2); more > 0; --more) {
    const std::string sentence = instruction(*text_);
    if (text.find(sentence) == std::string::npos) text = words({text, sentence});
  }
  const double right = area.left + area.width() * random_->uniform(0.6, 1.0);
  const Style style = random_->chance(0.5) ? look_->small : look_->body;
  return form_
      ->put(form_->new_block(), EntityKind::kOther, {text}, {.left = area.left, .right = right, .y = area.y}, style)
      .bottom;
}

double FormBlocks::note(const Area& area) {
  constexpr auto kKinds = std::to_array<AnswerKind>(
      {AnswerKind::kDate, AnswerKind::kPerson, AnswerKind::kCode, AnswerKind::kAmount, AnswerKind::kPhone});
  constexpr auto kOpenings = std::to_array<std::string_view>({"", "cc:", "OK", "see", "copy", "checked", "old:", "re"});
  const std::string opening = pick(*text_, kOpenings);
  const std::string text = words({opening, answer_lines(*text_, text_->pick(kKinds), voice_).front()});
  return form_
      ->put(form_->new_block(), EntityKind::kOther, {text}, area, look_->small,
            random_->chance(0.5) ? Align::kRight : Align::kCenter)
      .bottom;
}

double FormBlocks::recipient(const Area& area) {
  const int block = form_->new_block();
  const std::vector<std::string> name = answer_lines(*text_, AnswerKind::kOrganisation, voice_);
  const std::vector<std::string> address = answer_lines(*text_, AnswerKind::kAddress, voice_);
  const Placed first = form_->put(block, EntityKind::kAnswer, name, area, look_->answer);
  Area below = area;
  below.y = first.bottom;
  return form_->put(block, EntityKind::kAnswer, address, below, look_->answer).bottom;
}

}  // namespace plimsoll::draw
