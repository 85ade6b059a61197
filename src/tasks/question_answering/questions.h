// The questions of a page and their answers, as spans of words.
#pragma once

#include <string>
#include <vector>

#include "data/targets.h"

namespace plimsoll {

// Words [begin, end) of the page; `text` as the data spells it, or else those words.
struct Answer {
  std::string text;
  std::size_t begin = 0, end = 0;
};

struct Question {
  std::string id;  // the page's and a number where the data gives none
  std::string text;
  // Empty: the page has no answer. Nothing is known where `answered` is false.
  std::vector<Answer> answers{};
  bool answered = false;
  bool unread = false;  // answers are given that cannot be read, which faults say
};

// `questions` of a page: [{"id", "question", "answers": [{"text", "start_word", "end_word"}]}]; end_word is exclusive.
// Windows are trained towards the span of words; predictions are scored against `text`.
struct PageQuestions final : PageTarget {
  std::vector<Question> questions;

  std::size_t size() const override { return questions.size(); }
  std::size_t positives() const override;
};
// nullptr: the page has none.
const PageQuestions* questions_of(const Page& page);

const TargetReader& question_reader();

// The words' text, separated by spaces.
std::string text_of(const Page& page, std::size_t begin, std::size_t end);

}  // namespace plimsoll
