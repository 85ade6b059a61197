#include "tasks/question_answering/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "data/dataset.h"
#include "tasks/parts/other_task.h"
#include "tasks/question_answering/questions.h"
#include "tasks/question_answering/scores_of_text.h"

namespace plimsoll {
namespace {

Problem no_questions_problem(const Page& page) {
  return {.what = "a page has no questions",
          .where = place(page),
          .found = "no `questions`",
          .allowed = "`questions`: [{\"question\": …, \"answers\": [{\"text\", \"start_word\", \"end_word\"}]}]",
          .remedy = remedy_with_task(page, "add questions to the page, or omit it")};
}

std::string place_of(const Page& page, const Question& question) {
  return fmt::format("{}, question {}", place(page), in_quotes(question.id));
}

Problem no_answers_problem(const Page& page, const Question& question) {
  return {.what = "a question has no answers",
          .where = place_of(page, question),
          .found = "no `answers`",
          .allowed = "`answers`: spans of words, or texts; an empty list where the page has no answer",
          .remedy = "add its answers, or omit the question"};
}

Problem not_found_problem(const Page& page, const Question& question) {
  return {.what = "an answer is not among the page's words, so its question is scored and not learnt",
          .where = place_of(page, question),
          .found = in_quotes(question.answers.front().text),
          .allowed = "a text that stands on the page, or start_word and end_word",
          .remedy =
              "name the words that say it by start_word and end_word, or correct what OCR read; a question without "
              "an answer on the page has \"answers\": []"};
}

// A model that finds the words of a span is scored by the answers' texts. It is right if the words match one of them,
// since an answer may have several spellings.
void check_texts(const Page& page, const Question& question, Findings& findings) {
  for (const Answer& answer : question.answers) {
    if (!answer.is_placed()) continue;
    const std::string words = text_of(page, answer.begin, answer.end);
    if (lower_letters(words) == lower_letters(answer.text)) continue;  // cut into words in another way
    const auto matches = [&words](const Answer& each) { return is_exact_match(words, each.text); };
    if (std::ranges::any_of(question.answers, matches)) continue;
    findings.add(Severity::kWarning, "answer-text",
                 {.what = "an answer's `text` is not what its words say: the words are trained on, the text is scored",
                  .where = place_of(page, question),
                  .found = fmt::format("text {}, words {} to {}: {}", in_quotes(answer.text), answer.begin, answer.end,
                                       in_quotes(words)),
                  .allowed = "the same words, whatever their case, punctuation and articles",
                  .remedy = "correct start_word and end_word, or omit `text`: the words are then scored as well"});
  }
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
    const Answer* const answer = question.trained();
    if (answer == nullptr) {
      out.targets.assign(2, kIgnoredLabel);
      out.loss_terms = 0;
      return;
    }
    const auto [first, last] = tokens_of(*answer, window.tokens);
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
    std::set<std::string_view> ids;
    for (const Question& question : questions->questions) {
      if (!ids.insert(question.id).second) {
        findings.add(Severity::kWarning, "duplicate-question",
                     {.what = "two questions of a page have the same id",
                      .where = place(page),
                      .found = in_quotes(question.id),
                      .allowed = "an id for each question",
                      .remedy = "number the questions: predictions name them by id"});
      }
      if (!required || question.unread) continue;
      if (!question.answered) findings.add(Severity::kError, "answers-missing", no_answers_problem(page, question));
      if (!question.answers.empty() && question.trained() == nullptr) {
        findings.add(Severity::kWarning, "answer-not-found", not_found_problem(page, question));
      }
      check_texts(page, question, findings);
    }
  }

  void check_windows(const PageWindow& page_windows, bool required, Findings& findings) const override {
    const PageQuestions* const questions = questions_of(page_windows.page);
    if (!required || questions == nullptr || page_windows.item >= questions->questions.size()) return;
    const Question& question = questions->questions[page_windows.item];
    if (question.unread || question.trained() == nullptr) return;
    const auto [first, last] = tokens_of(*question.trained(), page_windows.tokens);
    if (first == kNoWord) return;  // words without tokens are reported as such
    const auto holds = [first = first, last = last](const Window& window) {
      return first >= window.begin && last < window.end;
    };
    if (std::ranges::any_of(page_windows.windows, holds)) return;
    findings.add(Severity::kWarning, "answer-cut",
                 {.what = "no window holds a whole answer, so its question is learnt as one without an answer",
                  .where = place_of(page_windows.page, question),
                  .found = fmt::format("{} in {}", counted(last - first + 1, "token"),
                                       counted(page_windows.windows.size(), "window")),
                  .allowed = "the whole answer in one window",
                  .remedy = "pass a larger --max-length, or, without --truncate, a larger --stride, by which windows "
                            "overlap"});
  }

  std::optional<Problem> nothing_to_learn(const TargetCounts& counts) const override {
    if (counts.positives > 0) return std::nullopt;
    const bool none = counts.targets == 0;
    return Problem{
        .what = none ? "no page has a question" : "no question has an answer on its page",
        .found = none ? counted(counts.target_pages, "page") + " with an empty list of `questions`"
                      : counted(counts.targets, "question") + " without an answer among the words of its page",
        .allowed = "questions of which some have answers",
        .remedy = "check how the answers were written; all that a model can learn here is to find none"};
  }

 private:
  // Returns the answer's first and last token on the page; kNoWord if it has none.
  static std::pair<std::int32_t, std::int32_t> tokens_of(const Answer& answer, const PageTokens& tokens) {
    std::int32_t first = kNoWord, last = kNoWord;
    for (std::int32_t token = 0; token < static_cast<std::int32_t>(tokens.words.size()); ++token) {
      const auto word = static_cast<std::size_t>(tokens.words[static_cast<std::size_t>(token)]);
      if (word < answer.begin || word >= answer.end) continue;
      if (first == kNoWord) first = token;
      last = token;
    }
    return {first, last};
  }

  bool with_answers_;
};

}  // namespace

std::shared_ptr<const Targets> answer_targets(bool with_answers) {
  return std::make_shared<AnswerTargets>(with_answers);
}

}  // namespace plimsoll
