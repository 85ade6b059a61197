#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tasks/parts/fields.h"
#include "tasks/sequence_classification/classes.h"
#include "tasks/sequence_classification/targets.h"

namespace plimsoll {
namespace {

class ClassOutput final : public Predictions {
 public:
  ClassOutput(const TaskConfig& config, const PredictionOptions& options)
      : names_(config.labels), problem_(class_problem(config)), options_(options) {}

  void begin_page(std::uint32_t) override { logits_.begin_page(); }
  bool add_window(const Batch&, std::int64_t sample, const TensorView& logits) override {
    return logits_.add_window(logits, sample);
  }
  void end_page() override {}

  nlohmann::json to_json(const Page& page) const override {
    nlohmann::json object = page_json(page);
    const std::vector<double> logits = logits_.mean();
    if (problem_ == ClassProblem::kRegression) {
      object["value"] = logits.front();
      return object;
    }
    const std::vector<double> probabilities = class_probabilities(logits, problem_);
    const std::vector<std::int32_t> classes = predicted_classes(logits, problem_);
    object["fields"] = nlohmann::json::array();
    for (const std::int32_t id : classes) {
      const auto c = static_cast<std::size_t>(id);
      nlohmann::json field = {{"label", names_[c]}, {"confidence", probabilities[c]}};
      if (!page.is_text) field.update({{"start_word", 0}, {"end_word", page.words.size()}});
      object["fields"].push_back(std::move(field));
    }
    if (problem_ == ClassProblem::kSingleLabel) {
      const auto c = static_cast<std::size_t>(classes.front());
      object["label"] = names_[c];
      object["confidence"] = probabilities[c];
    } else {
      nlohmann::json labels = nlohmann::json::array(), confidences = labels;
      for (const std::int32_t id : classes) {
        labels.push_back(names_[static_cast<std::size_t>(id)]);
        confidences.push_back(probabilities[static_cast<std::size_t>(id)]);
      }
      object["label"] = std::move(labels);
      object["confidence"] = std::move(confidences);
    }
    if (options_.all_scores) {
      object["label_names"] = names_;
      object["scores"] = probabilities;
    }
    return object;
  }

  AnnotatedPage drawing(const Page& page, BoxFormat) const override {
    AnnotatedPage picture{.image = page.image};
    const std::vector<double> logits = logits_.mean();
    if (problem_ == ClassProblem::kRegression) {
      picture.caption = fmt::format("{:.4g}", logits.front());
    } else {
      const std::vector<double> probabilities = class_probabilities(logits, problem_);
      for (const std::int32_t id : predicted_classes(logits, problem_)) {
        const auto c = static_cast<std::size_t>(id);
        picture.caption += fmt::format("{}{} {:.2f}", picture.caption.empty() ? "" : ", ", names_[c], probabilities[c]);
      }
      if (picture.caption.empty()) picture.caption = "none";
    }
    if (const PageLabel* const gold = label_of(page)) {
      const auto* const number = std::get_if<double>(&gold->value);
      picture.caption += number != nullptr ? fmt::format(" (data: {:.4g})", *number)
                                           : fmt::format(" (data: {})", fmt::join(gold->names(names_), ", "));
    }
    return picture;
  }

 private:
  std::vector<std::string> names_;
  ClassProblem problem_;
  PredictionOptions options_;
  LogitMean logits_;
};

}  // namespace

std::unique_ptr<Predictions> class_predictions(const TaskConfig& config, const PredictionOptions& options) {
  return std::make_unique<ClassOutput>(config, options);
}

}  // namespace plimsoll
