// A form in the making: entities at their places on a sheet, the links between them, and the order they are read in.
//
// Invariants: the words of one entity are put on the sheet one after the other; a link leads from a header to a
// question or from a question to an answer. Entities are read block by block, and within a block line by line from left
// to right: a block is a part of the page that a reader reads as one piece, such as a column.
//
//   FormSheet form(fonts, 640);
//   const int block = form.new_block();
//   const auto question = form.put(block, EntityKind::kQuestion, {"Date:"}, {.left = 40, .right = 120, .y = 60},
//   style); const auto answer = form.put(block, EntityKind::kAnswer, {"3/4/98"}, {.left = 130, .right = 220, .y = 60},
//   style); form.link(question, answer); const FilledForm filled = std::move(form).finish(905);
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "draw/column.h"
#include "draw/fonts.h"
#include "draw/sheet.h"

namespace plimsoll::draw {

enum class EntityKind { kHeader, kQuestion, kAnswer, kOther };

struct FilledForm {
  Sheet sheet;
  std::vector<EntityKind> entities{};               // in the order of their words
  std::vector<std::array<std::size_t, 2>> links{};  // from, to: indices into `entities`, in ascending order
};

// Where text may be put: from `left` to `right`, its first line below `y`.
struct Area {
  double left = 0, right = 0, y = 0;
  double width() const { return right - left; }
};

// An entity that has been put on the sheet.
struct Placed {
  std::size_t entity = 0;
  double right = 0, bottom = 0;  // the end of its longest line, and the top of what may follow below
};

class FormSheet {
 public:
  FormSheet(const FontSet& fonts, double width) : sheet_(fonts, width) {}

  // Shapes are put on the sheet itself; its words come from `put` alone.
  Sheet& sheet() { return sheet_; }
  std::size_t size() const { return entities_.size(); }

  // Returns the number of a block that is read after all earlier ones. Between join_blocks(true) and
  // join_blocks(false) it is the same block: blocks side by side are read across.
  int new_block();
  void join_blocks(bool joined);

  // Puts one entity. A line that is too wide is broken between words; a single word is set smaller.
  Placed put(int block, EntityKind kind, const std::vector<std::string>& lines, const Area& area, const Style& style,
             Align align = Align::kLeft);
  void link(const Placed& from, const Placed& to) { links_.push_back({from.entity, to.entity}); }

  FilledForm finish(double height) &&;

  static double line_height(const Style& style) { return 1.28 * style.size; }

 private:
  struct Line {
    double x, baseline;
    Runs runs;
    Style style;
    Align align;
  };
  struct Entity {
    EntityKind kind;
    int block;
    double x, baseline;  // where its first line begins
    std::vector<Line> lines;
  };

  std::vector<std::size_t> reading_order() const;

  Sheet sheet_;
  std::vector<Entity> entities_;
  std::vector<std::array<std::size_t, 2>> links_;
  int blocks_ = 0;
  bool joined_ = false;
};

}  // namespace plimsoll::draw
