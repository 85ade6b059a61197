#include "tasks/relation_extraction/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "data/dataset.h"
#include "tasks/parts/fields.h"
#include "tasks/parts/judgement.h"
#include "tasks/relation_extraction/links.h"

namespace plimsoll {
namespace {

class LinkScorer final : public Scorer {
 public:
  LinkScorer(const TaskConfig& config, const Dataset& data) : data_(data), links_(config) {}

  void begin_page(std::uint32_t page) override { links_.begin_page(page); }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    return links_.add_window(batch, sample, logits);
  }
  void end_page() override {
    const Page page = data_.source().read(links_.page());
    const PageEntities* const entities = entities_of(page);
    if (entities == nullptr || !entities->linked) return;
    const auto counts = [&](const Link& link) -> LabelCounts& {
      const auto& all = entities->entities;
      return of_labels_[fmt::format("{} → {}", all[link.first].label, all[link.second].label)];
    };
    for (const Link& link : entities->links) ++counts(link).gold;
    for (const ScoredLink& scored : links_.scored(*entities)) {
      const Link link{scored.from, scored.to};
      const bool is_link = std::binary_search(entities->links.begin(), entities->links.end(), link);
      calibration_.add(std::max(scored.probability, 1 - scored.probability), scored.is_link() == is_link);
      if (!scored.is_link()) continue;
      LabelCounts& of = counts(link);
      ++of.predicted;
      of.right += is_link ? 1U : 0U;
    }
  }
  double page_loss() const override { return links_.loss(); }
  Scores scores() const override {
    LabelCounts all;
    Scores scores;
    for (const auto& [name, of] : of_labels_) {
      all.right += of.right;
      all.predicted += of.predicted;
      all.gold += of.gold;
      scores.labels.push_back(of.score(name));
    }
    const Scores::Label whole = all.score("all");
    scores.metrics = {{"f1", whole.f1}, {"precision", whole.precision}, {"recall", whole.recall}};
    scores.support = all.gold;
    scores.first = {2 * static_cast<double>(all.right), static_cast<double>(all.gold + all.predicted)};
    scores.all = whole;
    scores.calibration_error = calibration_.value();
    return scores;
  }

 private:
  const Dataset& data_;
  PageLinks links_;
  CalibrationError calibration_;
  std::map<std::string, LabelCounts> of_labels_;
};

class LinkOutput final : public Predictions {
 public:
  LinkOutput(const TaskConfig& config, const PredictionOptions& options) : options_(options), links_(config) {}

  void begin_page(std::uint32_t page) override { links_.begin_page(page); }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    return links_.add_window(batch, sample, logits);
  }
  void end_page() override {}

  nlohmann::json to_json(const Page& page) const override {
    nlohmann::json object = page_json(page);
    nlohmann::json fields = nlohmann::json::array(), links = fields, probabilities = fields, scores = fields;
    if (const PageEntities* const entities = entities_of(page)) {
      for (const Entity& entity : entities->entities) {
        nlohmann::json field = field_json(page, {.name = entity.label, .begin = entity.begin, .end = entity.end},
                                          static_cast<float>(entity.confidence.value_or(1)));
        if (!entity.confidence) field.erase("confidence");  // the entity was given, not predicted
        fields.push_back(std::move(field));
      }
      for (const ScoredLink& link : links_.found(*entities)) {
        links.push_back({link.from, link.to});
        probabilities.push_back(link.probability);
      }
      for (const ScoredLink& pair : options_.all_scores ? links_.scored(*entities) : std::vector<ScoredLink>()) {
        scores.push_back({{"from", pair.from}, {"to", pair.to}, {"probability", pair.probability}});
      }
    }
    object["fields"] = std::move(fields);
    object["links"] = std::move(links);
    object["link_probabilities"] = std::move(probabilities);
    if (options_.all_scores) object["link_scores"] = std::move(scores);
    return object;
  }

  AnnotatedPage drawing(const Page& page, BoxFormat format) const override {
    AnnotatedPage picture{.image = page.image, .scheme = LabelScheme::kIob};
    for (std::size_t w = 0; w < page.words.size(); ++w) {
      picture.words.push_back({.box = pixel_box(page, w, format), .label = "O"});
    }
    const PageEntities* const entities = entities_of(page);
    if (entities == nullptr) return picture;
    for (const Entity& entity : entities->entities) {
      for (std::size_t w = entity.begin; w < entity.end; ++w) {
        picture.words[w].label = (w == entity.begin ? "B-" : "I-") + entity.label;
      }
    }
    const auto word_of = [&](std::size_t entity) { return entities->entities[entity].begin; };
    const auto is_gold = [&](const Link& link) {
      return std::binary_search(entities->links.begin(), entities->links.end(), link);
    };
    std::vector<Link> found;
    for (const ScoredLink& link : links_.found(*entities)) {
      found.emplace_back(link.from, link.to);
      AnnotatedLink drawn{.from_word = word_of(link.from), .to_word = word_of(link.to)};
      if (entities->linked)
        drawn.state = is_gold(found.back()) ? AnnotatedLink::State::kRight : AnnotatedLink::State::kWrong;
      picture.links.push_back(drawn);
    }
    for (const Link& link : entities->links) {
      if (std::ranges::find(found, link) != found.end() || word_of(link.first) == word_of(link.second)) continue;
      picture.links.push_back(
          {.from_word = word_of(link.first), .to_word = word_of(link.second), .state = AnnotatedLink::State::kMissed});
    }
    return picture;
  }

 private:
  PredictionOptions options_;
  PageLinks links_;
};

}  // namespace

std::unique_ptr<Scorer> link_scorer(const TaskConfig& config, const Dataset& data) {
  return std::make_unique<LinkScorer>(config, data);
}

std::unique_ptr<Predictions> link_predictions(const TaskConfig& config, const PredictionOptions& options) {
  return std::make_unique<LinkOutput>(config, options);
}

}  // namespace plimsoll
