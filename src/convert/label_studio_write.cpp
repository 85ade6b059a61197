// Tasks for Label Studio's import, and the labelling configuration that fits them. Entities become rectangles with
// their text; the page's words and boxes are kept in the task's data, so that they come back unchanged.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/lower_case.h"
#include "base/path_from.h"
#include "convert/readers.h"
#include "data/label_scheme.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;

constexpr Loss kQuestions{"page has questions or a number as its label, which tasks do not hold",
                          "pages have questions or numbers as their labels, which tasks do not hold"};
constexpr Loss kHidden{
    "entity in words' labels overlaps another of the page's `entities`, which a task holds in its place",
    "entities in words' labels overlap others of their pages' `entities`, which tasks hold in their place"};
constexpr Loss kOutside{"picture lies outside the output's folder, from which Label Studio serves files",
                        "pictures lie outside the output's folder, from which Label Studio serves files"};

// These are the names of the configuration's controls, to which results refer.
constexpr const char *kLabelControl = "label", *kTextControl = "transcription", *kClassControl = "class",
                     *kImageName = "image";

// Colours that can be distinguished on white paper.
constexpr const char* kColours[] = {"#d92626", "#2667d9", "#1f9e3c", "#d98c26", "#8c26d9", "#12969e",
                                    "#d926a6", "#7a6a00", "#4d4dff", "#a0522d", "#5f8700", "#606060"};

std::string in_url(std::string_view path) {
  std::string coded;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~/").find(c) != std::string_view::npos) {
      coded += c;
    } else {
      coded += fmt::format("%{:02X}", byte);
    }
  }
  return coded;
}

std::string in_xml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

constexpr Loss kUnknownLabel{"word's label is not known, which a task cannot express: it will come back as O",
                             "words' labels are not known, which a task cannot express: they will come back as O"};

constexpr Loss kOtherKey{
    "key of a page has no place in a task, such as `confidences` or `group`: it will not come back",
    "keys of pages have no place in tasks, such as `confidences` or `group`: they will not come "
    "back"};
// The keys of a page that a task holds in one form or another, and those of predictions.
const std::set<std::string, std::less<>> kInTasks = {"id",
                                                     "document",
                                                     "image",
                                                     "width",
                                                     "height",
                                                     "words",
                                                     "tokens",
                                                     "boxes",
                                                     "bboxes",
                                                     "bbox",
                                                     "label",
                                                     "labels",
                                                     "ner_tags",
                                                     "page",
                                                     "fields",
                                                     "links",
                                                     "entities",
                                                     "probabilities",
                                                     "confidence",
                                                     "scores",
                                                     "value",
                                                     "values",
                                                     "questions",
                                                     "linking",
                                                     "pages",
                                                     "text",
                                                     "label_names",
                                                     "unpredicted_words",
                                                     "link_probabilities"};

// True if the label of a page is a number, or 0 or 1 for each class.
bool has_numbers(const nlohmann::json& more) {
  const auto label = more.is_object() ? more.find("label") : more.end();
  if (label == more.end()) return false;
  return label->is_number() || (label->is_array() && std::ranges::any_of(*label, [](const nlohmann::json& each) {
                                  return each.is_number() || each.is_boolean();
                                }));
}

class LabelStudioWriter final : public PageWriter {
 public:
  explicit LabelStudioWriter(const Writing& writing) : writing_(writing), scheme_(writing.names.scheme()) {}

  void write(const FoundPage& page, const FoundPage* predicted) override {
    if (page.words.size() > 0 && page.more.is_object() && !page.more.contains("boxes") &&
        !page.more.contains("bboxes") && !page.more.contains("bbox")) {
      throw DataError({.what = "a page has no boxes, so nothing can be drawn on it",
                       .where = page.where,
                       .found = "no `boxes`",
                       .allowed = "a box for each word",
                       .remedy = "write pages with the boxes of their words"});
    }
    if (page.more.contains("questions") || page.more.contains("value") || has_numbers(page.more))
      writing_.losses.add(kQuestions, page.where);
    writing_.losses.add(kHidden, page.where, hidden_spans(page));
    for (const auto& [key, value] : page.more.items()) {
      if (!value.is_null() && !kInTasks.contains(key)) writing_.losses.add(kOtherKey, page.where);
    }
    writing_.losses.add(kUnknownLabel, page.where, static_cast<std::uint64_t>(std::ranges::count(page.labels, "")));
    ordered_json task;
    task["data"] = data_of(page);
    // Records the words of each rectangle, so that rectangles that are not moved keep theirs.
    ordered_json& spans = task["data"]["page"]["entities"] = ordered_json::array();
    for (const FoundPage* each : {&page, predicted}) {
      for (const FoundEntity& entity : each != nullptr ? entities_of(*each) : std::vector<FoundEntity>()) {
        const ordered_json span = {entity.begin, entity.end};
        if (std::find(spans.begin(), spans.end(), span) == spans.end()) spans.push_back(span);
      }
    }
    if (page.predicted) {
      task["predictions"] = ordered_json::array({prediction_of(page)});
    } else if (page.is_labelled()) {
      task["annotations"] = ordered_json::array({ordered_json{{"result", results_of(page, nullptr)}}});
    }
    // The boxes of a predicted page are the same, but only those of the data are in pixels.
    if (predicted != nullptr) {
      FoundPage on_page = *predicted;
      for (std::size_t w = 0; w < on_page.words.size(); ++w) on_page.words[w].box = page.words[w].box;
      on_page.width = page.width;
      on_page.height = page.height;
      task["predictions"] = ordered_json::array({prediction_of(on_page)});
    }
    writing_.write((first_ ? "[\n" : ",\n") + task.dump());
    first_ = false;
  }

