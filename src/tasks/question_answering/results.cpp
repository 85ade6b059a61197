#include "tasks/question_answering/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tasks/parts/fields.h"
#include "tasks/parts/judgement.h"
#include "tasks/question_answering/head.h"
#include "tasks/question_answering/questions.h"
#include "tasks/question_answering/scores_of_text.h"
#include "tasks/question_answering/spans.h"

namespace plimsoll {
namespace {

// The best spans of each of a page's questions.
class PageAnswers {
 public:
  void begin_page(std::uint32_t page) {
    page_ = page;
    questions_.clear();
  }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) {
    const SampleReference& reference = batch.references()[static_cast<std::size_t>(sample)];
    if (reference.item >= questions_.size()) {
      questions_.resize(reference.item + 1U);
      questions_.back().begin();
    }
    const std::int64_t text = batch.first_text_row(sample);
    const auto rows = static_cast<std::size_t>(batch.first_text_row(sample + 1) - text);
    const auto first = static_cast<std::size_t>(
        batch.tensor(input::kSampleOffsets).span<std::int32_t>()[static_cast<std::size_t>(sample)]);
    return questions_[reference.item].add_window(logits.span<float>().subspan(2 * first, 2 * rows),
                                                 batch.predicts().subspan(static_cast<std::size_t>(text), rows));
  }
  std::uint32_t page() const { return page_; }
  std::size_t size() const { return questions_.size(); }
  std::vector<SpanCandidate> best(std::size_t question) const { return questions_[question].best(); }

 private:
  std::uint32_t page_ = 0;
  std::vector<SpanSearch> questions_;
};

std::string answer_text(const Page& page, const SpanCandidate& span) {
  return span.is_null() ? std::string() : text_of(page, span.begin, span.end);
}

class AnswerScorer final : public Scorer {
 public:
  explicit AnswerScorer(const Dataset& data) : data_(data) {}

  void begin_page(std::uint32_t page) override {
    answers_.begin_page(page);
    loss_ = 0;
    loss_terms_ = 0;
  }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    if (!answers_.add_window(batch, sample, logits)) return false;
    if (!batch.has(kSpanPositions)) return true;
    const auto positions = batch.tensor(kSpanPositions).span<std::int32_t>();
    const auto offsets =
        batch.tensor(input::kSampleOffsets).span<std::int32_t>().subspan(static_cast<std::size_t>(sample));
    for (std::size_t column = 0; column < 2; ++column) {
      const std::int32_t wanted = positions[2 * static_cast<std::size_t>(sample) + column];
      if (wanted == kIgnoredLabel) continue;
      std::vector<float> of_rows;
      for (std::int32_t row = offsets[0]; row < offsets[1]; ++row) {
        of_rows.push_back(logits.span<float>()[2 * static_cast<std::size_t>(row) + column]);
      }
      loss_ += cross_entropy_of(of_rows, static_cast<std::size_t>(wanted));
      ++loss_terms_;
    }
    return true;
  }
  double page_loss() const override { return loss_terms_ == 0 ? 0 : loss_ / static_cast<double>(loss_terms_); }
  void end_page() override {
    const Page page = data_.source().read(answers_.page());
    const PageQuestions* const questions = questions_of(page);
    for (std::size_t i = 0; questions != nullptr && i < std::min(answers_.size(), questions->questions.size()); ++i) {
      const std::vector<SpanCandidate> best = answers_.best(i);
      const Question& question = questions->questions[i];
      if (best.empty() || !question.answered) continue;
      add(answer_text(page, best.front()), best.front().probability, question);
    }
  }
  Scores scores() const override {
    const auto mean = [](double sum, std::uint64_t count) { return count == 0 ? 0 : sum / static_cast<double>(count); };
    const std::uint64_t all = with_.questions + without_.questions;
    Scores scores{.metrics = {{.name = "f1", .value = mean(with_.f1 + without_.f1, all)},
                              {.name = "exact_match", .value = mean(with_.exact + without_.exact, all)},
                              {.name = "anls", .value = mean(with_.anls + without_.anls, all)}},
                  .support = all,
                  .calibration_error = calibration_.value(),
                  .first = {with_.f1 + without_.f1, static_cast<double>(all)}};
    for (const auto& [name, of] : {std::pair("f1_with_answer", with_), std::pair("f1_without_answer", without_)}) {
      if (of.questions > 0) scores.metrics.push_back({.name = name, .value = mean(of.f1, of.questions)});
    }
    return scores;
  }

