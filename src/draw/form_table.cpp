// Tables of a form: a column's head, or a row's first cell, is the question that several cells answer.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "draw/form_blocks.h"

namespace plimsoll::draw {
namespace {

bool is_number(AnswerKind kind) {
  return kind == AnswerKind::kAmount || kind == AnswerKind::kQuantity || kind == AnswerKind::kPercent;
}

// Returns kinds of answers that fit into a narrow cell.
AnswerKind pick_cell_kind(PageRandom& random) {
  constexpr std::array<AnswerKind, 9> kKinds = {AnswerKind::kPerson, AnswerKind::kPlace,    AnswerKind::kDate,
                                                AnswerKind::kTime,   AnswerKind::kCode,     AnswerKind::kAmount,
                                                AnswerKind::kAmount, AnswerKind::kQuantity, AnswerKind::kChoice};
  return random.pick(kKinds);
}

}  // namespace

double FormBlocks::table(const Area& area, const Header& header, bool turned) {
  const std::size_t room = look_->most_entities - std::min(look_->most_entities, form_->size());
  const int columns = std::clamp(static_cast<int>(area.width() / 105), 2, random_->between(3, 5));
  const int rows = std::min(random_->between(3, 6), static_cast<int>(room) / columns);
  if (rows < 2) return area.y;
  const bool grid = random_->chance(0.5), bar = !turned && random_->chance(0.3), by_column = random_->chance(0.3);
  const bool row_numbers = !turned && room > static_cast<std::size_t>((columns + 1) * rows) && random_->chance(0.25);
  const bool centred = random_->chance(0.2);
  // The last rows are often left blank.
  const int blank_rows = rows > 3 && !turned && random_->chance(0.35) ? random_->between(1, 2) : 0;

  const double left = area.left + (row_numbers ? 2.2 * look_->body.size : 0);
  std::vector<double> edges = {left};
  for (int c = 0; c < columns; ++c) {
    const double rest = (area.right - edges.back()) / (columns - c);
    edges.push_back(c + 1 == columns ? area.right : edges.back() + rest * random_->uniform(0.85, 1.2));
  }
  std::vector<int> blocks;
  for (int c = 0; c < columns; ++c) blocks.push_back(c == 0 || by_column ? form_->new_block() : blocks.front());
  std::vector<AnswerKind> kinds;  // of each column, or of each row of a turned table
  for (int i = 0; i < (turned ? rows : columns); ++i) kinds.push_back(pick_cell_kind(*text_));

  Sheet& sheet = form_->sheet();
  std::vector<Placed> questions;  // one for each kind
  double y = area.y;
  sheet.rule(area.left, y, area.right, y, 1);
  for (int r = 0; r < rows; ++r) {
    const double row_top = y;
    double bottom = y + 3 + FormSheet::line_height(look_->answer);
    if (row_numbers && r > 0) {
      bottom = std::max(bottom, form_
                                    ->put(blocks.front(), EntityKind::kOther, {fmt::format("{}", r)},
                                          {.left = area.left + 2, .right = left - 2, .y = y + 3}, look_->small)
                                    .bottom);
    }
    for (int c = 0; c < columns; ++c) {
      const auto column = static_cast<std::size_t>(c);
      const Area inside{edges[column] + kCellPad, edges[column + 1] - kCellPad, y + 3};
      const auto asking = static_cast<std::size_t>(turned ? r : c);
      const AnswerKind kind = kinds[asking];
      const Align align = centred ? Align::kCenter : is_number(kind) && !turned ? Align::kRight : Align::kLeft;
      if (turned ? c == 0 : r == 0) {
        const std::string text =
            turned ? numbered(question_text(*text_, kind)) : look_->caption.plain(column_title(*text_, kind));
        const Style style = bar ? look_->question.with_inverted() : look_->question;
        questions.push_back(
            form_->put(blocks[column], EntityKind::kQuestion, {text}, inside, style, turned ? Align::kLeft : align));
        if (header) form_->link(*header, questions.back());
        bottom = std::max(bottom, questions.back().bottom);
        continue;
      }
      if (r >= rows - blank_rows || text_->chance(look_->empty_share)) continue;
      const Placed answer = form_->put(blocks[column], EntityKind::kAnswer, answer_lines(*text_, kind, voice_), inside,
                                       look_->answer, align);
      form_->link(questions[asking], answer);
      bottom = std::max(bottom, answer.bottom);
    }
    y = bottom + 2;
    if (bar && r == 0) sheet.fill(area.left, row_top, area.right, y);
    if (grid || r == 0) sheet.rule(area.left, y, area.right, y, grid ? 0.8 : 1);
  }
  if (!grid) sheet.rule(area.left, y, area.right, y, 1);
  if (grid) {
    sheet.rule(area.left, area.y, area.left, y, 0.8);
    for (const double edge : edges) sheet.rule(edge, area.y, edge, y, 0.8);
  }
  return y + 4 + look_->row_gap;
}

}  // namespace plimsoll::draw
