// Label Studio's export (JSON): tasks with annotations, whose results with the same id describe one rectangle.
//
// A task that `convert` wrote keeps its page's words and boxes in its data. Rectangles then say which of these words
// they label, and annotators need not type text. In other tasks, the words are the text that was typed for each
// rectangle.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "convert/label_studio_project.h"
#include "convert/readers.h"
#include "data/image.h"

namespace plimsoll {
namespace {

constexpr Loss kMoreAnnotations{"annotation beside another one of its task is left out",
                                "annotations beside others of their tasks are left out"};
constexpr Loss kUnlabelled{
    "task has no annotation, so its page has no labels; predictions are not taken for labels",
    "tasks have no annotation, so their pages have no labels; predictions are not taken for labels"};
constexpr Loss kSkipped{"page of a task has neither words nor annotations and is left out",
                        "pages of tasks have neither words nor annotations and are left out"};
constexpr Loss kEmptyRectangle{"rectangle has no text and no word below it, and is left out",
                               "rectangles have no text and no word below them, and are left out"};
constexpr Loss kNoRectangle{"text or label belongs to no rectangle and is left out",
                            "texts or labels belong to no rectangle and are left out"};
constexpr Loss kOverlap{"word lies in several rectangles and belongs to the one that covers most of it",
                        "words lie in several rectangles and belong to the one that covers most of them"};
constexpr Loss kRetyped{"rectangle was typed with another number of words: its box is divided among them",
                        "rectangles were typed with another number of words: their boxes are divided among them"};
constexpr Loss kManyLabels{"rectangle has several labels, of which the first is taken",
                           "rectangles have several labels, of which the first is taken"};
constexpr Loss kOtherResult{
    "result is neither a rectangle, a polygon, a text, a choice nor a relation, and is left out",
    "results are neither rectangles, polygons, texts, choices nor relations, and are left out"};
constexpr Loss kDanglingRelation{"relation leads to what is no labelled rectangle of its page, and is left out",
                                 "relations lead to what are no labelled rectangles of their pages, and are left out"};
constexpr Loss kTurned{
    "page was turned in Label Studio: its boxes are taken for those of the picture as it is stored",
    "pages were turned in Label Studio: their boxes are taken for those of the pictures as they are stored"};

// A rectangle, with the content of all results with its id.
struct Region {
  std::string id;
  bool placed = false;
  bool unchanged = false;  // it is where `convert` drew it
  Rectangle rectangle{};   // in pixels
  std::optional<std::string> label{};
  std::string text{};

