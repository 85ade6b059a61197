// The entities of a page and the links between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

  // Whether it could be read; a fault says what is wrong with another one.
  bool is_read() const { return begin < end; }
};

// From an entity to another one, by their numbers on the page: from a question to its answer.
using Link = std::pair<std::size_t, std::size_t>;

// `entities` of a page: [{"label", "start_word", "end_word"}]; end_word is exclusive. Where the page has none, its
// `fields` (what `predict` writes of labelled words), or the entities that `labels` of its words form. `links` of a
// page:
// [[from, to]]; or `linking` of an entity, as FUNSD has it: pairs of the entities' `id`, of which a page's file names
// each twice. A file of FUNSD itself is read too.
struct PageEntities final : PageTarget {
  std::vector<Entity> entities;
  std::vector<Link> links{};     // each once, ascending
  std::vector<Link> repeated{};  // those that `links` of the page names again
  // Of `linking`, the ids of links that no two entities of the page have; each once, ascending.
  std::vector<std::pair<std::int64_t, std::int64_t>> dangling{};
  bool linked = false;  // the page says which links there are; there may be none

  std::size_t size() const override { return links.size(); }
};
// nullptr: the page has none.
const PageEntities* entities_of(const Page& page);

const TargetReader& entity_reader();

}  // namespace plimsoll
