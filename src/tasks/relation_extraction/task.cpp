#include "tasks/relation_extraction/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "tasks/parts/fields.h"
#include "tasks/parts/other_task.h"
#include "tasks/relation_extraction/entities.h"
#include "tasks/relation_extraction/head.h"
#include "tasks/relation_extraction/links.h"
#include "tasks/relation_extraction/results.h"
#include "tasks/relation_extraction/targets.h"

namespace plimsoll {
namespace {

Problem unlabelled_problem(const Page& page, std::size_t entity) {
  return {.what = "an entity has no label, though others have",
          .where = fmt::format("{}, entity {}", place(page), entity),
          .found = "no `label`, which is taken as the label \"entity\"",
          .allowed = "a label for every entity, or for none",
          .remedy = "label the entity"};
}

class RelationExtraction final : public Task {
 public:
  std::string_view name() const override { return "relation-extraction"; }
  std::string_view architecture() const override { return "RelationExtraction"; }
  // PEFT has no type for it.
  std::string_view adapter_type() const override { return "FEATURE_EXTRACTION"; }

  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return relation_extraction(std::move(encoder), config);
  }

  const TargetReader* reader() const override { return &entity_reader(); }
  bool has_classes(const TaskConfig&) const override { return true; }  // linked, or not
  bool weighs_classes(const TaskConfig&) const override { return false; }
  bool asks() const override { return true; }
  std::string_view target_name() const override { return "link"; }
  // Finds the labels of entities, and which of them links join. A trained model keeps its pairs of labels.
  SeenTargets seen_in(const PageSource& pages, const TaskConfig& config) const override {
    std::set<std::string> labels;
    std::set<std::pair<std::string, std::string>> pairs(config.link_labels.begin(), config.link_labels.end());
    Findings unlabelled;
    bool any_labelled = false;
    const std::optional<PageError> fault = read_as_far_as_possible(pages, [&](const Page& page) {
      const PageEntities* const entities = entities_of(page);
      if (entities == nullptr) return;
      for (std::size_t e = 0; e < entities->entities.size(); ++e) {
        const Entity& entity = entities->entities[e];
        if (!entity.is_read()) continue;
        labels.insert(entity.label);
        any_labelled = any_labelled || entity.labelled;
        if (!entity.labelled) unlabelled.add(Severity::kWarning, "entity-unlabelled", unlabelled_problem(page, e));
      }
      for (const auto& [from, to] : entities->links) {
        const Entity &a = entities->entities[from], &b = entities->entities[to];
        if (a.is_read() && b.is_read()) pairs.emplace(a.label, b.label);
      }
    });
    if (labels.empty() && fault) throw PageError(*fault);
    if (labels.empty()) {
      const Page first = pages.size() > 0 ? pages.read(0) : Page();
      throw DataError({.what = "no page has entities",
                       .where = pages.size() > 0 ? place(first) : listed(pages.paths()),
                       .found = counted(pages.size(), "page") + " without an entity, this one first",
                       .allowed = "`entities`: [{\"label\", \"start_word\", \"end_word\"}] and `links`: [[from, to]]",
                       .remedy = remedy_with_task(first, "add entities and links to the pages")});
    }
    SeenTargets seen{.config = config};
    seen.config.labels.assign(labels.begin(), labels.end());
    seen.config.link_labels.assign(pairs.begin(), pairs.end());
    if (any_labelled) seen.findings = std::move(unlabelled);
    return seen;
  }
  std::optional<Problem> find_unknown_label(const PageSource& pages, const LabelSet& labels) const override {
    std::optional<Problem> problem;
    read_as_far_as_possible(pages, [&](const Page& page) {
      if (!problem) problem = find_unknown_entity(page, labels);
    });
    return problem;
  }
  std::shared_ptr<const Targets> targets(const TaskConfig& config, bool with_links) const override {
    return link_targets(config, with_links);
  }

  std::vector<std::string> metrics(const TaskConfig&) const override { return {"f1", "precision", "recall"}; }
  std::unique_ptr<Scorer> scorer(const TaskConfig& config, const Dataset& data) const override {
    return link_scorer(config, data);
  }
  std::size_t scoring_bytes(const PageSize& page) const override { return page.pairs * kPairBytes; }
  // The words of entities are written again with each, and any pair may be a link.
  std::size_t prediction_bytes(const PageSize& page, const TaskConfig&,
                               const PredictionOptions& options) const override {
    constexpr std::size_t kEntity = 1600, kLink = 250, kScore = 700;
    return (page.words + page.subject_words) * kPageJsonBytesPerWord + page.subjects * kEntity +
           page.pairs * (kPairBytes + kLink + (options.all_scores ? kScore : 0));
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