  Box box() const { return enclosing(rectangle); }
};

struct Relation {
  std::string from, to;
};

double area(const Box& box) { return std::max(0.0, box[2] - box[0]) * std::max(0.0, box[3] - box[1]); }

// Returns the share of the word that lies in the box: 0 to 1.
double share_in(const Box& word, const Box& box) {
  const Box common = {std::max(word[0], box[0]), std::max(word[1], box[1]), std::min(word[2], box[2]),
                      std::min(word[3], box[3])};
  if (area(word) > 0) return area(common) / area(word);
  const double x = (word[0] + word[2]) / 2, y = (word[1] + word[3]) / 2;
  return x >= box[0] && x <= box[2] && y >= box[1] && y <= box[3] ? 1 : 0;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Words that stay together on the page: those of a region, or a single word without one.
struct Unit {
  std::optional<std::size_t> region{};
  std::vector<FoundWord> words{};

  Box box() const {
    Enclosure all;
    for (const FoundWord& word : words) all.add(word.box);
    return all.box();
  }
};

// True if a reader comes to `box` before `other`: it is above, or in one line and to the left.
bool stands_before(const Box& box, const Box& other) {
  const double middle = (box[1] + box[3]) / 2;
  if (other[1] > middle) return true;
  return other[3] > middle && other[0] >= (box[0] + box[2]) / 2;
}

class TaskPage {
 public:
  // `several`: the task has other pages, too, to which relations may belong.
  TaskPage(FoundPage& page, bool several, Losses& losses) : page_(page), several_(several), losses_(losses) {}

  std::vector<Region> regions{};
  std::vector<Relation> relations{};
  const std::set<std::string>* tags = nullptr;  // the labels that are those of words, B-TOTAL and I-TOTAL

  Region& region(const std::string& id) {
    const auto [found, added] = by_id_.emplace(id, regions.size());
    if (added) regions.push_back({.id = id});
    return regions[found->second];
  }

  // The entities' words that were written into the task's data, each as [begin, end).
  std::vector<std::pair<std::size_t, std::size_t>> known_spans{};

  // Sets the page's words and labels, from its regions and the words in the task's data.
  void finish(std::vector<FoundWord> words) {
    std::vector<Unit> units = owned(std::move(words));
    for (std::size_t r = 0; r < regions.size(); ++r) {
      if (!regions[r].placed) losses_.add(kNoRectangle, page_.where);
      if (!regions[r].placed || has_unit(units, r)) continue;
      Unit unit{.region = r};
      for (const Piece& piece : divided(is_stale(regions[r]) ? "" : regions[r].text, regions[r].rectangle)) {
        unit.words.push_back({.text = piece.text, .box = piece.box, .segment = regions[r].box()});
      }
      if (unit.words.empty()) {
        losses_.add(kEmptyRectangle, page_.where);
      } else {
        insert(units, std::move(unit));
      }
    }
    std::vector<std::optional<std::size_t>> entity_of(regions.size());
    for (Unit& unit : units) {
      const std::size_t begin = page_.words.size();
      for (FoundWord& word : unit.words) page_.words.push_back(std::move(word));
      const std::optional<std::string> label = unit.region ? regions[*unit.region].label : std::nullopt;
      const bool is_tag = label && tags != nullptr && tags->contains(*label);
      label_words(page_, begin, label.value_or("O"), is_tag);
      if (!label) continue;
      entity_of[*unit.region] = page_.entities.size();
      page_.entities.push_back(
          {.label = is_tag ? label->substr(2) : *label, .begin = begin, .end = page_.words.size()});
    }
    for (const Relation& relation : relations) link(relation, entity_of);
  }

 private:
  static bool has_unit(const std::vector<Unit>& units, std::size_t region) {
    return std::any_of(units.begin(), units.end(), [&](const Unit& unit) { return unit.region == region; });
  }

  // Returns the region to which a word belongs: the one that covers most of it, and at least half; the smallest of
  // several.
  std::optional<std::size_t> owner(const FoundWord& word) {
    std::optional<std::size_t> best;
    double best_share = 0;
    int covering = 0;
    for (std::size_t r = 0; r < regions.size(); ++r) {
      if (!regions[r].placed || regions[r].unchanged) continue;
      const Box box = regions[r].box();
      const double share = share_in(word.box, box);
      if (share < 0.5) continue;
      ++covering;
      const bool more = !best || share > best_share + 1e-9;
      const bool smaller = best && share > best_share - 1e-9 && area(box) < area(regions[*best].box());
      if (!more && !smaller) continue;
      best = r;
      best_share = share;
    }
    if (covering > 1) losses_.add(kOverlap, page_.where);
    return best;
  }

  // Returns, for each word, its region if that is unchanged: such a region has its original words, and no others that
  // happen to lie in it.
  std::vector<std::optional<std::size_t>> unchanged(const std::vector<FoundWord>& words) {
    std::vector<std::optional<std::size_t>> owners(words.size());
    std::vector<bool> taken(known_spans.size());
    const auto text_of = [&](std::pair<std::size_t, std::size_t> span) {
      std::vector<std::string> texts;
      for (std::size_t w = span.first; w < span.second; ++w) texts.push_back(joined(words_of(words[w].text)));
      return joined(texts);
    };
    for (std::size_t r = 0; r < regions.size(); ++r) {
      if (!regions[r].placed) continue;
      const Box box = regions[r].box();
      for (std::size_t s = 0; s < known_spans.size() && !regions[r].unchanged; ++s) {
        Enclosure written;
        for (std::size_t w = known_spans[s].first; w < known_spans[s].second; ++w) written.add(words[w].box);
        const Box& before = written.box();
        const bool same = !taken[s] && !written.empty() && std::abs(before[0] - box[0]) < 0.5 &&
                          std::abs(before[1] - box[1]) < 0.5 && std::abs(before[2] - box[2]) < 0.5 &&
                          std::abs(before[3] - box[3]) < 0.5;
        if (!same) continue;
        regions[r].unchanged = taken[s] = true;
        for (std::size_t w = known_spans[s].first; w < known_spans[s].second; ++w) {
          if (!owners[w]) owners[w] = r;
        }
      }
    }
    for (std::size_t s = 0; s < known_spans.size(); ++s) {
      if (!taken[s]) stale_texts_.push_back(text_of(known_spans[s]));
    }
    return owners;
  }

  // True if a rectangle's text is what `convert` wrote for it before it was moved: nobody typed it. `convert` names
  // rectangles a0, a1, … and p0, p1, …; Label Studio gives those that people draw other names.
  bool is_stale(const Region& region) const {
    const std::string_view id = region.id;
    const bool is_ours = id.size() > 1 && (id[0] == 'a' || id[0] == 'p') &&
                         id.find_first_not_of("0123456789", 1) == std::string_view::npos;
    return is_ours && !region.unchanged &&
           std::ranges::find(stale_texts_, joined(words_of(region.text))) != stale_texts_.end();
  }

  std::vector<Unit> owned(std::vector<FoundWord> words) {
    std::vector<Unit> units;
    std::unordered_map<std::size_t, std::size_t> unit_of;
    const std::vector<std::optional<std::size_t>> owners = unchanged(words);
    for (std::size_t w = 0; w < words.size(); ++w) {
      FoundWord& word = words[w];
      const std::optional<std::size_t> region = owners[w] ? owners[w] : owner(word);
      if (!region) {
        units.push_back({.words = {std::move(word)}});
        continue;
      }
      const auto [found, added] = unit_of.emplace(*region, units.size());
      if (added) units.push_back({.region = region});
      units[found->second].words.push_back(std::move(word));
    }
    for (Unit& unit : units) {
      if (unit.region) retype(unit, regions[*unit.region]);
    }
    return units;
  }

  // Takes the text that was typed for a rectangle, if it differs from that of its words.
  void retype(Unit& unit, const Region& region) {
    const std::vector<std::string> typed = words_of(region.text);
    std::vector<std::string> known;
    for (FoundWord& word : unit.words) {
      known.push_back(joined(words_of(word.text)));
      word.segment = region.box();
    }
    if (typed.empty() || joined(typed) == joined(known) || is_stale(region)) return;
    if (typed.size() == unit.words.size()) {
      for (std::size_t w = 0; w < typed.size(); ++w) unit.words[w].text = typed[w];
      return;
    }
    losses_.add(kRetyped, page_.where);
    unit.words.clear();
    for (const Piece& piece : divided(region.text, region.rectangle)) {
      unit.words.push_back({.text = piece.text, .box = piece.box, .segment = region.box()});
    }
  }

  // Inserts the unit after the words that precede it. If a task's data has no words, rectangles keep the order of the
  // export.
  void insert(std::vector<Unit>& units, Unit unit) const {
    const bool sorted = std::any_of(units.begin(), units.end(), [](const Unit& each) { return !each.region; });
    auto place = units.end();
    if (sorted) {
      const Box box = unit.box();
      place =
          std::find_if(units.begin(), units.end(), [&](const Unit& each) { return stands_before(box, each.box()); });
    }
    units.insert(place, std::move(unit));
  }

  void link(const Relation& relation, const std::vector<std::optional<std::size_t>>& entity_of) {
    const auto entity = [&](const std::string& id) {
      const auto found = by_id_.find(id);
      return found == by_id_.end() ? std::nullopt : entity_of[found->second];
    };
    if (several_ && !by_id_.contains(relation.from)) return;
    const std::optional<std::size_t> from = entity(relation.from), to = entity(relation.to);
    if (!from || !to || *from == *to) return losses_.add(kDanglingRelation, page_.where);
    const std::pair<std::size_t, std::size_t> link(*from, *to);
    if (std::find(page_.links.begin(), page_.links.end(), link) == page_.links.end()) page_.links.push_back(link);
  }

  FoundPage& page_;
  bool several_;
  Losses& losses_;
  std::unordered_map<std::string, std::size_t> by_id_{};
  std::vector<std::string> stale_texts_{};  // of the entities in the task's data that no rectangle surrounds now
};

std::string id_text(const JsonNode& id) { return id.is_text() ? id.text() : std::to_string(id.whole()); }

// Returns the addresses of a task's pictures: one, or one for each page of a document.
std::vector<std::string> pictures_of(const JsonNode& data) {
  std::vector<std::string> found;
  const auto take = [&](const JsonNode& value) {
    if (value.is_text()) found = {value.text()};
    for (std::size_t i = 0; value.is_list() && i < value.size(); ++i) {
      if (value.item(i).is_text()) found.push_back(value.item(i).text());
    }
    return !found.empty();
  };
  for (const char* key : {"image", "ocr", "img", "picture", "images", "pages", "url", "captioning", "pdf"}) {
    const std::optional<JsonNode> value = data.find(key);
    if (value && take(*value)) return found;
  }
  // The data's key is the project's own: the first value that names a picture.
  for (const auto& item : data.value().items()) {
    if (!item.value().is_string()) continue;
    const std::string& text = item.value().get_ref<const std::string&>();
    const std::filesystem::path path = path_of_url(text);
    for (const char* extension : {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".PNG", ".JPG", ".JPEG"}) {
      if (path.extension() == extension) return {text};
    }
  }
  return found;
}

// Returns the annotation to use: one marked as ground truth, or else the newest that was not cancelled.
std::optional<JsonNode> annotation_of(const JsonNode& task, Losses& losses) {
  const std::optional<JsonNode> list = task.find({"annotations", "completions"});
  std::optional<JsonNode> best;
  std::pair<bool, std::string> best_rank;
  std::uint64_t annotations = 0;
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    const JsonNode each = list->item(i);
    const auto is = [&](const char* name) {
      const std::optional<JsonNode> flag = each.find(name);
      return flag && flag->value().is_boolean() && flag->value().get<bool>();
    };
    if (is("was_cancelled")) continue;
    ++annotations;
    // Dates begin with the year, so their order is alphabetical.
    const std::optional<JsonNode> date = each.find({"updated_at", "created_at"});
    const std::pair<bool, std::string> rank(is("ground_truth"), date && date->is_text() ? date->text() : "");
    if (best && rank < best_rank) continue;
    best = each;
    best_rank = rank;
  }
  if (annotations > 1) losses.add(kMoreAnnotations, task.where(), annotations - 1);
  return best;
}

class TaskReader {
 public:
  TaskReader(const std::filesystem::path& file, const JsonNode& task, const Reading& reading,
             const LabelStudioProject& project)
      : file_(file), task_(task), reading_(reading), project_(project) {}