  void finish() override { writing_.write(first_ ? "[]\n" : "\n]\n"); }

 private:
  ordered_json data_of(const FoundPage& page) {
    ordered_json words = ordered_json::array(), boxes = ordered_json::array();
    for (const FoundWord& word : page.words) {
      words.push_back(word.text);
      ordered_json box = ordered_json::array();
      for (const double value : word.box) box.push_back(static_cast<std::int64_t>(value));  // whole pixels
      boxes.push_back(std::move(box));
    }
    ordered_json kept = {{"id", page.id},
                         {"width", static_cast<std::int64_t>(page.width)},
                         {"height", static_cast<std::int64_t>(page.height)}};
    if (!page.document.empty()) kept["document"] = page.document;
    kept["words"] = std::move(words);
    kept["boxes"] = std::move(boxes);
    return {{kImageName, url_of(page)}, {"page", std::move(kept)}};
  }

  // Returns the address that Label Studio requests from its server.
  std::string url_of(const FoundPage& page) {
    if (page.picture.empty() || page.image.find("://") != std::string::npos) return page.image;
    const std::string path = path_from(writing_.options.output, page.picture).string();
    const bool local = writing_.options.image_url.find("local-files") != std::string::npos;
    if (local && (path.starts_with("..") || path.starts_with("/"))) writing_.losses.add(kOutside, page.where);
    return writing_.options.image_url + in_url(path);
  }

  // Returns the page's entities, or those that its labels form.
  std::vector<FoundEntity> entities_of(const FoundPage& page) const {
    std::vector<FoundEntity> spans;
    if (!page.labels.empty()) {
      for (const WordSpan& span : entity_spans(page.labels, scheme_)) {
        FoundEntity entity{.label = span.name, .begin = span.begin, .end = span.end};
        for (std::size_t w = span.begin; w < span.end && page.predicted; ++w) {
          const std::optional<double>& sure = page.words[w].confidence;
          if (sure && (!entity.confidence || *sure < *entity.confidence)) entity.confidence = sure;
        }
        spans.push_back(std::move(entity));
      }
    }
    if (!page.has_entities) return spans;
    // In FUNSD, words are labelled QUESTION and entities "question"; the words' name is used as the label.
    std::vector<FoundEntity> entities = page.entities;
    for (FoundEntity& entity : entities) {
      for (const FoundEntity& span : spans) {
        const bool same = span.begin == entity.begin && span.end == entity.end;
        if (same && lower_case(span.label) == lower_case(entity.label)) entity.label = span.label;
      }
    }
    // What the words' labels alone say comes after them, because links name entities by their numbers.
    for (FoundEntity& span : spans) {
      if (!overlaps(page, span)) entities.push_back(std::move(span));
    }
    return entities;
  }
  static bool overlaps(const FoundPage& page, const FoundEntity& span) {
    return std::ranges::any_of(page.entities, [&span](const FoundEntity& entity) {
      return entity.begin < span.end && span.begin < entity.end;
    });
  }
  // Counts the entities in words' labels that lie across entities of the page, or within them.
  std::uint64_t hidden_spans(const FoundPage& page) const {
    if (!page.has_entities || page.labels.empty()) return 0;
    return static_cast<std::uint64_t>(
        std::ranges::count_if(entity_spans(page.labels, scheme_), [&page](const WordSpan& span) {
          const FoundEntity entity{.label = span.name, .begin = span.begin, .end = span.end};
          const bool is_one = std::ranges::any_of(page.entities, [&span](const FoundEntity& each) {
            return each.begin == span.begin && each.end == span.end;
          });
          return !is_one && overlaps(page, entity);
        }));
  }

