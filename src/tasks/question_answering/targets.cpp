#include "tasks/question_answering/targets.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/dataset.h"
#include "tasks/question_answering/questions.h"

namespace plimsoll {
namespace {

Problem no_questions_problem(const Page& page) {
  return {.what = "a page has no questions",
          .where = place(page),
          .found = "no `questions`",
          .allowed = "`questions`: [{\"question\": …, \"answers\": [{\"text\", \"start_word\", \"end_word\"}]}]",
          .remedy = "add questions to the page, or omit it"};
}

Problem no_answers_problem(const Page& page, const Question& question) {
  return {.what = "a question has no answers",
          .where = fmt::format("{}, question {}", place(page), in_quotes(question.id)),
          .found = "no `answers`",
          .allowed = "`answers`: spans of words; an empty list where the page has no answer",
          .remedy = "add its answers, or omit the question"};
}

class AnswerTargets final : public Targets {
 public:
  explicit AnswerTargets(bool with_answers) : with_answers_(with_answers) {}

  std::size_t items(const Page& page) const override {
    const PageQuestions* const questions = questions_of(page);
    if (questions == nullptr) throw PageError("questions-missing", no_questions_problem(page));
    return questions->questions.size();
  }

  void encode(const PageWindow& window, EncodedExample& out) const override {
    const Question& question = questions_of(window.page)->questions.at(window.item);
    const Window& span = window.windows[window.index];
    // An answer may begin and end at any token, so each row says its word.
    std::ranges::fill(out.predicts, kNoWord);
    for (std::int32_t token = span.begin; token < span.end; ++token) {
      out.predicts[window.first_row + static_cast<std::size_t>(token - span.begin)] =
          window.tokens.words[static_cast<std::size_t>(token)];
    }
    out.loss_terms = 0;
    if (!with_answers_) return;
    if (!question.answered) throw PageError("answers-missing", no_answers_problem(window.page, question));
    out.targets.assign(2, 0);
    out.loss_terms = 2;
    if (question.answers.empty()) return;
    const Answer& answer = question.answers.front();
    std::int32_t first = kNoWord, last = kNoWord;
    for (std::int32_t token = 0; token < static_cast<std::int32_t>(window.tokens.words.size()); ++token) {
      const auto word = static_cast<std::size_t>(window.tokens.words[static_cast<std::size_t>(token)]);
      if (word < answer.begin || word >= answer.end) continue;
      if (first == kNoWord) first = token;
      last = token;
    }
    if (first == kNoWord || first < span.begin || last >= span.end) return;  // no tokens, or not all of them here
    const auto row = [&](std::int32_t token) {
      return static_cast<std::int32_t>(window.first_row) + token - span.begin;
    };
    out.targets = {row(first), row(last)};
  }

  void check(const Page& page, bool required, Findings& findings,
             std::map<std::string, std::uint64_t>&) const override {
    const PageQuestions* const questions = questions_of(page);
    if (questions == nullptr) {
      findings.add(Severity::kError, "questions-missing", no_questions_problem(page));
      return;
    }
    for (const Question& question : questions->questions) {
      if (required && !question.answered) {
        findings.add(Severity::kError, "answers-missing", no_answers_problem(page, question));
      }
    }
  }

 private:
  bool with_answers_;
};

}  // namespace

std::shared_ptr<const Targets> answer_targets(bool with_answers) {
  return std::make_shared<AnswerTargets>(with_answers);
}

}  // namespace plimsoll
