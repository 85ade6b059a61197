#include "tasks/question_answering/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "data/packed.h"
#include "data/page_faults.h"
#include "tasks/parts/word_range.h"
#include "tasks/question_answering/scores_of_text.h"

namespace plimsoll {
namespace {

using nlohmann::json;

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n\f\v") == std::string::npos; }

class QuestionReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const json& object, const Page& page, PageFaults* faults) const override {
    const auto found = object.find("questions");
    if (found == object.end() || found->is_null()) return nullptr;
    auto result = std::make_shared<PageQuestions>();
    if (!found->is_array()) {
      report(faults, wrong_type(page, "`questions`", *found, "an array of objects with `question` and `answers`"));
      return unread_target();
    }
    for (std::size_t i = 0; i < found->size(); ++i) {
      Question question;
      if (read_question((*found)[i], i, page, faults, question)) result->questions.push_back(std::move(question));
    }
    return result;
  }
  std::string_view key() const override { return "questions"; }

  std::vector<std::string_view> prompts(const PageTarget& target) const override {
    std::vector<std::string_view> texts;
    for (const Question& question : dynamic_cast<const PageQuestions&>(target).questions) {
      texts.push_back(question.text);
    }
    return texts;
  }

  void pack(const PageTarget& target, Packer& out) const override {
    const auto& questions = dynamic_cast<const PageQuestions&>(target).questions;
    out.count(questions.size());
    for (const Question& question : questions) {
      out.text(question.id);
      out.text(question.text);
      out.count(question.unread ? 2 : question.answered ? 1 : 0);
      out.count(question.answers.size());
      for (const Answer& answer : question.answers) {
        out.text(answer.text);
        out.count(answer.begin);
        out.count(answer.end);
      }
    }
  }
  std::shared_ptr<const PageTarget> unpack(Unpacker& in) const override {
    auto result = std::make_shared<PageQuestions>();
    result->questions.resize(in.size());
    for (Question& question : result->questions) {
      question.id = in.text();
      question.text = in.text();
      const std::uint64_t state = in.count();
      check_packed(state <= 2);
      question.answered = state == 1;
      question.unread = state == 2;
      question.answers.resize(in.size());
      for (Answer& answer : question.answers) {
        answer.text = in.text();
        answer.begin = static_cast<std::size_t>(in.count());
        answer.end = static_cast<std::size_t>(in.count());
      }
    }
    return result;
  }

 private:
  static bool read_question(const json& value, std::size_t index, const Page& page, PageFaults* faults,
                            Question& question) {
    const std::string where = fmt::format("question {}", index);
    if (!value.is_object() || !value.contains("question") || !value.at("question").is_string() ||
        is_blank(value.at("question").get_ref<const std::string&>())) {
      report(faults, wrong_type(page, where, value, "an object whose `question` is a text that is not blank"));
      return false;
    }
    question.text = value.at("question").get<std::string>();
    if (invalid_utf8_offset(question.text) != std::string_view::npos) return false;  // the page's reader reports it
    const json id = value.value("id", json());
    if (!id.is_null() && !id.is_string() && !id.is_number()) {
      report(faults, wrong_type(page, where + ", `id`", id, "a string or a number"));
      return false;
    }
    question.id = id.is_string() ? id.get<std::string>()
                  : id.is_null() ? fmt::format("{}-{}", page.id, index)
                                 : shown(id);
    const auto answers = value.find("answers");
    if (answers == value.end() || answers->is_null()) return true;
    // As SQuAD has them: {"text": ["…"], "answer_start": [7]}.
    const bool is_squad = answers->is_object() && answers->contains("text") && answers->at("text").is_array();
    const json& all = is_squad ? answers->at("text") : *answers;
    const json starts = is_squad ? answers->value("answer_start", json()) : json();
    if (!all.is_array()) {
      report(faults, wrong_type(page, where + ", `answers`", *answers,
                                "an array of spans, {\"text\", \"start_word\", \"end_word\"}, or of texts, or an empty "
                                "array"));
      question.unread = true;
      return true;
    }
    for (std::size_t a = 0; a < all.size(); ++a) {
      const json& answer = all[a];
      if (says_none(answer)) continue;
      Answer read;
      const bool has_start = starts.is_array() && a < starts.size();
      const json start = has_start ? starts[a] : answer.is_object() ? answer.value("answer_start", json()) : json();
      if (read_answer(answer, start, where, page, faults, read)) {
        question.answers.push_back(std::move(read));
      } else {
        question.unread = true;
      }
    }
    question.answered = !question.unread;
    return true;
  }