  void read() {
    if (!task_.value().is_object()) task_.refuse("a task is not an object", "{\"data\": …, \"annotations\": […]}");
    if (!task_.find("data")) {
      task_.refuse("a task has no data", "tasks as Label Studio's export has them: {\"data\": …, \"annotations\": […]}",
                   "export as JSON; JSON-MIN does not say which text belongs to which rectangle");
    }
    const JsonNode data = task_.at("data");
    const std::vector<std::string> pictures = pictures_of(data);
    const std::optional<JsonNode> annotation = annotation_of(task_, reading_.losses);
    const std::size_t count = std::max<std::size_t>(pictures.size(), 1);
    for (std::size_t i = 0; i < count; ++i) {
      read_page(data, annotation, i < pictures.size() ? pictures[i] : std::string(), i, count);
    }
  }

 private:
  void read_page(const JsonNode& data, const std::optional<JsonNode>& annotation, const std::string& picture,
                 std::size_t index, std::size_t count) {
    FoundPage page = new_page(file_, static_cast<int>(index) + 1, count);
    page.only = false;
    page.number = 0;
    page.image = picture;
    page.where = task_.where() + (count > 1 ? fmt::format(", page {}", index + 1) : "");
    const std::optional<JsonNode> id = task_.find("id");
    const std::string stem = std::filesystem::path(path_of_url(picture)).stem().string();
    page.id = !stem.empty() ? stem : "task " + (id ? id_text(*id) : std::string("without a number"));
    page.document.clear();
    if (count > 1) page.document = "task " + (id ? id_text(*id) : page.id);
    std::vector<FoundWord> words;
    std::vector<std::pair<std::size_t, std::size_t>> spans;
    if (const std::optional<JsonNode> kept = data.find("page"); kept && kept->value().is_object() && count == 1) {
      read_kept(*kept, page, words, spans);
    }
    if (!annotation) {
      if (words.empty() && !data.find("page")) return reading_.losses.add(kSkipped, page.where);
      reading_.losses.add(kUnlabelled, page.where);
      page.words = std::move(words);
      return reading_.take(std::move(page));
    }
    TaskPage regions(page, count > 1, reading_.losses);
    regions.known_spans = std::move(spans);
    kept_size_ = page.width > 0;
    const JsonNode results = annotation->at("result");
    for (std::size_t r = 0; r < results.size(); ++r) read_result(results.item(r), page, regions, index);
    page.has_entities = page.has_links = project_.linked;
    regions.tags = &project_.tags;
    regions.finish(std::move(words));
    if (!project_.labelled && !page.classes.empty()) page.labels.clear();  // the project is of classes alone
    if (page.words.empty() && page.classes.empty() && !data.find("page")) {
      return reading_.losses.add(kSkipped, page.where);
    }
    reading_.take(std::move(page));
  }

