#include "tasks/relation_extraction/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "tasks/parts/other_task.h"
#include "tasks/relation_extraction/entities.h"
#include "tasks/relation_extraction/links.h"

namespace plimsoll {
namespace {

constexpr const char* kEntities = "`entities`: [{\"label\": …, \"start_word\": …, \"end_word\": …}]";

Problem unknown_entity_problem(const Page& page, std::size_t number, const Entity& entity, const LabelSet& labels) {
  return {.what = "an entity's label is not in the label set",
          .where = fmt::format("{}, entity {}", place(page), number),
          .found = in_quotes(entity.label),
          .allowed = labels.listed(),
          .remedy = kUnknownLabelRemedy};
}

Problem no_entities_problem(const Page& page) {
  return {.what = "a page has no entities",
          .where = place(page),
          .found = "neither `entities` nor `fields` nor `labels` of its words",
          .allowed = kEntities,
          .remedy = remedy_with_task(
              page, "add entities to the page, or predict them first with a model for token-classification")};
}

Problem no_links_problem(const Page& page) {
  return {.what = "a page has no links",
          .where = place(page),
          .found = "no `links`",
          .allowed = "`links`: [[from, to], …], numbers of its entities; an empty list where none are linked",
          .remedy = "add links to the page, or omit it"};
}

void check_overlaps(const Page& page, const PageEntities& entities, Findings& findings) {
  std::vector<std::size_t> order;
  for (std::size_t e = 0; e < entities.entities.size(); ++e) {
    if (entities.entities[e].is_read()) order.push_back(e);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t e) { return entities.entities[e].begin; });
  for (std::size_t i = 1, widest = 0; i < order.size(); ++i) {
    const Entity &before = entities.entities[order[widest]], &now = entities.entities[order[i]];
    if (now.begin < before.end) {
      findings.add(Severity::kWarning, "entities-overlap",
                   {.what = "two entities of a page share words",
                    .where = fmt::format("{}, entities {} and {}", place(page), order[widest], order[i]),
                    .found = fmt::format("words {} to {} and {} to {}", before.begin, before.end, now.begin, now.end),
                    .allowed = "each word in one entity at most",
                    .remedy = "cut one of the entities, or omit it"});
    }
    if (now.end > before.end) widest = i;
  }
}

void check_links(const Page& page, const PageEntities& entities, Findings& findings) {
  for (const auto& [from, to] : entities.repeated) {
    findings.add(Severity::kWarning, "link-twice",
                 {.what = "a page names the same link twice; it counts once",
                  .where = place(page),
                  .found = fmt::format("[{}, {}]", from, to),
                  .allowed = "each link once",
                  .remedy = "omit the second"});
  }
  for (const auto& [from, to] : entities.dangling) {
    findings.add(Severity::kWarning, "link-nowhere",
                 {.what = "a link does not join two entities of the page, and is left out",
                  .where = place(page),
                  .found = fmt::format("`linking` [{}, {}]", from, to),
                  .allowed = "the `id` of two different entities of the page",
                  .remedy = "correct the ids, or omit the link; FUNSD's own files have a few such links"});
  }
}

class LinkTargets final : public Targets {
 public:
  LinkTargets(const TaskConfig& config, bool with_links)
      : pairs_(config), with_links_(with_links), most_(config.max_entities) {
    if (!config.labels.empty()) labels_.emplace(config.labels, "the labels");
  }

  void encode(const PageWindow& window, EncodedExample& out) const override {
    const PageEntities* const page = entities_of(window.page);
    if (page == nullptr) throw PageError("entities-missing", no_entities_problem(window.page));
    if (with_links_ && !page->linked) throw PageError("links-missing", no_links_problem(window.page));
    const auto size = static_cast<std::size_t>(most_);
    out.targets.assign(2 * size + size * size, kIgnoredLabel);
    out.loss_terms = 0;
    std::ranges::fill(out.predicts, kNoWord);
    const std::vector<Placed> placed = entities_in(window, *page);
    if (placed.size() > size) throw PageError("too-many-entities", too_many_problem(window.page, placed.size()));
    std::vector<std::size_t> here;  // entities of the window
    for (const auto& [e, token] : placed) {
      const std::size_t row = window.first_row + static_cast<std::size_t>(token);
      out.predicts[row] = static_cast<std::int32_t>(page->entities[e].begin);
      out.targets[here.size()] = static_cast<std::int32_t>(row);
      out.targets[size + here.size()] = label_id(window.page, e, page->entities[e]);
      here.push_back(e);
    }
    if (!with_links_) return;
    for (std::size_t i = 0; i < here.size(); ++i) {
      for (std::size_t j = 0; j < here.size(); ++j) {
        if (i == j || !pairs_.may_link(out.targets[size + i], out.targets[size + j])) continue;
        const bool linked = std::binary_search(page->links.begin(), page->links.end(), Link{here[i], here[j]});
        out.targets[2 * size + i * size + j] = linked ? 1 : 0;
        ++out.loss_terms;
      }
    }
  }

