#include "tasks/relation_extraction/entities.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "data/label_scheme.h"
#include "data/packed.h"
#include "data/page_faults.h"
#include "tasks/parts/word_range.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kUnnamed = "entity";  // the label of an entity that has none

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
      return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      Entity entity{.label = kUnnamed};
      if (read_span(list[i], fmt::format("`{}`, number {}", key, i), entity)) add(list[i], std::move(entity));
    }
  }

  // The annotation of a page as FUNSD's files have it.
  void read_form(const json& form) {
    std::size_t word = 0;
    for (const json& item : form) {
      const std::size_t begin = word;
      for (const json& each : item.is_object() ? item.value("words", json::array()) : json::array()) {
        const json text = each.is_object() ? each.value("text", json()) : json();
        // Words that are only spaces are left out (data/page_source.h).
        word +=
            text.is_string() && text.get_ref<const std::string&>().find_first_not_of(' ') == std::string::npos ? 0 : 1;
      }
      const std::size_t end = std::min(word, page_.words.size());
      if (begin < end) add(item, {.label = label_of(item), .begin = begin, .end = end});
    }
  }

  // The runs of words that `labels` mark. Names alone tell the scheme, so numbers are passed over.
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
    for (std::size_t i = 0; i < links.size(); ++i) {
      const auto known = [&](const json& value) {
        return value.is_number_integer() && value >= 0 && value < result_.entities.size();
      };
      const json& link = links[i];
      if (link.is_array() && link.size() == 2 && known(link[0]) && known(link[1]) && link[0] != link[1]) {
        result_.links.emplace_back(link[0].get<std::size_t>(), link[1].get<std::size_t>());
      } else {
        refuse_link(
            fmt::format("link {}", i), link,
            fmt::format("two different entities, 0 to {}", std::max<std::size_t>(1, result_.entities.size()) - 1));
      }
    }
  }

  // `linking` of the entities read. Entities that were left out (FUNSD has some without words) take their links along.
  void read_linking() {
    for (const auto& [entity, linking] : linking_) {
      result_.linked = true;
      for (const json& link : *linking) {
        if (!link.is_array() || link.size() != 2 || !link[0].is_number_integer() || !link[1].is_number_integer()) {
          refuse_link(fmt::format("entity {}, `linking`", entity), link, "pairs of entities' `id`");
          continue;
        }
        const auto from = by_id_.find(link[0].get<std::int64_t>()), to = by_id_.find(link[1].get<std::int64_t>());
        if (from == by_id_.end() || to == by_id_.end() || from == to) continue;
        result_.links.emplace_back(from->second, to->second);
      }
    }
  }

  std::shared_ptr<const PageEntities> take() {
    std::sort(result_.links.begin(), result_.links.end());
    result_.links.erase(std::unique(result_.links.begin(), result_.links.end()), result_.links.end());
    return std::make_shared<const PageEntities>(std::move(result_));
  }

 private:
  static std::string label_of(const json& item) {
    const json label = item.is_object() ? item.value("label", json()) : json();
    return is_text(label) && !label.get_ref<const std::string&>().empty() ? label.get<std::string>() : kUnnamed;
  }

  bool read_span(const json& value, const std::string& where, Entity& entity) {
    if (value.is_object() && value.contains("label") && !is_text(value.at("label"))) {
      report(faults_, wrong_type(page_, where + ", `label`", value.at("label"), "a name"));
      return false;
    }
    const std::optional<WordRange> range = read_word_range(value, page_.words.size());
    if (!range) {
      report(faults_,
             PageError("entity-outside", {.what = "an entity is not a span of the page's words",
                                          .where = fmt::format("{}, {}", place(page_), where),
                                          .found = shown(value),
                                          .allowed = allowed_word_range(page_.words.size()),
                                          .remedy = "count words from 0; end_word is the one behind the entity"}));
      // Its number stays taken, so that links to others mean what they say.
      entity.end = 0;
      return true;
    }
    entity = {.label = label_of(value), .begin = range->begin, .end = range->end};
    const json confidence = value.value("confidence", json());
    if (confidence.is_number()) entity.confidence = confidence.get<double>();
    return true;
  }

  void add(const json& item, Entity entity) {
    const json id = item.is_object() ? item.value("id", json()) : json();
    const std::size_t number = result_.entities.size();
    by_id_.emplace(id.is_number_integer() ? id.get<std::int64_t>() : static_cast<std::int64_t>(number), number);
    if (item.is_object() && item.contains("linking") && item.at("linking").is_array()) {
      linking_.emplace_back(number, &item.at("linking"));
    }
    result_.entities.push_back(std::move(entity));
  }

  void refuse_link(const std::string& where, const json& link, std::string allowed) {
    report(faults_, PageError("link-outside", {.what = "a link does not join two entities of the page",
                                               .where = fmt::format("{}, {}", place(page_), where),
                                               .found = shown(link),
                                               .allowed = std::move(allowed),
                                               .remedy = "count the page's entities from 0; a link is [from, to]"}));
  }

  const Page& page_;
  PageFaults* faults_;
  PageEntities result_;
  std::map<std::int64_t, std::size_t> by_id_;
  std::vector<std::pair<std::size_t, const json*>> linking_;
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
    if (has("links")) reading.read_links(object.at("links"));
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
      out.count(entity.confidence ? 1 : 0);
      if (entity.confidence) out.real(*entity.confidence);
    }
    out.count(page.linked ? 1 : 0);
    out.count(page.links.size());
    for (const auto& [from, to] : page.links) {
      out.count(from);
      out.count(to);
    }
  }
  std::shared_ptr<const PageTarget> unpack(Unpacker& in) const override {
    auto page = std::make_shared<PageEntities>();
    page->entities.resize(in.size());
    for (Entity& entity : page->entities) {
      entity.label = in.text();
      entity.begin = static_cast<std::size_t>(in.count());
      entity.end = static_cast<std::size_t>(in.count());
      if (in.count() != 0) entity.confidence = in.real();
    }
    page->linked = in.count() != 0;
    page->links.resize(in.size());
    for (auto& [from, to] : page->links) {
      from = static_cast<std::size_t>(in.count());
      to = static_cast<std::size_t>(in.count());
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
