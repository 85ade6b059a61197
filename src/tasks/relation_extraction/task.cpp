#include "tasks/relation_extraction/task.h"

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "tasks/relation_extraction/entities.h"
#include "tasks/relation_extraction/head.h"
#include "tasks/relation_extraction/results.h"
#include "tasks/relation_extraction/targets.h"

namespace plimsoll {
namespace {

class RelationExtraction final : public Task {
 public:
  std::string_view name() const override { return "relation-extraction"; }
  std::string_view architecture() const override { return "RelationExtraction"; }
  // PEFT has no type of its own for it.
  std::string_view adapter_type() const override { return "FEATURE_EXTRACTION"; }

  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return relation_extraction(std::move(encoder), config);
  }

  const TargetReader* reader() const override { return &entity_reader(); }
  bool asks() const override { return true; }
  std::string_view target_name() const override { return "link"; }
  // Labels of entities, and which of them links join. A model that has been trained keeps the pairs that it knows.
  TaskConfig seen_in(const PageSource& pages, const TaskConfig& config) const override {
    std::set<std::string> labels;
    std::set<std::pair<std::string, std::string>> pairs(config.link_labels.begin(), config.link_labels.end());
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const Page page = pages.read(i);
      const PageEntities* const entities = entities_of(page);
      if (entities == nullptr) continue;
      for (const Entity& entity : entities->entities) labels.insert(entity.label);
      for (const auto& [from, to] : entities->links) {
        pairs.emplace(entities->entities[from].label, entities->entities[to].label);
      }
    }
    if (labels.empty()) {
      throw DataError({.what = "no page has entities",
                       .where = pages.size() > 0 ? place(pages.read(0)) : listed(pages.paths()),
                       .found = counted(pages.size(), "page") + " without `entities`, this one first",
                       .allowed = "`entities`: [{\"label\", \"start_word\", \"end_word\"}] and `links`: [[from, to]]",
                       .remedy = "add entities and links to the pages"});
    }
    TaskConfig seen = config;
    seen.labels.assign(labels.begin(), labels.end());
    seen.link_labels.assign(pairs.begin(), pairs.end());
    return seen;
  }
  std::optional<Problem> find_unknown_label(const PageSource& pages, const LabelSet& labels) const override {
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (std::optional<Problem> problem = find_unknown_entity(pages.read(i), labels)) return problem;
    }
    return std::nullopt;
  }
  std::shared_ptr<const Targets> targets(const TaskConfig& config, bool with_links) const override {
    return link_targets(config, with_links);
  }

  std::vector<std::string> metrics(const TaskConfig&) const override { return {"f1", "precision", "recall"}; }
  std::unique_ptr<Scorer> scorer(const TaskConfig& config, const Dataset& data) const override {
    return link_scorer(config, data);
  }
  std::unique_ptr<Predictions> predictions(const TaskConfig& config, const PredictionOptions& options) const override {
    return link_predictions(config, options);
  }
};

}  // namespace

const Task& relation_extraction_task() {
  static const RelationExtraction task;
  return task;
}

}  // namespace plimsoll
