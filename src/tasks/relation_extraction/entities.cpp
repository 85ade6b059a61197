#include "tasks/relation_extraction/entities.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/counted.h"
#include "data/label_scheme.h"
#include "data/packed.h"
#include "data/page_faults.h"
#include "tasks/parts/word_range.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kUnnamed = "entity";  // the label of an entity without one

bool is_text(const json& value) {
  return value.is_string() && invalid_utf8_offset(value.get_ref<const std::string&>()) == std::string_view::npos;
}

// Entities and links of one page as they are read.
class Reading {
 public:
  Reading(const Page& page, PageFaults* faults) : page_(page), faults_(faults) {}

  void read_entities(const json& list, const std::string& key) {
    if (!list.is_array()) {
      report(faults_, wrong_type(page_, fmt::format("`{}`", key), list, "an array of objects"));
      unread_ = true;
      return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("`{}`, number {}", key, i);
      // An entity with a fault keeps its number, so that links to the others stay correct.
      add(list[i], where, read_span(list[i], where));
    }
  }

  // Reads the annotation of a page in FUNSD's format.
  void read_form(const json& form) {
    std::size_t word = 0;
    for (std::size_t i = 0; i < form.size(); ++i) {
      const json& item = form[i];
      const std::string where = fmt::format("entity {}", i);
      const std::size_t begin = word;
      for (const json& each : item.is_object() ? item.value("words", json::array()) : json::array()) {
        const json text = each.is_object() ? each.value("text", json()) : json();
        // Words that are only white space are left out (data/page_source.h).
        const bool blank =
            text.is_string() && text.get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos;
        word += blank ? 0 : 1;
      }
      const std::size_t end = std::min(word, page_.words.size());
      if (begin < end) {
        Entity entity{.label = kUnnamed, .begin = begin, .end = end};
        read_label(item, where, entity);
        add(item, where, std::move(entity));
      } else {
        items_.push_back({.value = &item, .where = where});
      }
    }
  }

