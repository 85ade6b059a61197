#include "draw/form_sheet.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace plimsoll::draw {

int FormSheet::new_block() { return joined_ ? blocks_ : ++blocks_; }

void FormSheet::join_blocks(bool joined) {
  if (joined) ++blocks_;
  joined_ = joined;
}

Placed FormSheet::put(int block, EntityKind kind, const std::vector<std::string>& lines, const Area& area,
                      const Style& style, Align align) {
  Entity entity{kind, block, area.right, 0, {}};
  Placed placed{entities_.size(), area.left, area.y};
  const double x = align == Align::kLeft     ? area.left
                   : align == Align::kCenter ? (area.left + area.right) / 2
                                             : area.right;
  for (const std::string& text : lines) {
    for (const Runs& part : break_lines(sheet_, {{text}}, style, area.width())) {
      const double natural = sheet_.text_width(part, style);
      const Style fitted = natural > area.width() ? style.with_size(style.size * area.width() / natural * 0.99) : style;
      const double width = sheet_.text_width(part, fitted);
      const double left = align == Align::kLeft ? x : align == Align::kCenter ? x - width / 2 : x - width;
      entity.lines.push_back({x, placed.bottom + 0.95 * style.size, part, fitted, align});
      entity.x = std::min(entity.x, left);
      placed.right = std::max(placed.right, left + width);
      placed.bottom += line_height(style);
    }
  }
  check(!entity.lines.empty(), "an entity of a form has words");
  entity.baseline = entity.lines.front().baseline;
  entities_.push_back(std::move(entity));
  return placed;
}

std::vector<std::size_t> FormSheet::reading_order() const {
  std::vector<std::size_t> order(entities_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto by = [&](auto key) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  };
  by([&](std::size_t i) { return std::tuple(entities_[i].block, entities_[i].baseline); });
  // Entities whose first lines are nearly level are on one line, although they may differ in size.
  std::vector<int> lines(entities_.size());
  int line = -1, block = -1;
  double level = 0;
  for (const std::size_t i : order) {
    const Entity& entity = entities_[i];
    if (entity.block != block || entity.baseline > level + 0.5 * entity.lines.front().style.size) {
      ++line;
      block = entity.block;
      level = entity.baseline;
    }
    lines[i] = line;
  }
  by([&](std::size_t i) { return std::tuple(lines[i], entities_[i].x); });
  return order;
}

FilledForm FormSheet::finish(double height) && {
  FilledForm form{.sheet = std::move(sheet_)};
  std::vector<std::size_t> place(entities_.size());
  for (const std::size_t i : reading_order()) {
    place[i] = form.entities.size();
    for (Line& line : entities_[i].lines) {
      for (Run& run : line.runs) run.entity = static_cast<int>(place[i]);
      form.sheet.text(line.x, line.baseline, line.runs, line.style, line.align);
    }
    form.entities.push_back(entities_[i].kind);
  }
  for (const auto& [from, to] : links_) form.links.push_back({place[from], place[to]});
  std::sort(form.links.begin(), form.links.end());
  form.sheet.set_height(height);
  return form;
}

}  // namespace plimsoll::draw
