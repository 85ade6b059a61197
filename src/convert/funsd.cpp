// FUNSD's annotations, which src/data reads.
#include "base/file.h"
#include "convert/readers.h"
#include "data/page_source.h"
#include "tasks/relation_extraction/entities.h"

namespace plimsoll {
namespace {

constexpr Loss kDangling{"link leads to an entity without words", "links lead to entities without words"};

}  // namespace

bool is_funsd(const Evidence& evidence) { return evidence.has("form"); }

void read_funsd(const std::filesystem::path& file, const Reading& reading) {
  const ReadOptions options{.segment_boxes = reading.options.segment_boxes, .target = &entity_reader()};
  const Page read = parse_funsd_page(read_text_file(file, kLongestFile), file, {}, options);
  FoundPage page = new_page(file, 1, 1);
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
    reading.losses.add(kDangling, page.where, entities->dangling.size());
  }
  reading.take(std::move(page));
}

}  // namespace plimsoll