  // Reads the runs of words that `labels` mark. Only names show the scheme, so numbers are skipped.
  void read_labels(const json& labels) {
    std::vector<std::string> names;
    for (const json& label : labels) {
      if (!is_text(label)) return;
      names.push_back(label.get<std::string>());
    }
    if (names.size() != page_.words.size()) return;
    std::vector<std::string> distinct = names;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const WordSpan& span : entity_spans(names, label_scheme(distinct))) {
      result_.entities.push_back({.label = span.name, .begin = span.begin, .end = span.end});
    }
  }

  void read_links(const json& links) {
    result_.linked = true;
    if (!links.is_array()) {
      report(faults_, wrong_type(page_, "`links`", links, "an array of pairs [from, to]"));
      return;
    }
    const std::size_t entities = result_.entities.size();
    std::set<Link> seen;
    for (std::size_t i = 0; i < links.size(); ++i) {
      const auto known = [&](const json& value) { return value.is_number_integer() && value >= 0 && value < entities; };
      const json& link = links[i];
      if (link.is_array() && link.size() == 2 && known(link[0]) && known(link[1]) && link[0] != link[1]) {
        const Link read(link[0].get<std::size_t>(), link[1].get<std::size_t>());
        (seen.insert(read).second ? result_.links : result_.repeated).push_back(read);
      } else {
        refuse_link(fmt::format("link {}", i), link, "[from, to]: numbers of two different entities of the page");
      }
    }
  }

  // Reads `linking` of the entities. The links of entities that were left out (FUNSD has some without words) are left
  // out, too.
  void read_linking() {
    const auto links = [](const Item& item) {
      return item.value->is_object() && item.value->contains("linking") && !item.value->at("linking").is_null();
    };
    if (std::none_of(items_.begin(), items_.end(), links)) return;
    result_.linked = true;
    const bool known = read_ids();
    for (const Item& item : items_) {
      if (!links(item)) continue;
      const json& linking = item.value->at("linking");
      if (!linking.is_array()) {
        report(faults_, wrong_type(page_, item.where + ", `linking`", linking, "an array of pairs of entities' `id`"));
        continue;
      }
      for (const json& link : linking) {
        if (link.is_array() && link.size() == 2 && link[0].is_number_integer() && link[1].is_number_integer()) {
          add_linking({link[0].get<std::int64_t>(), link[1].get<std::int64_t>()}, known);
        } else {
          refuse_link(item.where + ", `linking`", link, "pairs of entities' `id`");
        }
      }
    }
  }

  bool is_unread() const { return unread_; }
  std::shared_ptr<const PageTarget> take() {
    if (unread_) return unread_target();
    sort_once(result_.links);
    sort_once(result_.dangling);
    return std::make_shared<const PageEntities>(std::move(result_));
  }

 private:
  // An entity of the JSON, and its number on the page unless it was left out.
  struct Item {
    const json* value = nullptr;
    std::string where{};
    std::optional<std::size_t> number{};
  };

  template <typename T>
  static void sort_once(std::vector<T>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }

  // Returns false if the label cannot be read. An entity without a label keeps kUnnamed.
  bool read_label(const json& item, const std::string& where, Entity& entity) {
    const json label = item.is_object() ? item.value("label", json()) : json();
    entity.labelled = !label.is_null();
    if (!entity.labelled) return true;
    if (!is_text(label)) {
      report(faults_, wrong_type(page_, where + ", `label`", label, "a name"));
      return false;
    }
    entity.label = label.get<std::string>();
    if (entity.label.find_first_not_of(" \t\r\n") != std::string::npos) return true;
    report(faults_, PageError("label-unknown", {.what = "an entity's label has no name",
                                                .where = fmt::format("{}, {}", place(page_), where),
                                                .found = shown(label),
                                                .allowed = "a name, or no `label` on any entity",
                                                .remedy = "name the label"}));
    return false;
  }

  // Returns an entity without words for one with a fault.
  Entity read_span(const json& value, const std::string& where) {
    Entity entity{.label = kUnnamed};
    if (!read_label(value, where, entity)) return {.label = kUnnamed};
    const std::optional<WordRange> range = read_word_range(value, page_.words.size());
    if (!range) {
      report(faults_,
             PageError("entity-outside", {.what = "an entity is not a span of the page's words",
                                          .where = fmt::format("{}, {}", place(page_), where),
                                          .found = found_word_range(value, page_.words.size()),
                                          .allowed = kAllowedWordRange,
                                          .remedy = "count words from 0; end_word is the one after the entity"}));
      return {.label = kUnnamed};
    }
    entity.begin = range->begin;
    entity.end = range->end;
    const json confidence = value.value("confidence", json());
    if (confidence.is_number()) entity.confidence = confidence.get<double>();
    return entity;
  }

  void add(const json& item, std::string where, Entity entity) {
    items_.push_back({.value = &item, .where = std::move(where), .number = result_.entities.size()});
    result_.entities.push_back(std::move(entity));
  }

  // Returns false, and reports it, if not every entity can be identified by its id. The id of an entity without one is
  // its place in the list.
  bool read_ids() {
    bool good = true;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      const json id = item.value->is_object() ? item.value->value("id", json()) : json();
      if (!id.is_null() && !id.is_number_integer()) {
        report(faults_, wrong_type(page_, item.where + ", `id`", id, "a whole number"));
        good = false;
        continue;
      }
      const std::int64_t number = id.is_null() ? static_cast<std::int64_t>(i) : id.get<std::int64_t>();
      if (by_id_.emplace(number, item.number).second) continue;
      good = false;
      report(faults_,
             PageError("duplicate-entity", {.what = "two entities of a page have the same id",
                                            .where = fmt::format("{}, {}", place(page_), item.where),
                                            .found = fmt::format("{}", number),
                                            .allowed = "an id for each entity",
                                            .remedy = "number the page's entities: `linking` names them by `id`"}));
    }
    return good;
  }

  void add_linking(std::pair<std::int64_t, std::int64_t> ids, bool known) {
    const auto from = by_id_.find(ids.first), to = by_id_.find(ids.second);
    if (from == by_id_.end() || to == by_id_.end() || from == to) {
      if (known) result_.dangling.push_back(ids);
    } else if (from->second && to->second) {
      result_.links.emplace_back(*from->second, *to->second);
    } else {
      result_.wordless.insert(ids);
    }
  }

  void refuse_link(const std::string& where, const json& link, std::string allowed) {
    report(faults_, PageError("link-outside", {.what = "a link does not join two entities of the page",
                                               .where = fmt::format("{}, {}", place(page_), where),
                                               .found = fmt::format("{} on a page of {}", shown(link),
                                                                    counted(result_.entities.size(), "entity")),
                                               .allowed = std::move(allowed),
                                               .remedy = "count the page's entities from 0; a link is [from, to]"}));
  }

  const Page& page_;
  PageFaults* faults_;
  bool unread_ = false;  // the value of the key is not a list of entities
  PageEntities result_;
  std::vector<Item> items_;
  std::map<std::int64_t, std::optional<std::size_t>> by_id_;
};

class EntityReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const json& object, const Page& page, PageFaults* faults) const override {
    const auto has = [&](const char* key) { return object.contains(key) && !object.at(key).is_null(); };
    Reading reading(page, faults);
    if (has("form") && object.at("form").is_array()) {
      reading.read_form(object.at("form"));
    } else if (has("entities")) {
      reading.read_entities(object.at("entities"), "entities");
    } else if (has("fields")) {
      reading.read_entities(object.at("fields"), "fields");
    } else if (has("labels") && object.at("labels").is_array()) {
      reading.read_labels(object.at("labels"));
    } else {
      return nullptr;
    }
    reading.read_linking();
    if (has("links") && !reading.is_unread()) reading.read_links(object.at("links"));
    return reading.take();
  }
  std::string_view key() const override { return "entities"; }

  void pack(const PageTarget& target, Packer& out) const override {
    const auto& page = dynamic_cast<const PageEntities&>(target);
    out.count(page.entities.size());
    for (const Entity& entity : page.entities) {
      out.text(entity.label);
      out.count(entity.begin);
      out.count(entity.end);
      out.count((entity.confidence ? 1U : 0U) | (entity.labelled ? 0U : 2U));
      if (entity.confidence) out.real(*entity.confidence);
    }
    out.count(page.linked ? 1 : 0);
    for (const std::vector<Link>* const links : {&page.links, &page.repeated}) {
      out.count(links->size());
      for (const auto& [from, to] : *links) {
        out.count(from);
        out.count(to);
      }
    }
    out.count(page.dangling.size());
    for (const auto& [from, to] : page.dangling) {
      out.number(from);
      out.number(to);
    }
  }
  std::shared_ptr<const PageTarget> unpack(Unpacker& in) const override {
    auto page = std::make_shared<PageEntities>();
    page->entities.resize(in.size());
    for (Entity& entity : page->entities) {
      entity.label = in.text();
      entity.begin = static_cast<std::size_t>(in.count());
      entity.end = static_cast<std::size_t>(in.count());
      const std::uint64_t state = in.count();
      check_packed(state <= 3);
      entity.labelled = (state & 2U) == 0;
      if ((state & 1U) != 0) entity.confidence = in.real();
    }
    page->linked = in.count() != 0;
    for (std::vector<Link>* const links : {&page->links, &page->repeated}) {
      links->resize(in.size());
      for (auto& [from, to] : *links) {
        from = static_cast<std::size_t>(in.count());
        to = static_cast<std::size_t>(in.count());
      }
    }
    page->dangling.resize(in.size());
    for (auto& [from, to] : page->dangling) {
      from = in.number();
      to = in.number();
    }
    return page;
  }
};

}  // namespace

const PageEntities* entities_of(const Page& page) { return dynamic_cast<const PageEntities*>(page.target.get()); }

const TargetReader& entity_reader() {
  static const EntityReader reader;
  return reader;
}

}  // namespace plimsoll