  // `score` gets the confidence of the least certain rectangle, unless it is nullptr.
  ordered_json results_of(const FoundPage& page, std::optional<double>* score) const {
    ordered_json results = ordered_json::array();
    const std::vector<FoundEntity> entities = entities_of(page);
    const std::string mark = page.predicted ? "p" : "a";
    for (std::size_t e = 0; e < entities.size(); ++e) {
      const FoundEntity& entity = entities[e];
      Enclosure box;
      std::string text;
      for (std::size_t w = entity.begin; w < entity.end; ++w) {
        box.add(page.words[w].box);
        text += (text.empty() ? "" : " ") + page.words[w].text;
      }
      if (box.empty()) continue;
      const Box& b = box.box();
      const ordered_json place = {{"x", 100 * b[0] / page.width},
                                  {"y", 100 * b[1] / page.height},
                                  {"width", 100 * (b[2] - b[0]) / page.width},
                                  {"height", 100 * (b[3] - b[1]) / page.height},
                                  {"rotation", 0}};
      const auto result = [&](const char* control, const char* type, const char* key, const std::string& value) {
        ordered_json object = {{"id", fmt::format("{}{}", mark, e)},
                               {"from_name", control},
                               {"to_name", kImageName},
                               {"type", type},
                               {"original_width", static_cast<std::int64_t>(page.width)},
                               {"original_height", static_cast<std::int64_t>(page.height)},
                               {"image_rotation", 0},
                               {"value", place}};
        object["value"][key] = ordered_json::array({value});
        if (entity.confidence) object["score"] = *entity.confidence;
        return object;
      };
      results.push_back(result(kLabelControl, "rectanglelabels", "rectanglelabels", entity.label));
      results.push_back(result(kTextControl, "textarea", "text", text));
      if (score != nullptr && entity.confidence && (!*score || *entity.confidence < **score))
        *score = entity.confidence;
    }
    for (const auto& link : page.links) {
      results.push_back({{"type", "relation"},
                         {"from_id", fmt::format("{}{}", mark, link.first)},
                         {"to_id", fmt::format("{}{}", mark, link.second)},
                         {"direction", "right"}});
    }
    if (!page.classes.empty()) {
      results.push_back({{"id", mark + "class"},
                         {"from_name", kClassControl},
                         {"to_name", kImageName},
                         {"type", "choices"},
                         {"value", {{"choices", page.classes}}}});
    }
    return results;
  }

  ordered_json prediction_of(const FoundPage& page) const {
    std::optional<double> score;
    ordered_json results = results_of(page, &score);
    ordered_json prediction = {{"model_version", writing_.options.model_version}};
    if (score) prediction["score"] = *score;
    prediction["result"] = std::move(results);
    return prediction;
  }

  Writing writing_;
  LabelScheme scheme_;
  bool first_ = true;
};

}  // namespace

std::string label_studio_config(const PageNames& names, const std::vector<std::string>& more) {
  std::set<std::string> types = names.entity_labels;
  const auto add = [&](const std::vector<std::string>& labels) {
    const LabelScheme scheme = label_scheme(labels);
    for (const std::string& label : labels) {
      const LabelParts parts = split_label(label, scheme);
      if (parts.tag == 'O') continue;
      const std::string type(parts.type);
      // If words and entities name a type in different cases, the words' name is used.
      for (auto each = types.begin(); each != types.end();) {
        each = *each != type && lower_case(*each) == lower_case(type) ? types.erase(each) : std::next(each);
      }
      types.insert(type);
    }
  };
  add({names.labels.begin(), names.labels.end()});
  add(more);
  std::string text = "<View>\n";
  if (types.empty()) {
    text += fmt::format("  <Rectangle name=\"{}\" toName=\"{}\"/>\n", kLabelControl, kImageName);
  } else {
    text += fmt::format("  <RectangleLabels name=\"{}\" toName=\"{}\" strokeWidth=\"2\" opacity=\"0.2\">\n",
                        kLabelControl, kImageName);
    std::size_t colour = 0;
    for (const std::string& type : types) {
      text += fmt::format("    <Label value=\"{}\" background=\"{}\"/>\n", in_xml(type),
                          kColours[colour++ % std::size(kColours)]);
    }
    text += "  </RectangleLabels>\n";
  }
  text += fmt::format("  <Image name=\"{0}\" value=\"${0}\" zoom=\"true\" zoomControl=\"true\"/>\n", kImageName);
  text += fmt::format(
      "  <TextArea name=\"{}\" toName=\"{}\" perRegion=\"true\" editable=\"true\" required=\"false\" "
      "maxSubmissions=\"1\" "
      "rows=\"2\" displayMode=\"region-list\"/>\n",
      kTextControl, kImageName);
  if (!names.classes.empty()) {
    text += fmt::format("  <Choices name=\"{}\" toName=\"{}\" choice=\"multiple\">\n", kClassControl, kImageName);
    for (const std::string& name : names.classes) text += fmt::format("    <Choice value=\"{}\"/>\n", in_xml(name));
    text += "  </Choices>\n";
  }
  return text + "</View>\n";
}

std::unique_ptr<PageWriter> write_label_studio(const Writing& writing) {
  return std::make_unique<LabelStudioWriter>(writing);
}

}  // namespace plimsoll
