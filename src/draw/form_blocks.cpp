#include "draw/form_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "draw/names.h"

namespace plimsoll::draw {
std::string FormBlocks::numbered(const std::string& question) {
  const std::string caption = look_->caption(question);
  return look_->numbered ? fmt::format("{}. {}", ++questions_, caption) : caption;
}

FormBlocks::Entry FormBlocks::entry(bool short_answer) {
  const auto is_long = [](AnswerKind kind) {
    return kind == AnswerKind::kAddress || kind == AnswerKind::kOrganisation || kind == AnswerKind::kRemark;
  };
  Entry entry{.kind = pick_answer_kind(*text_)};
  while (short_answer && is_long(entry.kind)) entry.kind = pick_answer_kind(*text_);
  entry.question = question_text(*text_, entry.kind);
  if (text_->chance(0.08)) entry.hint = hint_text(*text_, entry.kind);
  const int answers = text_->chance(look_->empty_share) ? 0 : text_->chance(0.1) && !is_long(entry.kind) ? 2 : 1;
  for (int i = 0; i < answers; ++i) entry.answers.push_back(answer_lines(*text_, entry.kind, voice_));
  return entry;
}

Placed FormBlocks::header(const Area& area) {
  constexpr auto kNumbers = std::to_array<std::string_view>({"I.", "II.", "III.", "IV.", "V.", "VI.", "VII.", "VIII."});
  std::string title = look_->caption.plain(section_title(*text_));
  const auto number = static_cast<std::size_t>(headers_++);
  if (look_->numbered && number < kNumbers.size()) title = words({std::string(kNumbers[number]), title});
  const FormLook::HeaderShape shape = look_->header_shape;
  const bool bar = shape == FormLook::HeaderShape::kBar, framed = shape == FormLook::HeaderShape::kFramed;
  const double inset = bar || framed ? kCellPad : 0, above = bar || framed ? 3 : 0;
  Placed placed = form_->put(form_->new_block(), EntityKind::kHeader, {title},
                             {.left = area.left + inset, .right = area.right - inset, .y = area.y + above},
                             bar ? look_->header.with_inverted() : look_->header);
  Sheet& sheet = form_->sheet();
  if (bar) sheet.fill(area.left, area.y, area.right, placed.bottom + 2);
  if (framed) sheet.frame(area.left, area.y, area.right, placed.bottom + 2, 1);
  if (shape == FormLook::HeaderShape::kRuleBelow) sheet.rule(area.left, placed.bottom, area.right, placed.bottom, 1.2);
  placed.bottom += bar || framed ? 8 : 4;
  return placed;
}

Placed FormBlocks::question(int block, const std::string& text, const Area& area, const Header& header, Align align) {
  const Placed placed = form_->put(block, EntityKind::kQuestion, {text}, area, look_->question, align);
  if (header) form_->link(*header, placed);
  return placed;
}

void FormBlocks::answer_line(double left, double right, double y) {
  if (look_->answer_line == FormLook::AnswerLine::kNone) return;
  form_->sheet().rule(left, y, right, y, 0.8, look_->answer_line == FormLook::AnswerLine::kDashes);
}

double FormBlocks::field(int captions, int answers, const Entry& entry, const Area& area, double split,
                         const Header& header) {
  Area caption{area.left, area.left + split - 8, area.y}, value{area.left + split, area.right, area.y};
  if (look_->answers_left) {
    value = {area.left, area.right - split - 8, area.y};
    caption = {area.right - split, area.right, area.y};
  }
  if (look_->codes) {
    // Tax forms print such a number between a question and its answer.
    const double code_width = 2.4 * look_->small.size;
    caption.right -= code_width + 4;
    form_->put(captions, EntityKind::kOther, {fmt::format("{}", ++codes_)},
               {.left = caption.right + 4, .right = caption.right + 4 + code_width, .y = area.y}, look_->small,
               Align::kRight);
  }
  const Placed asked = question(captions, numbered(entry.question), caption, header, Align::kLeft);
  double bottom = asked.bottom;
  if (!entry.hint.empty()) {
    caption.y = bottom - 2;
    bottom = form_->put(captions, EntityKind::kOther, {entry.hint}, caption, look_->small).bottom;
  } else if (look_->answers_close && !look_->answers_left && !look_->codes) {
    value.left = std::min(asked.right + 9, value.left);
  }
  const double line = FormSheet::line_height(look_->answer);
  if (entry.answers.empty()) {
    answer_line(value.left, value.right, value.y + line);
    return std::max(bottom, value.y + line) + look_->row_gap;
  }
  // Two answers are side by side, or one below the other.
  const bool beside = entry.answers.size() == 2 && value.width() > 190 && random_->chance(0.5);
  Area slot = value;
  for (std::size_t i = 0; i < entry.answers.size(); ++i) {
    if (beside) {
      const double half = (value.width() - 14) / 2;
      slot.left = i == 0 ? value.left : value.right - half;
      slot.right = slot.left + half;
    }
    const Placed answered = form_->put(answers, EntityKind::kAnswer, entry.answers[i], slot, look_->answer);
    form_->link(asked, answered);
    answer_line(slot.left, slot.right, answered.bottom);
    bottom = std::max(bottom, answered.bottom);
    if (!beside) slot.y = answered.bottom + 4;
  }
  return bottom + look_->row_gap;
}

double FormBlocks::fields(const Area& area, const Header& header) {
  const int columns = area.width() > 400 && random_->chance(0.6) ? 2 : 1;
  const int rows = columns == 2 ? random_->between(2, 5) : random_->between(3, 6);
  const double width = (area.width() - (columns - 1) * kColumnGap) / columns;
  const double split = width * random_->uniform(columns == 1 && width > 400 ? 0.25 : 0.36, 0.48);
  const double choice = random_->uniform();
  const Order order = choice < 0.4 ? Order::kRows : choice < 0.65 ? Order::kColumns : Order::kCaptionsFirst;

  struct Blocks {
    int captions, answers;
    double y;
  };
  std::vector<Blocks> blocks;
  for (int c = 0; c < columns; ++c) {
    if (order == Order::kRows && c > 0) {
      blocks.push_back(blocks.front());
      continue;
    }
    const int first = form_->new_block(), second = order == Order::kCaptionsFirst ? form_->new_block() : first;
    blocks.push_back(look_->answers_left ? Blocks{second, first, area.y} : Blocks{first, second, area.y});
  }
  const auto lowest = [&] {
    double y = area.y;
    for (const Blocks& column : blocks) y = std::max(y, column.y);
    return y;
  };
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns && !full(4); ++c) {
      Blocks& column = blocks[static_cast<std::size_t>(c)];
      const double left = area.left + c * (width + kColumnGap);
      column.y = field(column.captions, column.answers, entry(width < 240),
                       {.left = left, .right = left + width, .y = column.y}, split, header);
    }
    if (order != Order::kRows) continue;
    for (Blocks& column : blocks) column.y = lowest();
  }
  return lowest();
}

