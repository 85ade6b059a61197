#include "tasks/token_classification/output.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "data/label_scheme.h"
#include "tasks/parts/fields.h"
#include "tasks/token_classification/metrics.h"
#include "tasks/token_classification/words.h"

namespace plimsoll {
namespace {

// Label of each word of the page; a word that no window predicted is outside every entity.
std::vector<std::string> label_names(const WordPredictions& prediction, const std::vector<std::string>& names,
                                     std::size_t words) {
  std::vector<std::string> labels(words, "O");
  for (std::size_t w = 0; w < std::min(words, prediction.labels.size()); ++w) {
    if (prediction.labels[w] >= 0) labels[w] = names[static_cast<std::size_t>(prediction.labels[w])];
  }
  return labels;
}

bool is_predicted(const WordPredictions& prediction, std::size_t word) {
  return word < prediction.labels.size() && prediction.labels[word] != kNoPrediction;
}

class WordOutput final : public Predictions {
 public:
  WordOutput(const TaskConfig& config, const PredictionOptions& options)
      : names_(config.labels), scheme_(label_scheme(names_)), options_(options), words_(options.all_scores) {}

  void begin_page(std::uint32_t page) override { words_.begin_page(page); }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    return words_.add_window(batch, sample, logits);
  }
  void end_page() override {}

  nlohmann::json to_json(const Page& page) const override;
  AnnotatedPage drawing(const Page& page, BoxFormat format) const override;
  std::int64_t unpredicted_words(const Page& page) const override {
    std::int64_t words = 0;
    for (std::size_t w = 0; w < page.words.size(); ++w) words += is_predicted(words_.page(), w) ? 0 : 1;
    return words;
  }

 private:
  std::vector<std::string> labels_of(const Page& page) const {
    return label_names(words_.page(), names_, page.words.size());
  }

  std::vector<std::string> names_;  // of the model's labels
  LabelScheme scheme_;
  PredictionOptions options_;
  WordMerger words_;
};

nlohmann::json WordOutput::to_json(const Page& page) const {
  nlohmann::json fields = nlohmann::json::array(), probabilities = fields, unpredicted = fields, scores = fields;
  const WordPredictions& prediction = words_.page();
  const std::vector<std::string> labels = labels_of(page);
  for (const WordSpan& span : entity_spans(labels, scheme_)) {
    const auto first = prediction.probabilities.begin();
    const float confidence = *std::min_element(first + static_cast<std::ptrdiff_t>(span.begin),
                                               first + static_cast<std::ptrdiff_t>(span.end));
    fields.push_back(field_json(page, span, confidence));
  }
  for (std::size_t w = 0; w < page.words.size(); ++w) {
    const bool predicted = is_predicted(prediction, w);
    probabilities.push_back(predicted ? nlohmann::json(prediction.probabilities[w]) : nlohmann::json());
    if (!predicted) unpredicted.push_back(w);
    if (!options_.all_scores) continue;
    nlohmann::json of_word;  // null
    if (predicted) {
      const std::span<const float> all = std::span(prediction.scores).subspan(w * names_.size(), names_.size());
      of_word = std::vector<float>(all.begin(), all.end());
    }
    scores.push_back(std::move(of_word));
  }
  nlohmann::json object = page_json(page);
  object["labels"] = labels;
  object["probabilities"] = probabilities;
  object["fields"] = fields;
  object["unpredicted_words"] = unpredicted;
  if (options_.all_scores) {
    object["label_names"] = names_;
    object["scores"] = scores;
  }
  return object;
}

AnnotatedPage WordOutput::drawing(const Page& page, BoxFormat format) const {
  const std::vector<std::string> labels = labels_of(page);
  AnnotatedPage picture{.image = page.image, .scheme = scheme_};
  for (std::size_t w = 0; w < page.words.size(); ++w) {
    AnnotatedWord word{.box = pixel_box(page, w, format), .label = labels[w]};
    if (w < words_.page().probabilities.size()) word.confidence = words_.page().probabilities[w];
    if (w < page.labels.size() && !page.labels[w].empty()) word.gold_label = page.labels[w];
    picture.words.push_back(std::move(word));
  }
  return picture;
}

}  // namespace

std::unique_ptr<Predictions> word_predictions(const TaskConfig& config, const PredictionOptions& options) {
  return std::make_unique<WordOutput>(config, options);
}

}  // namespace plimsoll