  // Reads what `convert` has stored about a page in a task's data.
  static void read_kept(const JsonNode& kept, FoundPage& page, std::vector<FoundWord>& words,
                        std::vector<std::pair<std::size_t, std::size_t>>& spans) {
    const std::optional<JsonNode> texts = kept.find("words"), boxes = kept.find("boxes");
    if (!texts || !boxes) return;
    if (const std::optional<JsonNode> id = kept.find("id")) page.id = id->text();
    if (const std::optional<JsonNode> document = kept.find("document")) page.document = document->text();
    page.width = kept.at("width").number();
    page.height = kept.at("height").number();
    if (texts->size() != boxes->size()) {
      kept.refuse("a task's data has another number of words than of boxes", "a box for each word");
    }
    for (std::size_t w = 0; w < texts->size(); ++w) {
      const JsonNode box = boxes->item(w);
      if (box.size() != 4) box.refuse("a box does not have four coordinates", "[x0, y0, x1, y1]");
      words.push_back(
          {.text = texts->item(w).text(),
           .box = {box.item(0).number(), box.item(1).number(), box.item(2).number(), box.item(3).number()}});
    }
    const std::optional<JsonNode> entities = kept.find("entities");
    for (std::size_t e = 0; entities && e < entities->size(); ++e) {
      const JsonNode span = entities->item(e);
      const bool pair = span.size() == 2;
      const std::int64_t begin = pair ? span.item(0).whole() : -1, end = pair ? span.item(1).whole() : -1;
      if (begin < 0 || begin > end || end > static_cast<std::int64_t>(words.size())) {
        span.refuse("an entity is not a span of the page's words", "[begin, end) of the words");
      }
      spans.emplace_back(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    }
  }

  // Sets the size of the page in pixels; a result's numbers are per cent of it.
  void set_size(const JsonNode& result, FoundPage& page) const {
    const std::optional<JsonNode> width = result.find("original_width"), height = result.find("original_height");
    if (width && height) {
      const double w = width->number(), h = height->number();
      if (!(w >= 1 && h >= 1))
        result.refuse("a picture has no size", "original_width and original_height of 1 or more");
      // A picture may have another size in pixels than the one that the page's boxes refer to, but not another shape.
      const double shape = page.width > 0 ? (w / h) / (page.width / page.height) : 1;
      if (kept_size_ && shape > 0.98 && shape < 1.02) return;
      if (page.width > 0 && (std::abs(page.width - w) > 0.5 || std::abs(page.height - h) > 0.5)) {
        result.refuse(fmt::format("a result is of a picture of another size than {} x {}", page.width, page.height),
                      "one size for all results of a page");
      }
      page.width = w;
      page.height = h;
    }
    if (page.width > 0 && page.height > 0) return;
    if (const auto picture = reading_.pictures.find(page)) {
      const ImageInfo info = read_image_info(*picture);
      page.width = info.width;
      page.height = info.height;
      return;
    }
    result.refuse("the size of a picture is not known", "original_width and original_height, or the picture itself",
                  "name the folder of the pictures: --images DIR");
  }

  void read_result(const JsonNode& result, FoundPage& page, TaskPage& regions, std::size_t index) const {
    const std::optional<JsonNode> item = result.find("item_index");
    const std::optional<JsonNode> kind = result.find("type");
    if (kind && kind->text() == "relation") {
      // A relation names no page; it belongs to the page with its start.
      Relation relation{id_text(result.at("from_id")), id_text(result.at("to_id"))};
      const std::optional<JsonNode> direction = result.find("direction");
      if (direction && direction->text() == "left") std::swap(relation.from, relation.to);
      regions.relations.push_back(std::move(relation));
      return;
    }
    if (item && item->whole() != static_cast<std::int64_t>(index)) return;
    if (!item && index > 0) return;
    const std::optional<JsonNode> value = result.find("value");
    if (!value || !value->value().is_object()) return reading_.losses.add(kOtherResult, result.where());
    if (const std::optional<JsonNode> turned = result.find("image_rotation"); turned && turned->number() != 0) {
      reading_.losses.add(kTurned, result.where());
    }
    const std::optional<JsonNode> id = result.find("id");
    const bool rectangle = value->find("x") && value->find("y") && value->find("width") && value->find("height");
    const std::optional<JsonNode> points = value->find("points"), text = value->find("text");
    const std::optional<JsonNode> choices = value->find("choices");
    if (choices && !rectangle && !points) {
      for (std::size_t c = 0; c < choices->size(); ++c) page.classes.push_back(choices->item(c).text());
      return;
    }
    if ((!rectangle && !points && !text) || choices || !id) return reading_.losses.add(kOtherResult, result.where());
    Region& region = regions.region(id_text(*id));
    if (rectangle || points) {
      set_size(result, page);
      region.placed = true;
    }
    if (points) {
      const Rectangle box = rectangle_of(polygon(*points));
      region.rectangle = {.x = box.x * page.width / 100,
                          .y = box.y * page.height / 100,
                          .width = box.width * page.width / 100,
                          .height = box.height * page.height / 100};
    } else if (rectangle) {
      const std::optional<JsonNode> degrees = value->find("rotation");
      region.rectangle = {.x = value->at("x").number() * page.width / 100,
                          .y = value->at("y").number() * page.height / 100,
                          .width = value->at("width").number() * page.width / 100,
                          .height = value->at("height").number() * page.height / 100,
                          .degrees = degrees ? degrees->number() : 0};
      // A rectangle may have been drawn from its right to its left.
      if (region.rectangle.width < 0 || region.rectangle.height < 0) {
        region.rectangle = rectangle_of(enclosing(region.rectangle));
      }
    }
    if (text) read_text(*text, region);
    for (const auto& member : value->value().items()) {
      if (member.key().ends_with("labels") && member.value().is_array()) {
        read_labels(value->at(member.key().c_str()), region);
      }
    }
  }

  static Box polygon(const JsonNode& points) {
    Enclosure box;
    for (std::size_t p = 0; p < points.size(); ++p) {
      const JsonNode point = points.item(p);
      if (point.size() != 2) point.refuse("a polygon's point does not have two coordinates", "[x, y]");
      box.add(point.item(0).number(), point.item(1).number());
    }
    if (box.empty()) points.refuse("a polygon has no points", "[[x, y], …]");
    return box.box();
  }

  static void read_text(const JsonNode& text, Region& region) {
    for (std::size_t t = 0; text.is_list() && t < text.size(); ++t) {
      region.text += (region.text.empty() ? "" : "\n") + text.item(t).text();
    }
    if (!text.is_list()) region.text = text.text();
  }

  void read_labels(const JsonNode& labels, Region& region) const {
    if (labels.size() == 0) return;
    if (labels.size() > 1 || region.label) reading_.losses.add(kManyLabels, labels.where());
    if (!region.label) region.label = labels.item(0).text();
    if (trimmed(*region.label).empty()) labels.refuse("a label has no name", "a name");
  }

  const std::filesystem::path& file_;
  const JsonNode& task_;
  const Reading& reading_;
  const LabelStudioProject& project_;
  bool kept_size_ = false;  // the page's size comes from the task's data
};

}  // namespace

bool is_label_studio(const Evidence& evidence) {
  const auto any = [&](const std::string& before) {
    for (const char* name : {"annotations", "completions", "predictions", "data.image", "data.ocr", "annotation_id"}) {
      if (evidence.has((before + name).c_str())) return true;
    }
    return false;
  };
  return (evidence.has("[].data") && any("[].")) || (evidence.has("data") && any("")) ||
         evidence.has("[].annotation_id");
}

void read_label_studio(const std::filesystem::path& file, const Reading& reading) {
  const std::string text = read_text_file(file, kLongestFile);
  const std::vector<JsonItem> tasks = list_items(text);
  if (tasks.empty()) {
    throw DataError({.what = "a file has no tasks",
                     .where = file.string(),
                     .found = "an empty list",
                     .allowed = "Label Studio's export as JSON: a list of tasks",
                     .remedy = "label some tasks, and export them again"});
  }
  const LabelStudioProject project = label_studio_project(text, tasks);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const std::string where = fmt::format("{}:{}, task {}", file.string(), tasks[t].line, t + 1);
    const nlohmann::json json = parse_json_file(tasks[t].text, where);
    const JsonNode task(json, where);
    TaskReader(file, task, reading, project).read();
  }
}

}  // namespace plimsoll