double FormBlocks::cells(const Area& area, const Header& header) {
  const bool framed = random_->chance(0.6), cell_by_cell = random_->chance(0.25);
  const int rows = random_->between(area.width() > 400 ? 1 : 2, 4);
  const int most_columns = std::clamp(static_cast<int>(area.width() / 125), 1, 4);
  const int shared_block = form_->new_block();
  Sheet& sheet = form_->sheet();
  double y = area.y;
  for (int r = 0; r < rows; ++r) {
    const int columns = random_->between(std::min(2, most_columns), most_columns);
    if (full(2 * static_cast<std::size_t>(columns))) break;
    std::vector<double> edges = {area.left};
    for (int c = 0; c < columns; ++c) {
      const double rest = (area.right - edges.back()) / (columns - c);
      edges.push_back(c + 1 == columns ? area.right : edges.back() + rest * random_->uniform(0.85, 1.15));
    }
    struct CellPlan {
      Area inside;
      Entry entry;
      int block;
    };
    std::vector<CellPlan> plans;
    for (std::size_t c = 0; c + 1 < edges.size(); ++c) {
      const Area inside{edges[c] + (framed ? kCellPad : 0), edges[c + 1] - (framed ? kCellPad : 10), y + 3};
      plans.push_back({inside, entry(inside.width() < 190), cell_by_cell ? form_->new_block() : shared_block});
      // One line is kept free for one answer.
      if (plans.back().entry.answers.size() > 1) plans.back().entry.answers.pop_back();
    }
    std::vector<Placed> questions;
    const auto put_questions = [&](double top) {
      double bottom = top;
      for (CellPlan& plan : plans) {
        plan.inside.y = top;
        const Style style = look_->small.with_bold(look_->question.bold);
        questions.push_back(
            form_->put(plan.block, EntityKind::kQuestion, {numbered(plan.entry.question)}, plan.inside, style));
        if (header) form_->link(*header, questions.back());
        bottom = std::max(bottom, questions.back().bottom);
      }
      return bottom;
    };
    std::vector<std::pair<std::size_t, Placed>> answers;
    const auto put_answers = [&](double top) {
      double bottom = top + FormSheet::line_height(look_->answer);
      for (std::size_t c = 0; c < plans.size(); ++c) {
        plans[c].inside.y = top;
        for (const auto& lines : plans[c].entry.answers) {
          answers.emplace_back(c,
                               form_->put(plans[c].block, EntityKind::kAnswer, lines, plans[c].inside, look_->answer));
          bottom = std::max(bottom, answers.back().second.bottom);
        }
      }
      return bottom;
    };
    double bottom = y;
    if (look_->captions_below) {
      const double line = put_answers(y + 3);
      for (const CellPlan& plan : plans) {
        if (!framed) sheet.rule(plan.inside.left, line, plan.inside.right, line, 0.8);
      }
      bottom = put_questions(line + 1) + (framed ? 2 : 6);
    } else {
      bottom = put_answers(put_questions(y + 3)) + 2;
      for (const CellPlan& plan : plans) {
        if (!framed) sheet.rule(plan.inside.left, bottom, plan.inside.right, bottom, 0.8);
      }
      if (!framed) bottom += 5;
    }
    for (const auto& [cell, answer] : answers) form_->link(questions[cell], answer);
    for (std::size_t c = 0; framed && c + 1 < edges.size(); ++c) sheet.frame(edges[c], y, edges[c + 1], bottom, 0.9);
    y = bottom;
  }
  return y + 4;
}

}  // namespace plimsoll::draw
