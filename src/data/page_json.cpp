// Parsing one page from JSON. Every complaint names file, line, page, word, what was found and what
// would be right.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "data/page_source.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  // `replace`: a message must come out even if the text in it is broken.
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) {
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text.resize(end);
    text += "…";
  }
  return text;
}

Json parse_object(std::string_view text, const Page& page) {
  if (const std::size_t bad = invalid_utf8_offset(text); bad != std::string_view::npos) {
    throw PageError("not-utf8",
                    {.what = "text is not valid UTF-8",
                     .where = fmt::format("{}, byte {} of it", place(page), bad),
                     .found = fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text[bad])),
                     .allowed = "UTF-8",
                     .remedy = "write the file again with encoding UTF-8"});
  }
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::size_t at = std::min<std::size_t>(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const std::string_view tail = text.substr(at < 20 ? 0 : at - 20, 40);
    const bool cut = at + 1 >= text.size();
    // A file of one array, or of objects on several lines: its first line is a bracket and little else.
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (cut && (text[first] != '{' || text.find_first_not_of(" \t\r", first + 1) == std::string_view::npos)) {
      throw PageError("bad-json", {.what = "a line is not a whole JSON object",
                                   .where = place(page),
                                   .found = in_quotes(text),
                                   .allowed = "JSONL: each page whole, on a line of its own",
                                   .remedy = "write pages without indentation and without an array around them "
                                             "(jq -c . turns objects, jq -c '.[]' an array, into JSONL)"});
    }
    const bool non_finite = text.find("NaN") != std::string_view::npos ||
                            text.find("Infinity") != std::string_view::npos;
    if (!cut && non_finite) {
      throw PageError("not-finite",
                      {.what = "a number is not finite (JSON has no NaN or Infinity)",
                       .where = fmt::format("{}, near byte {} of it", place(page), at),
                       .found = in_quotes(tail),
                       .allowed = "finite numbers",
                       .remedy = "find what computed it and write the page again"});
    }
    throw PageError("bad-json",
                    {.what = cut ? "JSON ends too early" : "not valid JSON",
                     .where = fmt::format("{}, near byte {} of {}", place(page), at, text.size()),
                     .found = in_quotes(tail),
                     .allowed = "one whole JSON object",
                     .remedy = cut ? "the file was cut: write or copy it again"
                                   : "mend the line, or write the file with a JSON library"});
  } catch (const Json::out_of_range& error) {
    throw PageError("not-finite", {.what = "a number is too large for a double",
                                   .where = place(page),
                                   .found = error.what(),
                                   .allowed = "finite numbers",
                                   .remedy = "find what computed it and write the page again"});
  }
  if (!json.is_object()) {
    throw PageError("bad-json", {.what = "a page is not a JSON object",
                                 .where = place(page),
                                 .found = shown(json),
                                 .allowed = "{\"image\": …, \"words\": […], \"boxes\": […]}",
                                 .remedy = "write one JSON object a line (JSONL), not one array"});
  }
  return json;
}

const Json* find_key(const Json& object, std::span<const char* const> names) {
  for (const char* name : names) {
    const auto found = object.find(name);
    if (found != object.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

std::string keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) {
    if (keys.size() == 12) {
      keys.push_back("…");
      break;
    }
    keys.push_back(item.key());
  }
  return fmt::format("keys {}", fmt::join(keys, ", "));
}

const Json& need_key(const Json& object, std::span<const char* const> names, const Page& page) {
  if (const Json* found = find_key(object, names)) return *found;
  throw PageError("missing-key", {.what = fmt::format("a page has no {}", names[0]),
                                  .where = place(page),
                                  .found = keys_of(object),
                                  .allowed = fmt::format("{}", fmt::join(names, " or ")),
                                  .remedy = "add the key, or rename the one that holds it"});
}

PageError wrong_type(const Page& page, std::string where, const Json& value, std::string allowed) {
  return PageError("wrong-type", {.what = "a value of the wrong type",
                                  .where = fmt::format("{}, {}", place(page), where),
                                  .found = shown(value),
                                  .allowed = std::move(allowed),
                                  .remedy = "mend the page's JSON"});
}

const Json& need_array(const Json& object, std::span<const char* const> names, const Page& page) {
  const Json& value = need_key(object, names, page);
  if (!value.is_array())
    throw wrong_type(page, names[0], value, "an array with one entry per word");
  return value;
}

Box parse_box(const Json& value, const std::string& where) {
  const auto fail = [&](std::string kind, std::string what, std::string allowed,
                        std::string remedy) {
    return PageError(std::move(kind), {.what = std::move(what),
                                       .where = where,
                                       .found = shown(value),
                                       .allowed = std::move(allowed),
                                       .remedy = std::move(remedy)});
  };
  if (!value.is_array() || value.size() != 4) {
    throw fail("box-shape", "a box does not have four coordinates", "[x0, y0, x1, y1]",
               "write each box as left, top, right, bottom");
  }
  Box box{};
  for (std::size_t i = 0; i < 4; ++i) {
    if (!value[i].is_number()) {
      throw fail("box-shape", "a coordinate is not a number", "[x0, y0, x1, y1], all numbers",
                 "write each box as left, top, right, bottom");
    }
    box[i] = value[i].get<double>();
    if (!std::isfinite(box[i])) {
      throw fail("not-finite", "a coordinate is not finite", "finite numbers",
                 "find what computed it");
    }
  }
  return box;
}

std::optional<int> parse_size(const Json& object, const char* name, const Page& page) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : 0.0;
  if (!(value >= 1 && value <= 1e9))
    throw wrong_type(page, name, *found, "a positive number of pixels, or no such key");
  return static_cast<int>(value);
}

