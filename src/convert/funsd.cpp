// FUNSD's annotations, which src/data reads, and XFUND's, a file of many such pages.
#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "convert/readers.h"
#include "data/page_source.h"
#include "tasks/relation_extraction/entities.h"

namespace plimsoll {
namespace {

constexpr Loss kDangling{"link leads to an entity without words", "links lead to entities without words"};

void read_form(std::string_view json, FoundPage page, const Reading& reading) {
  const ReadOptions options{.segment_boxes = reading.options.segment_boxes, .target = &entity_reader()};
  const Page read = parse_funsd_page(json, page.file, {}, options);
  for (std::size_t w = 0; w < read.words.size(); ++w)
    page.words.push_back({.text = read.words[w], .box = read.boxes[w]});
  page.labels = read.labels;
  if (const PageEntities* const entities = entities_of(read)) {
    page.has_entities = true;
    for (const Entity& entity : entities->entities) {
      page.entities.push_back({.label = entity.label, .begin = entity.begin, .end = entity.end});
    }
    page.has_links = entities->linked;
    page.links = entities->links;
    reading.losses.add(kDangling, page.where, entities->dangling.size() + entities->wordless.size());
  }
  reading.take(std::move(page));
}

}  // namespace

bool is_funsd(const Evidence& evidence) { return evidence.has("form"); }

void read_funsd(const std::filesystem::path& file, const Reading& reading) {
  read_form(read_text_file(file, kLongestFile), new_page(file, 1, 1), reading);
}

bool is_xfund(const Evidence& evidence) {
  return evidence.has("documents[].document[].words") || evidence.has("documents[].img");
}

void read_xfund(const std::filesystem::path& file, const Reading& reading) {
  const std::string name = file.string();
  const nlohmann::json json = parse_json_file(read_text_file(file, kLongestFile), name);
  const JsonNode documents = JsonNode(json, name).at("documents");
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const JsonNode document = documents.item(i);
    FoundPage page = new_page(file, static_cast<int>(i) + 1, documents.size());
    page.document.clear();  // each is a form of its own
    page.number = 0;
    if (const std::optional<JsonNode> id = document.find("id"); id && id->is_text()) page.id = id->text();
    if (const std::optional<JsonNode> picture = document.find("img")) {
      if (const std::optional<JsonNode> image = picture->find("fname")) page.image = image->text();
      if (const std::optional<JsonNode> width = picture->find("width")) page.width = width->number();
      if (const std::optional<JsonNode> height = picture->find("height")) page.height = height->number();
    }
    const JsonNode form = document.at("document");
    if (!form.is_list()) form.refuse("a form is no list of its fields", "[{\"label\", \"words\", \"linking\", …}]");
    read_form(nlohmann::json{{"form", form.value()}}.dump(), std::move(page), reading);
  }
}

}  // namespace plimsoll