 private:
  struct Group {
    std::uint64_t questions = 0;
    double exact = 0, f1 = 0, anls = 0;
  };

  void add(const std::string& predicted, double confidence, const Question& question) {
    std::vector<std::string> gold;
    for (const Answer& answer : question.answers) gold.push_back(answer.text);
    const std::vector<std::string> gold_of_squad = compared_answers(gold);
    if (gold.empty()) gold.emplace_back();  // correct if nothing is predicted
    Group& group = question.answers.empty() ? without_ : with_;
    ++group.questions;
    const auto best = [&](const std::vector<std::string>& texts, const auto& score) {
      double most = 0;
      for (const std::string& text : texts) most = std::max(most, static_cast<double>(score(predicted, text)));
      return most;
    };
    const double exact = best(gold_of_squad, is_exact_match);
    calibration_.add(confidence, exact > 0);
    group.exact += exact;
    group.f1 += best(gold_of_squad, word_f1);
    group.anls += best(gold, levenshtein_similarity);
  }

  const Dataset& data_;
  PageAnswers answers_;
  Group with_, without_;
  CalibrationError calibration_;
  double loss_ = 0;  // of the page
  std::int64_t loss_terms_ = 0;
};

class AnswerOutput final : public Predictions {
 public:
  explicit AnswerOutput(const PredictionOptions& options) : options_(options) {}

  void begin_page(std::uint32_t page) override { answers_.begin_page(page); }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    return answers_.add_window(batch, sample, logits);
  }
  void end_page() override {}

  nlohmann::json to_json(const Page& page) const override {
    nlohmann::json object = page_json(page);
    object["questions"] = nlohmann::json::array();
    object["fields"] = nlohmann::json::array();
    for_questions(page, [&](const Question& question, const std::vector<SpanCandidate>& best) {
      nlohmann::json answers = nlohmann::json::array();
      for (const SpanCandidate& span : best) {
        if (!options_.all_scores && answers.size() == kListedAnswers) break;
        answers.push_back(span.is_null() ? nlohmann::json{{"text", ""}, {"confidence", span.probability}}
                                         : span_json(page, span, question.id));
      }
      if (!best.front().is_null()) object["fields"].push_back(span_json(page, best.front(), question.id));
      object["questions"].push_back(
          {{"id", question.id}, {"question", question.text}, {"answers", std::move(answers)}});
    });
    return object;
  }

  AnnotatedPage drawing(const Page& page, BoxFormat format) const override {
    AnnotatedPage picture{.image = page.image, .scheme = LabelScheme::kPlain};
    for (std::size_t w = 0; w < page.words.size(); ++w) {
      picture.words.push_back({.box = pixel_box(page, w, format), .label = "O"});
    }
    for_questions(page, [&](const Question& question, const std::vector<SpanCandidate>& best) {
      for (std::size_t w = best.front().begin; w < best.front().end; ++w) {
        picture.words[w].label = question.text;
        picture.words[w].confidence = best.front().probability;
      }
      if (!question.answered) return;
      for (AnnotatedWord& word : picture.words) word.gold_label = word.gold_label.value_or("O");
      const Answer* const answer = question.trained();
      if (answer == nullptr) return;
      for (std::size_t w = answer->begin; w < answer->end; ++w) {
        picture.words[w].gold_label = question.text;
      }
    });
    return picture;
  }

 private:
  static nlohmann::json span_json(const Page& page, const SpanCandidate& span, const std::string& label) {
    return field_json(page, {.name = label, .begin = span.begin, .end = span.end},
                      static_cast<float>(span.probability));
  }

  template <typename Visit>
  void for_questions(const Page& page, const Visit& visit) const {
    const PageQuestions* const questions = questions_of(page);
    for (std::size_t i = 0; questions != nullptr && i < std::min(answers_.size(), questions->questions.size()); ++i) {
      const std::vector<SpanCandidate> best = answers_.best(i);
      if (!best.empty()) visit(questions->questions[i], best);
    }
  }

  PredictionOptions options_;
  PageAnswers answers_;
};

}  // namespace

std::unique_ptr<Scorer> answer_scorer(const Dataset& data) { return std::make_unique<AnswerScorer>(data); }

std::unique_ptr<Predictions> answer_predictions(const PredictionOptions& options) {
  return std::make_unique<AnswerOutput>(options);
}

}  // namespace plimsoll
