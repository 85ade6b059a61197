// The questions of a page and their answers, as spans of words.
#pragma once

#include <string>
#include <vector>

#include "data/targets.h"

namespace plimsoll {

// Words [begin, end) of the page; `text` is as in the data, or else these words.
struct Answer {
  std::string text;
  std::size_t begin = 0, end = 0;  // the same: the text is not among the page's words

  bool is_placed() const { return end > begin; }
};

struct Question {
  std::string id;  // if the data gives none, the page's id and a number
  std::string text;
  // Empty: the page has no answer, or, if `answered` is false, it is unknown.
  std::vector<Answer> answers{};
  bool answered = false;
  bool unread = false;  // some answers could not be read, which is reported as a fault

  // Returns the answer that windows are trained towards: the first that has a place; nullptr if none has.
  const Answer* trained() const;
};

// `questions` of a page: [{"id", "question", "answers": [{"text", "start_word", "end_word"}]}]; end_word is exclusive.
// Windows are trained towards the span of words; predictions are scored against `text`. An answer without a span, or a
// text in its place, as in DocVQA, gets the first words that say it, or those nearest to SQuAD's `answer_start`.
struct PageQuestions final : PageTarget {
  std::vector<Question> questions;

  std::size_t size() const override { return questions.size(); }
  std::size_t positives() const override;
  std::string asked() const override;
};
// Returns nullptr if the page has none.
const PageQuestions* questions_of(const Page& page);

const TargetReader& question_reader();

// Returns the words' text, separated by spaces.
std::string text_of(const Page& page, std::size_t begin, std::size_t end);

}  // namespace plimsoll
