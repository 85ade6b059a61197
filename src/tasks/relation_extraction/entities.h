// The entities of a page and the links between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/targets.h"

namespace plimsoll {

// Words [begin, end) of the page.
struct Entity {
  std::string label;
  std::size_t begin = 0, end = 0;
  std::optional<double> confidence{};  // of predicted ones
  bool labelled = true;                // false: the page names no label for it

  // Returns whether it could be read; if not, a fault says what is wrong.
  bool is_read() const { return begin < end; }
};

// A link from one entity to another, by their numbers on the page: from a question to its answer.
using Link = std::pair<std::size_t, std::size_t>;

// `entities` of a page: [{"label", "start_word", "end_word"}]; end_word is exclusive. If the page has none, its
// `fields` (what `predict` writes for labelled words), or the entities that its words' `labels` form. `links` of a
// page: [[from, to]]; or `linking` of an entity, as in FUNSD: pairs of the entities' `id`, each of which a page's file
// has twice. FUNSD's own files are read, too.
struct PageEntities final : PageTarget {
  std::vector<Entity> entities;
  std::vector<Link> links{};     // each once, ascending
  std::vector<Link> repeated{};  // links that the page's `links` names more than once
  // Ids in `linking` that do not name two entities of the page; each pair once, ascending.
  std::vector<std::pair<std::int64_t, std::int64_t>> dangling{};
  // Those of entities without words, which FUNSD has; only conversions ask for them.
  std::set<std::pair<std::int64_t, std::int64_t>> wordless{};
  bool linked = false;  // the page says which links it has, possibly none

  std::size_t size() const override { return links.size(); }
  std::size_t subjects() const override { return entities.size(); }
  std::size_t subject_words() const override {
    std::size_t words = 0;
    for (const Entity& entity : entities) words += entity.end > entity.begin ? entity.end - entity.begin : 0;
    return words;
  }
};
// Returns nullptr if the page has none.
const PageEntities* entities_of(const Page& page);

const TargetReader& entity_reader();

}  // namespace plimsoll