std::string label_name(const Json& value, const Page& page, std::size_t word,
                       const ReadOptions& options) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_integer()) {
    throw wrong_type(page, fmt::format("label of word {}", word), value,
                     "a label's name or its number");
  }
  const auto number = value.get<std::int64_t>();
  const auto count = static_cast<std::int64_t>(options.label_names.size());
  if (count == 0) {
    throw PageError("label-numbers",
                    {.what = "labels are numbers, and nothing says what they mean",
                     .where = place(page, word),
                     .found = shown(value),
                     .allowed = "label names, or numbers together with a list of names",
                     .remedy = "give the names in order: --labels O,B-TOTAL,I-TOTAL,…"});
  }
  if (number < 0 || number >= count) {
    throw PageError("label-unknown",
                    {.what = "a label's number is not in the label set",
                     .where = place(page, word),
                     .found = shown(value),
                     .allowed = fmt::format("0 to {} ({} labels)", count - 1, count),
                     .remedy = "name all labels with --labels, or mend the data"});
  }
  return options.label_names[static_cast<std::size_t>(number)];
}

void check_counts(const Page& page, std::string_view name, std::size_t found) {
  if (found == page.words.size()) return;
  throw PageError("counts-differ", {.what = fmt::format("a page has not as many {} as words", name),
                                    .where = place(page),
                                    .found = fmt::format("{} {}, {} words", found, name, page.words.size()),
                                    .allowed = fmt::format("{} {}, one for each word", page.words.size(), name),
                                    .remedy = "write words, boxes and labels in step"});
}

std::string id_of(const Json& object) {
  const auto found = object.find("id");
  if (found == object.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : shown(*found);
}

}  // namespace

Page parse_jsonl_page(std::string_view json_text, const std::filesystem::path& file,
                      std::size_t line, const ReadOptions& options) {
  static constexpr const char* kWords[] = {"words", "tokens"};
  static constexpr const char* kBoxes[] = {"boxes", "bboxes", "bbox"};
  static constexpr const char* kLabels[] = {"labels", "ner_tags"};
  static constexpr const char* kImage[] = {"image", "image_path", "file_name"};

  Page page;
  page.file = file;
  page.line = line;
  const Json json = parse_object(json_text, page);
  page.id = id_of(json);

  const Json& image = need_key(json, kImage, page);
  if (!image.is_string()) throw wrong_type(page, "image", image, "the path of an image file");
  page.image =
      file.parent_path() / image.get<std::string>();  // an absolute path replaces the folder
  page.width = parse_size(json, "width", page).value_or(0);
  page.height = parse_size(json, "height", page).value_or(0);
  if (page.width == 0 || page.height == 0) page.width = page.height = 0;

  const Json& words = need_array(json, kWords, page);
  page.words.reserve(words.size());
  for (const Json& word : words) {
    if (!word.is_string())
      throw wrong_type(page, fmt::format("word {}", page.words.size()), word, "a string");
    page.words.push_back(word.get<std::string>());
  }

  const Json& boxes = need_array(json, kBoxes, page);
  check_counts(page, "boxes", boxes.size());
  page.boxes.reserve(boxes.size());
  for (const Json& box : boxes)
    page.boxes.push_back(parse_box(box, place(page, page.boxes.size())));

  if (options.ignore_labels || find_key(json, kLabels) == nullptr) return page;
  const Json& labels = need_array(json, kLabels, page);
  check_counts(page, "labels", labels.size());
  page.labels.reserve(labels.size());
  for (const Json& label : labels)
    page.labels.push_back(label_name(label, page, page.labels.size(), options));
  return page;
}

Page parse_funsd_page(std::string_view json_text, const std::filesystem::path& file,
                      const std::filesystem::path& image, const ReadOptions& options) {
  static constexpr const char* kForm[] = {"form"};
  static constexpr const char* kWords[] = {"words"};
  static constexpr const char* kBox[] = {"box"};
  static constexpr const char* kText[] = {"text"};
  static constexpr const char* kLabel[] = {"label"};

  Page page;
  page.file = file;
  page.id = file.stem().string();
  page.image = image;
  const Json json = parse_object(json_text, page);
  const Json& form = need_array(json, kForm, page);
  for (std::size_t e = 0; e < form.size(); ++e) {
    const Json& entity = form[e];
    const std::string at = fmt::format("{}, entity {}", place(page), e);
    if (!entity.is_object())
      throw wrong_type(page, fmt::format("entity {}", e), entity, "a JSON object");
    std::string name;
    if (!options.ignore_labels) {
      const Json& label = need_key(entity, kLabel, page);
      if (!label.is_string())
        throw wrong_type(page, fmt::format("label of entity {}", e), label, "a string");
      for (const char c : label.get<std::string>()) {
        name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      }
    }
    bool first = true;
    for (const Json& word : need_array(entity, kWords, page)) {
      if (!word.is_object())
        throw wrong_type(page, fmt::format("a word of entity {}", e), word, "a JSON object");
      const Json& text = need_key(word, kText, page);
      if (!text.is_string())
        throw wrong_type(page, fmt::format("a word of entity {}", e), text, "a string");
      std::string spelled = text.get<std::string>();
      if (spelled.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      page.boxes.push_back(
          parse_box(need_key(options.segment_boxes ? entity : word, kBox, page),
                    fmt::format("{}, word {} ({})", at, page.words.size(), in_quotes(spelled))));
      page.words.push_back(std::move(spelled));
      if (options.ignore_labels) continue;
      page.labels.push_back(name == "OTHER" ? "O" : (first ? "B-" : "I-") + name);
      first = false;
    }
  }
  return page;
}

}  // namespace plimsoll
