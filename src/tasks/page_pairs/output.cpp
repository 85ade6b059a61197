#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tasks/page_pairs/pair_rows.h"
#include "tasks/page_pairs/results.h"

namespace plimsoll {
namespace {

// Keeps the logits of both pages, and writes the pair's ids.
class PairOutput : public Predictions {
 public:
  void begin_page(std::uint32_t) override {}
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    const auto row = row_of(logits, sample);
    std::vector<float>& of_side = is_first_of_pair(batch, sample) ? first_ : second_;
    of_side.assign(row.begin(), row.end());
    return is_finite(row);
  }
  void end_page() override {}

  // Draws the first page, with what was found for the pair as a caption.
  AnnotatedPage drawing(const Page& page, BoxFormat) const override {
    AnnotatedPage picture{.image = page.image, .caption = caption()};
    const std::string& label = pair_of(page).label;
    if (!label.empty()) picture.caption += fmt::format(" (data: {})", label);
    return picture;
  }

 protected:
  virtual std::string caption() const = 0;
  static nlohmann::json pair_json(const Page& page) {
    const PairContent& pair = pair_of(page);
    return {{"a", pair.first_id}, {"b", pair.second.id}};
  }
  const std::vector<float>& first() const { return first_; }
  const std::vector<float>& second() const { return second_; }

 private:
  std::vector<float> first_, second_;
};

class PairClassOutput final : public PairOutput {
 public:
  PairClassOutput(const TaskConfig& config, const PredictionOptions& options)
      : names_(config.labels), options_(options) {}

  nlohmann::json to_json(const Page& page) const override {
    nlohmann::json object = pair_json(page);
    const std::vector<double> probabilities = softmax_of(first());
    const std::size_t best = likeliest(probabilities);
    object["label"] = names_[best];
    object["confidence"] = probabilities[best];
    if (options_.all_scores) {
      object["label_names"] = names_;
      object["scores"] = probabilities;
    }
    return object;
  }

 private:
  static std::size_t likeliest(const std::vector<double>& probabilities) {
    return static_cast<std::size_t>(std::ranges::max_element(probabilities) - probabilities.begin());
  }
  std::string caption() const override {
    const std::vector<double> probabilities = softmax_of(first());
    const std::size_t best = likeliest(probabilities);
    return fmt::format("{} {:.2f}", names_[best], probabilities[best]);
  }

  std::vector<std::string> names_;
  PredictionOptions options_;
};

class PreferenceOutput final : public PairOutput {
 public:
  nlohmann::json to_json(const Page& page) const override {
    nlohmann::json object = pair_json(page);
    const bool prefers_first = first()[0] > first()[1];
    const double margin = std::abs(double{first()[0]} - first()[1]);
    object["preferred"] = prefers_first ? "a" : "b";
    object["confidence"] = 1 / (1 + std::exp(-margin));
    object["scores"] = {first()[0], first()[1]};
    return object;
  }

 private:
  std::string caption() const override { return fmt::format("score {:.3g}, other {:.3g}", first()[0], first()[1]); }
};

class SimilarityOutput final : public PairOutput {
 public:
  explicit SimilarityOutput(const PredictionOptions& options) : options_(options) {}

  nlohmann::json to_json(const Page& page) const override {
    nlohmann::json object = pair_json(page);
    object["cosine"] = cosine();
    if (options_.all_scores) object["embeddings"] = {unit_of(first()), unit_of(second())};
    return object;
  }

 private:
  double cosine() const { return cosine_of(unit_of(first()), unit_of(second())); }
  std::string caption() const override { return fmt::format("cosine {:.3f}", cosine()); }

  PredictionOptions options_;
};

}  // namespace

std::unique_ptr<Predictions> pair_class_predictions(const TaskConfig& config, const PredictionOptions& options) {
  return std::make_unique<PairClassOutput>(config, options);
}
std::unique_ptr<Predictions> preference_predictions() { return std::make_unique<PreferenceOutput>(); }
std::unique_ptr<Predictions> similarity_predictions(const PredictionOptions& options) {
  return std::make_unique<SimilarityOutput>(options);
}

}  // namespace plimsoll
