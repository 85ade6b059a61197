// The text of a form: its questions and answers, titles and small print.
//
// Questions and answers are composed of parts, and many questions ask for the same kind of answer, so that a page has
// several dates, names or amounts: which question an answer belongs to is shown by its position, not by its text.
//
//   const FormVoice voice = pick_voice(random);
//   const std::string question = question_text(random, AnswerKind::kDate);
//   const std::vector<std::string> answer = answer_lines(random, AnswerKind::kDate, voice);
#pragma once

#include <string>
#include <vector>

#include "draw/facts.h"
#include "draw/random.h"

namespace plimsoll::draw {

enum class AnswerKind {
  kPerson,
  kOrganisation,
  kAddress,
  kPlace,
  kPhone,
  kDate,
  kTime,
  kCode,
  kAmount,
  kQuantity,
  kPercent,
  kChoice,
  kRemark
};
inline constexpr std::uint32_t kAnswerKinds = 13;

// How the person who filled in a page writes.
struct FormVoice {
  Region region = Region::kUnitedStates;
  MoneyStyle money{};
  int date_form = 0;        // see date_text
  bool upper_case = false;  // answers in block letters
};
FormVoice pick_voice(PageRandom& random);

AnswerKind pick_answer_kind(PageRandom& random);
// Returns a question without a colon, such as "Date of birth".
std::string question_text(PageRandom& random, AnswerKind kind);
// Returns the head of a table's column, in one or two words.
std::string column_title(PageRandom& random, AnswerKind kind);
// Returns one printed line, or several for an address.
std::vector<std::string> answer_lines(PageRandom& random, AnswerKind kind, const FormVoice& voice);
// Returns the small print about an answer's form, such as "(dd/mm/yyyy)".
std::string hint_text(PageRandom& random, AnswerKind kind);

std::string form_title(PageRandom& random);
std::string section_title(PageRandom& random);
// Returns a sentence for the person who fills in the form.
std::string instruction(PageRandom& random);
// Returns the form's number, such as "Form 204-B (rev. 3/98)".
std::string form_number(PageRandom& random);

// A caption and the boxes below it, some of which are ticked.
struct CheckGroup {
  std::string caption{};
  std::vector<std::string> options{};
};
CheckGroup check_group(PageRandom& random);

}  // namespace plimsoll::draw
