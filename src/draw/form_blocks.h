// The blocks that a form is made of, each with questions and answers in its own arrangement.
//
// Positions show what belongs together: answers are beside, below or above their questions or in a table below a
// column's head; some questions have no answer and some have two. Every block puts itself below the `y` of its area,
// links its questions to `header`, if there is one, and returns the y below itself.
//
//   FormBlocks blocks(form, look, voice, text_random, look_random);
//   const Placed header = blocks.header(area);
//   double y = blocks.fields({.left = area.left, .right = area.right, .y = header.bottom}, header);
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "draw/form_look.h"
#include "draw/form_sheet.h"
#include "draw/form_text.h"
#include "draw/random.h"

namespace plimsoll::draw {

using Header = std::optional<Placed>;

class FormBlocks {
 public:
  FormBlocks(FormSheet& form, const FormLook& look, const FormVoice& voice, PageRandom& text, PageRandom& random)
      : form_(&form), look_(&look), voice_(voice), text_(&text), random_(&random) {}

  Placed header(const Area& area);
  // Puts questions below each other in one or two columns, with their answers beside them.
  double fields(const Area& area, const Header& header);
  // Puts rows of cells, each with a caption and an answer above each other.
  double cells(const Area& area, const Header& header);
  // Puts a table: the head of a column (or, if `turned`, the first cell of a row) is the question that each of its
  // cells answers.
  double table(const Area& area, const Header& header, bool turned);
  // Puts a caption, which is the options' header, and options with a typed mark in their boxes.
  double check_boxes(const Area& area);
  // Puts lines to sign on, with their captions below.
  double signatures(const Area& area);
  double paragraph(const Area& area);
  // Puts a date, name or number in small type that answers no question.
  double note(const Area& area);
  // Puts a name and an address that answer no question.
  double recipient(const Area& area);

 private:
  struct Entry {
    AnswerKind kind = AnswerKind::kPerson;
    std::string question{}, hint{};                   // the hint is usually empty
    std::vector<std::vector<std::string>> answers{};  // none, one or two
  };
  // The order in which a reader reads a block that has columns.
  enum class Order { kRows, kColumns, kCaptionsFirst };

  bool full(std::size_t more) const { return form_->size() + more > look_->most_entities; }
  std::string numbered(const std::string& question);
  Entry entry(bool short_answer);
  Placed question(int block, const std::string& text, const Area& area, const Header& header, Align align);
  void answer_line(double left, double right, double y);
  double field(int captions, int answers, const Entry& entry, const Area& area, double split, const Header& header);

  FormSheet* form_;
  const FormLook* look_;
  FormVoice voice_;
  PageRandom* text_;
  PageRandom* random_;
  int questions_ = 0, headers_ = 0, codes_ = 100;
};

}  // namespace plimsoll::draw