  void check(const Page& page, bool required, Findings& findings,
             std::map<std::string, std::uint64_t>& labels) const override {
    const PageEntities* const entities = entities_of(page);
    if (entities == nullptr) {
      findings.add(Severity::kError, "entities-missing", no_entities_problem(page));
      return;
    }
    if (required && !entities->linked) findings.add(Severity::kError, "links-missing", no_links_problem(page));
    if (required) check_links(page, *entities, findings);
    check_overlaps(page, *entities, findings);
    for (std::size_t e = 0; e < entities->entities.size(); ++e) {
      const Entity& entity = entities->entities[e];
      if (!entity.is_read()) continue;
      if (!labels_ || labels_->find_in_any_case(entity.label)) {
        ++labels[entity.label];
      } else {
        findings.add(Severity::kError, "label-unknown", unknown_entity_problem(page, e, entity, *labels_));
      }
    }
  }

  void check_windows(const PageWindow& page_windows, bool required, Findings& findings) const override {
    const Page& page = page_windows.page;
    const PageEntities* const entities = entities_of(page);
    if (entities == nullptr) return;
    std::set<Link> apart(entities->links.begin(), entities->links.end());
    std::erase_if(apart, [entities](const Link& link) {  // what could not be read is reported as such
      return !entities->entities[link.first].is_read() || !entities->entities[link.second].is_read();
    });
    PageWindow window = page_windows;
    for (window.index = 0; window.index < window.windows.size(); ++window.index) {
      std::set<std::size_t> here;
      for (const Placed& placed : entities_in(window, *entities)) here.insert(placed.entity);
      if (here.size() > static_cast<std::size_t>(most_)) {
        findings.add(Severity::kError, "too-many-entities", too_many_problem(page, here.size()));
      }
      std::erase_if(apart,
                    [&here](const Link& link) { return here.contains(link.first) && here.contains(link.second); });
    }
    if (!required) return;
    for (const auto& [from, to] : apart) {
      findings.add(Severity::kWarning, "link-cut",
                   {.what = "no window holds both entities of a link, so it is not learnt",
                    .where = place(page),
                    .found = fmt::format("[{}, {}] in {}", from, to, counted(window.windows.size(), "window")),
                    .allowed = "both in one window",
                    .remedy = "pass a larger --max-length, or a larger --stride, by which windows overlap"});
    }
  }

  std::optional<Problem> nothing_to_learn(const TargetCounts& counts) const override {
    if (counts.positives > 0) return std::nullopt;
    return Problem{.what = "no page has a link",
                   .found = counted(counts.target_pages, "page") + " with an empty list of links",
                   .allowed = "links on some of the pages",
                   .remedy = "check how the links were written; all that a model can learn here is to find none"};
  }

 private:
  struct Placed {
    std::size_t entity = 0;
    std::int32_t token = 0;  // its first token, counted from the window's beginning
  };

  // Overlapping entities may share a first token, because words before it have no tokens; if they begin at different
  // words, only the first is kept.
  static std::vector<Placed> entities_in(const PageWindow& window, const PageEntities& page) {
    const Window& span = window.windows[window.index];
    std::map<std::int32_t, std::size_t> begins;  // the word at which entities with this first token begin
    std::vector<Placed> placed;
    for (std::size_t e = 0; e < page.entities.size(); ++e) {
      const std::int32_t token = first_token(page.entities[e], window.tokens);
      if (token < span.begin || token >= span.end) continue;
      if (begins.try_emplace(token, page.entities[e].begin).first->second != page.entities[e].begin) continue;
      placed.push_back({e, token - span.begin});
    }
    return placed;
  }

  static std::int32_t first_token(const Entity& entity, const PageTokens& tokens) {
    for (std::size_t word = entity.begin; word < entity.end; ++word) {
      if (tokens.first_of_word[word] != kNoWord) return tokens.first_of_word[word];
    }
    return kNoWord;
  }

  std::int32_t label_id(const Page& page, std::size_t number, const Entity& entity) const {
    plimsoll::check(labels_.has_value(), "examples are made once the labels are known");
    const std::optional<std::int32_t> id = labels_->find_in_any_case(entity.label);
    if (!id) throw PageError("label-unknown", unknown_entity_problem(page, number, entity, *labels_));
    return *id;
  }

  Problem too_many_problem(const Page& page, std::size_t found) const {
    return {
        .what = "a window holds too many entities",
        .where = place(page),
        .found = fmt::format("{} of the page's {} entities", found, entities_of(page)->entities.size()),
        .allowed = fmt::format("at most {}", most_),
        .remedy = fmt::format("pass --max-length {}: windows of that length have fewer entities; or set max_entities "
                              "in the model's config.json",
                              most_)};
  }

  std::optional<LabelSet> labels_;  // nothing while the labels are unknown
  LinkLabels pairs_;
  bool with_links_;
  std::int64_t most_;  // E
};

}  // namespace

std::optional<Problem> find_unknown_entity(const Page& page, const LabelSet& labels) {
  const PageEntities* const entities = entities_of(page);
  for (std::size_t e = 0; entities != nullptr && e < entities->entities.size(); ++e) {
    const Entity& entity = entities->entities[e];
    if (entity.is_read() && !labels.find_in_any_case(entity.label))
      return unknown_entity_problem(page, e, entity, labels);
  }
  return std::nullopt;
}

std::shared_ptr<const Targets> link_targets(const TaskConfig& config, bool with_links) {
  return std::make_shared<LinkTargets>(config, with_links);
}

}  // namespace plimsoll