  // Returns whether the answer is what `predict` writes for "the page has no answer".
  static bool says_none(const json& answer) {
    return answer.is_object() && answer.value("text", json()) == "" && !answer.contains("start_word");
  }

  // Returns for each word the character at which it begins in a text of all words and single spaces, as SQuAD counts.
  static std::vector<std::int64_t> first_characters(const Page& page) {
    std::vector<std::int64_t> firsts;
    std::int64_t next = 0;
    for (const std::string& word : page.words) {
      firsts.push_back(next);
      next += 1 + std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
    }
    return firsts;
  }

  // Returns the words that are the text but for case and white space, or else for punctuation and how it is cut into
  // words: the first of several, or those nearest to the character `start`; an empty range if there are none.
  static WordRange find_words(const Page& page, const std::string& text, const json& start) {
    for (const auto form : {lower_text, lower_letters}) {
      const std::string wanted = form(text);
      if (wanted.empty()) continue;
      std::vector<std::string> words;
      for (const std::string& word : page.words) words.push_back(form(word));
      const std::string_view between = form == lower_text ? " " : "";
      std::vector<WordRange> found;
      for (std::size_t begin = 0; begin < words.size(); ++begin) {
        std::string said = words[begin];
        if (said.empty()) continue;
        for (std::size_t end = begin + 1; wanted.starts_with(said); ++end) {
          if (said == wanted) found.push_back({.begin = begin, .end = end});
          if (said == wanted || end == words.size()) break;
          if (!words[end].empty()) said.append(between).append(words[end]);
        }
      }
      if (found.empty()) continue;
      if (!start.is_number() || found.size() == 1) return found.front();
      const std::vector<std::int64_t> firsts = first_characters(page);
      return *std::ranges::min_element(found, {}, [&](const WordRange& range) {
        return std::abs(static_cast<double>(firsts[range.begin]) - start.get<double>());
      });
    }
    return {};
  }

  static bool read_answer(const json& value, const json& start, const std::string& where, const Page& page,
                          PageFaults* faults, Answer& answer) {
    const json given = value.is_object() ? value.value("text", json()) : value;
    const auto says = [&value](const char* key) { return value.is_object() && !value.value(key, json()).is_null(); };
    const bool has_span = says("start_word") || says("end_word");
    if (!has_span && given.is_string() && !is_blank(given.get_ref<const std::string&>()) &&
        invalid_utf8_offset(given.get_ref<const std::string&>()) == std::string_view::npos) {
      answer.text = given.get<std::string>();
      const WordRange found = find_words(page, answer.text, start);
      answer.begin = found.begin;
      answer.end = found.end;
      return true;
    }
    if (!value.is_object() && !value.is_string()) {
      report(faults, wrong_type(page, where + ", an answer", value, "a text, or {\"start_word\", \"end_word\"}"));
      return false;
    }
    const std::optional<WordRange> range = read_word_range(value, page.words.size());
    if (!range) {
      report(faults,
             PageError("answer-outside",
                       {.what = "an answer is not a span of the page's words",
                        .where = fmt::format("{}, {}", place(page), where),
                        .found = found_word_range(value, page.words.size()),
                        .allowed = kAllowedWordRange,
                        .remedy = "count words from 0; end_word is the one after the answer. A question without an "
                                  "answer on the page has \"answers\": []"}));
      return false;
    }
    answer.begin = range->begin;
    answer.end = range->end;
    const json text = value.value("text", json());
    if (!text.is_string() && !text.is_null()) {
      report(faults, wrong_type(page, where + ", `text` of an answer", text, "a text, or no such key"));
      return false;
    }
    answer.text = text.is_string() ? text.get<std::string>() : text_of(page, answer.begin, answer.end);
    if (invalid_utf8_offset(answer.text) != std::string_view::npos)
      answer.text = text_of(page, answer.begin, answer.end);
    return true;
  }
};

}  // namespace

const Answer* Question::trained() const {
  const auto found = std::ranges::find_if(answers, &Answer::is_placed);
  return found == answers.end() ? nullptr : &*found;
}

std::string PageQuestions::asked() const {
  std::string all;
  for (const Question& question : questions) (all += question.text) += '\n';
  return all;
}

std::size_t PageQuestions::positives() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(questions, [](const Question& question) { return question.trained() != nullptr; }));
}

const PageQuestions* questions_of(const Page& page) { return dynamic_cast<const PageQuestions*>(page.target.get()); }

const TargetReader& question_reader() {
  static const QuestionReader reader;
  return reader;
}

std::string text_of(const Page& page, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t word = begin; word < end; ++word) text += (word == begin ? "" : " ") + page.words[word];
  return text;
}

}  // namespace plimsoll
