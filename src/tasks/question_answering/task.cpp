#include "tasks/question_answering/task.h"

#include "base/counted.h"
#include "base/error.h"
#include "tasks/parts/fields.h"
#include "tasks/parts/other_task.h"
#include "tasks/question_answering/head.h"
#include "tasks/question_answering/questions.h"
#include "tasks/question_answering/results.h"
#include "tasks/question_answering/spans.h"
#include "tasks/question_answering/targets.h"

namespace plimsoll {
namespace {

class QuestionAnswering final : public Task {
 public:
  std::string_view name() const override { return "question-answering"; }
  std::string_view architecture() const override { return "QuestionAnswering"; }
  std::string_view adapter_type() const override { return "QUESTION_ANS"; }

  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig&) const override {
    return question_answering(std::move(encoder));
  }

  const TargetReader* reader() const override { return &question_reader(); }
  bool asks() const override { return true; }
  std::string_view target_name() const override { return "question"; }
  // The two labels that `transformers` gives every such model; they mean start and end.
  std::vector<std::string> unnamed_labels() const override { return {"LABEL_0", "LABEL_1"}; }
  std::optional<Problem> refused_labels(const TaskConfig& config) const override {
    if (config.num_labels() == static_cast<std::int64_t>(unnamed_labels().size())) return std::nullopt;
    return Problem{.what = "an answer has no label: its head finds where it starts and ends",
                   .where = "--labels",
                   .found = counted(config.num_labels(), "label"),
                   .allowed = "no --labels with --task question-answering",
                   .remedy = "omit --labels"};
  }
  SeenTargets seen_in(const PageSource& pages, const TaskConfig& config) const override {
    bool any = false;
    const std::optional<PageError> fault = read_as_far_as_possible(pages, [&](const Page& page) {
      any = any || (questions_of(page) != nullptr && !questions_of(page)->questions.empty());
    });
    if (!any && fault) throw PageError(*fault);
    if (!any) {
      const Page first = pages.size() > 0 ? pages.read(0) : Page();
      throw DataError({.what = "no page has questions",
                       .where = pages.size() > 0 ? place(first) : listed(pages.paths()),
                       .found = counted(pages.size(), "page") + " without a question, this one first",
                       .allowed = "`questions`: [{\"question\": …, \"answers\": […]}]",
                       .remedy = remedy_with_task(first, "add questions to the pages")});
    }
    SeenTargets seen{.config = config};
    seen.config.labels = unnamed_labels();
    return seen;
  }
  std::optional<Problem> find_unknown_label(const PageSource&, const LabelSet&) const override { return std::nullopt; }
  std::shared_ptr<const Targets> targets(const TaskConfig&, bool with_answers) const override {
    return answer_targets(with_answers);
  }

  std::vector<std::string> metrics(const TaskConfig&) const override {
    return {"f1", "exact_match", "anls", "f1_with_answer", "f1_without_answer"};
  }
  std::unique_ptr<Scorer> scorer(const TaskConfig&, const Dataset& data) const override { return answer_scorer(data); }
  std::size_t scoring_bytes(const PageSize& page) const override { return page.subjects * kSearchBytes; }
  // Each answer is written like a field, with the boxes of its words.
  std::size_t prediction_bytes(const PageSize& page, const TaskConfig&,
                               const PredictionOptions& options) const override {
    constexpr std::size_t kQuestion = 800, kAnswer = 1200, kWord = 200;
    const std::size_t answers = 1 + (options.all_scores ? SpanSearch::kBest + 1 : kListedAnswers);
    const std::size_t words = std::min<std::size_t>(page.words, SpanSearch::kMostTokens);
    return page.words * kPageJsonBytesPerWord +
           page.subjects * (kSearchBytes + kQuestion + answers * (kAnswer + words * kWord));
  }
  std::unique_ptr<Predictions> predictions(const TaskConfig&, const PredictionOptions& options) const override {
    return answer_predictions(options);
  }
};

}  // namespace

const Task& question_answering_task() {
  static const QuestionAnswering task;
  return task;
}

}  // namespace plimsoll
