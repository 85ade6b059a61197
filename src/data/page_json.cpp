// Parses one page from JSON. Every error names the file, line, page and word, the value found and the values
// allowed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "data/chat.h"
#include "data/labels.h"
#include "data/page_faults.h"
#include "data/page_source.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kNonFinite[] = {"NaN", "Infinity", "-Infinity"};
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr Box kUnreadBox = {kNoNumber, kNoNumber, kNoNumber, kNoNumber};
constexpr const char* kUnreadWord = "?";

// Puts NaN, Infinity and -Infinity between `before` and `after`; keeps the rest.
std::string replace_non_finite(std::string_view text, std::string_view before, std::string_view after);

// Replaces bytes that are not UTF-8 by private-use characters, U+F0080 to U+F00FF, so that the words that hold them can
// be found again after the JSON is parsed.
class RepairedText {
 public:
  explicit RepairedText(std::string_view text) {
    for (std::size_t done = 0;;) {
      const std::size_t bad = invalid_utf8_offset(text.substr(done));
      text_ += text.substr(done, bad);
      if (bad == std::string_view::npos) return;
      if (good()) first_bad_ = done + bad;
      const auto byte = static_cast<unsigned char>(text[done + bad]);
      text_ += kMark;
      text_ += static_cast<char>(0x80 | byte >> 6);
      text_ += static_cast<char>(0x80 | (byte & 0x3F));
      done += bad + 1;
    }
  }
  const std::string& text() const { return text_; }
  bool good() const { return first_bad_ == std::string::npos; }

  // Reports the first bad byte in a word from the JSON; nullopt if it has none.
  std::optional<PageError> fault_in(const std::string& word, const std::string& where) const {
    const std::size_t at = good() ? std::string::npos : word.find(kMark);
    if (at == std::string::npos) return std::nullopt;
    const auto low = [&](std::size_t i) { return static_cast<unsigned char>(word[i]) & 0x3FU; };
    return fault(where, low(at + 2) << 6 | low(at + 3));
  }
  // Reports the first bad byte in the whole text, for a page whose words have none. Precondition: not good().
  PageError fault_in_page(const Page& page, std::string_view original) const {
    return fault(fmt::format("{}, byte {} of it", place(page), first_bad_),
                 static_cast<unsigned char>(original[first_bad_]));
  }

 private:
  static PageError fault(std::string where, unsigned byte) {
    return PageError("not-utf8", {.what = "text is not valid UTF-8",
                                  .where = std::move(where),
                                  .found = fmt::format("byte 0x{:02x}", byte),
                                  .allowed = "UTF-8",
                                  .remedy = "write the file again with encoding UTF-8"});
  }
  static constexpr std::string_view kMark = "\xF3\xB0";
  std::string text_;
  std::size_t first_bad_ = std::string::npos;
};

Json parse_object(std::string_view text, const Page& page, const LineForm& form) {
  if (nests_too_deep(text)) {
    throw PageError("bad-json", {.what = fmt::format("a {}'s JSON nests too deep", form.name),
                                 .where = place(page),
                                 .found = "more than " + counted(kMaxJsonDepth, "level"),
                                 .allowed = form.form,
                                 .remedy = "correct the line, or write the file with a JSON library"});
  }
  Json json;
  if (text.find('\0') != std::string_view::npos) {  // the parser would take it for the end
    throw PageError("bad-json", {.what = "a line has a NUL byte",
                                 .where = fmt::format("{}, byte {}", place(page), text.find('\0')),
                                 .allowed = form.form,
                                 .remedy = "the file is damaged: write or copy it again"});
  }
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::size_t at = std::min<std::size_t>(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const std::string_view tail = text.substr(at < 20 ? 0 : at - 20, 40);
    // A bracket at the end that is wrong there ends the line all the same: a comma stands before it.
    const bool closes = at < text.size() && (text[at] == '}' || text[at] == ']');
    const bool cut = at + 1 >= text.size() && !closes;
    // Each line of an array without its brackets ends with a comma.
    const std::size_t last = text.find_last_not_of(" \t\r");
    if (cut && last == at && text[last] == ',' && Json::accept(text.substr(0, last))) {
      throw PageError("bad-json", {.what = "a line has a comma behind its object",
                                   .where = place(page),
                                   .found = in_quotes(tail),
                                   .allowed = fmt::format("JSONL: each {} complete, on a line of its own", form.name),
                                   .remedy = "remove the comma"});
    }
    // The file is one array, or has objects on several lines: its first line is a bracket and little else.
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (cut && first != std::string_view::npos &&
        (text[first] != '{' || text.find_first_not_of(" \t\r", first + 1) == std::string_view::npos)) {
      throw PageError("bad-json", {.what = "a line is not a whole JSON object",
                                   .where = place(page),
                                   .found = in_quotes(text),
                                   .allowed = fmt::format("JSONL: each {} complete, on a line of its own", form.name),
                                   .remedy = fmt::format("write {}s without indentation and without an array around "
                                                         "them (jq -c . turns objects, jq -c '.[]' an array, into "
                                                         "JSONL); what OCR engines and annotation tools write: "
                                                         "plimsoll convert",
                                                         form.name)});
    }
    const std::string marked = replace_non_finite(text, R"({"":")", R"("})");
    if (!cut && marked != text) return parse_object(marked, page, form);
    throw PageError("bad-json", {.what = cut ? "JSON ends too early" : "not valid JSON",
                                 .where = fmt::format("{}, near byte {} of {}", place(page), at, text.size()),
                                 .found = in_quotes(tail),
                                 .allowed = "one complete JSON object",
                                 .remedy = cut ? "the file is truncated: write or copy it again"
                                               : "correct the line, or write the file with a JSON library"});
  } catch (const Json::out_of_range& error) {
    throw PageError("not-finite", {.what = "a number is too large for a double",
                                   .where = place(page),
                                   .found = json_fault(error),
                                   .allowed = "finite numbers",
                                   .remedy = "check the program that computed it, and write the page again"});
  }
  if (!json.is_object()) {
    throw PageError("bad-json", {.what = fmt::format("a {} is not a JSON object", form.name),
                                 .where = place(page),
                                 .found = shown(json),
                                 .allowed = form.form,
                                 .remedy = "write one JSON object per line (JSONL), not one array"});
  }
  if (const std::optional<std::string> key = repeated_key(text)) {
    throw PageError("repeated-key",
                    {.what = fmt::format("a {} has a key twice", form.name),
                     .where = place(page),
                     .found = fmt::format("`{}`", *key),
                     .allowed = "each key once",
                     .remedy = "keep the one that is meant: of several, readers of JSON take the last"});
  }
  return json;
}

Json parse_text(const RepairedText& text, std::string_view original, const Page& page, const LineForm& form = {}) {
  try {
    return parse_object(text.text(), page, form);
  } catch (const PageError&) {
    if (text.good()) throw;
    throw text.fault_in_page(page, original);  // the text is not UTF-8, so it is not JSON
  }
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
    keys.push_back(item.key() + (item.value().is_null() ? " (null)" : ""));
  }
  return fmt::format("keys {}", fmt::join(keys, ", "));
}

// Returns whether the object is a result of an OCR engine or an annotation tool, by the keys that only those have.
bool is_of_another_tool(const Json& object) {
  constexpr std::array kKeys = {"Blocks",    "JobStatus",          "ExpenseDocuments", "analyzeResult", "readResults",
                                "form",      "gt_parse",           "valid_line",       "ground_truth",  "responses",
                                "documents", "fullTextAnnotation", "textAnnotations",  "annotations"};
  return std::ranges::any_of(kKeys, [&](const char* key) { return object.contains(key); });
}

const Json& need_key(const Json& object, std::span<const char* const> names, const Page& page) {
  if (const Json* found = find_key(object, names)) return *found;
  if (is_of_another_tool(object)) {
    throw PageError("missing-key",
                    {.what = "this is not a page, but the result of an OCR engine or an annotation tool",
                     .where = place(page),
                     .found = keys_of(object),
                     .allowed = fmt::format("a page with {}", fmt::join(names, " or ")),
                     .remedy = fmt::format("convert it: plimsoll convert --input {} --output pages.jsonl",
                                           shell_word(page.file.string()))});
  }
  throw PageError("missing-key", {.what = fmt::format("a page has no {}", names[0]),
                                  .where = place(page),
                                  .found = keys_of(object),
                                  .allowed = fmt::format("{}", fmt::join(names, " or ")),
                                  .remedy = "add the key, or rename the one that holds it"});
}

const Json& need_array(const Json& object, std::span<const char* const> names, const Page& page) {
  const Json& value = need_key(object, names, page);
  if (!value.is_array()) throw wrong_type(page, names[0], value, "an array with one entry per word");
  return value;
}

// Makes the error for `json` with a text, if the model or the task needs words.
PageError text_refused(const Page& page, const Json& json, const Json& text) {
  const bool is_labelled = json.contains("label");
  return PageError(
      "missing-key",
      {.what = "a page has a `text` and no words",
       .where = place(page),
       .found = shown(text),
       .allowed = "`words`, and what else the model and the task read of each: boxes, an image, labels",
       .remedy =
           fmt::format("{}split the text into words; whole texts are for --task causal-lm and, with models that "
                       "see neither boxes nor images, for sequence-classification and pairs",
                       is_labelled ? "pass --task sequence-classification, if a text has one label; otherwise " : "")});
}

// Returns a page's `text` as its one word; none if it is empty.
std::vector<std::string> whole_text(const Page& page, const Json& text) {
  if (!text.is_string()) throw wrong_type(page, "`text`", text, "a string");
  std::vector<std::string> words = {text.get<std::string>()};
  if (words.front().empty()) words.clear();
  return words;
}

// Shows the numbers as in the file: NaN without the quotes that were added for parsing.
std::string shown_numbers(const Json& box) {
  std::string text;
  for (const Json& number : box) text += (text.empty() ? "" : ", ") + shown(number);
  return text.size() > 60 ? shown(box) : "[" + text + "]";
}

// Returns kUnreadBox if the fault was added to `faults`.
Box parse_box(const Json& value, const std::string& where, PageFaults* faults) {
  const auto fail = [&](std::string kind, std::string what, std::string allowed, std::string remedy) {
    report(faults, PageError(std::move(kind), {.what = std::move(what),
                                               .where = where,
                                               .found = value.is_array() ? shown_numbers(value) : shown(value),
                                               .allowed = std::move(allowed),
                                               .remedy = std::move(remedy)}));
    return kUnreadBox;
  };
  if (!value.is_array() || value.size() != 4) {
    return fail("box-shape", "a box does not have four coordinates", "[x0, y0, x1, y1]",
                "write each box as left, top, right, bottom");
  }
  Box box{};
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& number = value[i];
    if (!non_finite_name(number).empty()) {
      return fail("not-finite", "a coordinate is not finite (NaN or Infinity)", "finite numbers",
                  "check the program that computed it, and write the page again");
    }
    if (!number.is_number()) {
      return fail("box-shape", "a coordinate is not a number", "[x0, y0, x1, y1], all numbers",
                  "write each box as left, top, right, bottom");
    }
    box[i] = number.get<double>();
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

// Returns an empty name if the word's label is not known, or if the fault was added to `faults`.
std::string label_name(const Json& value, const Page& page, std::size_t word, const ReadOptions& options,
                       PageFaults* faults) {
  const auto fail = [&](std::string kind, std::string what, std::string allowed, std::string remedy) {
    report(faults, PageError(std::move(kind), {.what = std::move(what),
                                               .where = place(page, word),
                                               .found = shown(value),
                                               .allowed = std::move(allowed),
                                               .remedy = std::move(remedy)}));
    return std::string();
  };
  if (value.is_null()) return {};
  if (value.is_string()) {
    std::string name = value.get<std::string>();
    if (!name.empty()) return name;
    return fail("label-unknown", "a label has no name", "a name such as O or B-TOTAL, or null if it is not known",
                "name the label; a word outside every entity has O");
  }
  if (!value.is_number_integer()) {
    return fail("wrong-type", "a label is neither a name nor a number",
                "a label's name or its number, or null if it is not known",
                "correct the page's JSON; a word outside every entity has O");
  }
  const auto number = value.get<std::int64_t>();
  if (number == kIgnoredLabel) return {};
  const auto count = static_cast<std::int64_t>(options.label_names.size());
  if (count == 0) {
    return fail("label-numbers", "labels are numbers, but their names are not given",
                "label names, or numbers together with a list of names",
                "pass the names in order: --labels O,B-TOTAL,I-TOTAL,…");
  }
  if (number < 0 || number >= count) {
    return fail("label-unknown", "a label's number is not in the label set",
                fmt::format("0 to {} ({})", count - 1, counted(count, "label")), kUnknownLabelRemedy);
  }
  return options.label_names[static_cast<std::size_t>(number)];
}

// True if there are as many boxes and labels (nullptr: none are read) as words; one fault reports all counts.
bool counts_agree(const Page& page, const Json* boxes, const Json* labels, PageFaults* faults) {
  const std::size_t words = page.words.size();
  const bool bad_boxes = boxes != nullptr && boxes->size() != words,
             bad_labels = labels != nullptr && labels->size() != words;
  if (!bad_boxes && !bad_labels) return true;
  std::string found = bad_boxes ? counted(boxes->size(), "box") + ", " : "";
  if (bad_labels) found += counted(labels->size(), "label") + ", ";
  const std::string_view name = bad_boxes && bad_labels ? "boxes and labels" : bad_boxes ? "boxes" : "labels";
  report(faults, PageError("counts-differ",
                           {.what = fmt::format("a page's number of {} differs from its number of words", name),
                            .where = place(page),
                            .found = found + counted(words, "word"),
                            .allowed = fmt::format("{} {}, one for each word", words, name),
                            .remedy = "write one box and one label for each word"}));
  return false;
}

// Returns the keys that are neither null nor read for every task.
std::vector<std::string> other_keys(const Json& object) {
  static constexpr std::string_view kCommon[] = {"id",     "document", "image",  "image_path", "file_name", "width",
                                                 "height", "words",    "tokens", "boxes",      "bboxes",    "bbox"};
  constexpr std::size_t kMost = 32;  // of keys, and of bytes of each: tasks' keys are short
  std::vector<std::string> keys;
  for (const auto& item : object.items()) {
    if (item.value().is_null() || item.key().size() > kMost || keys.size() == kMost) continue;
    if (std::ranges::find(kCommon, item.key()) == std::end(kCommon)) keys.push_back(item.key());
  }
  return keys;
}

// Returns `id` or `document`: a string, or a number in its written form.
std::string name_of(const Json& object, const char* key, const Page& page, PageFaults* faults) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_number()) report(faults, wrong_type(page, fmt::format("`{}`", key), *found, "a string or a number"));
  return shown(*found);
}

// A page may have labels under both names: then they must be the same, as far as they can be compared.
void refuse_contradiction(const Json& json, const Page& page, const ReadOptions& options, PageFaults* faults) {
  const auto labels = json.find("labels"), tags = json.find("ner_tags");
  if (labels == json.end() || tags == json.end() || !tags->is_array() || tags->size() != labels->size()) return;
  const auto count = static_cast<std::int64_t>(options.label_names.size());
  const auto text_of = [&](const Json& value, bool named) -> std::optional<std::string> {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
    const auto number = value.get<std::int64_t>();
    if (!named) return std::to_string(number);
    return number < count ? std::optional(options.label_names[static_cast<std::size_t>(number)]) : std::nullopt;
  };
  for (std::size_t word = 0; word < labels->size(); ++word) {
    const Json &a = (*labels)[word], &b = (*tags)[word];
    const bool named = a.is_string() != b.is_string();
    const std::optional<std::string> first = text_of(a, named), second = text_of(b, named);
    if (!first || !second || *first == *second) continue;
    return report(faults, PageError("labels-differ", {.what = "`labels` and `ner_tags` of a page contradict each other",
                                                      .where = place(page, word),
                                                      .found = fmt::format("{} and {}", shown(a), shown(b)),
                                                      .allowed = "one of the two, or the same labels in both",
                                                      .remedy = "remove the key that is not meant"}));
  }
}

}  // namespace

std::string quote_non_finite(std::string_view text) { return replace_non_finite(text, "\"", "\""); }

std::string_view non_finite_name(const Json& value) {
  if (!value.is_object() || value.size() != 1 || !value.contains("") || !value.at("").is_string()) return {};
  const auto* const name = std::ranges::find(kNonFinite, value.at("").get_ref<const std::string&>());
  return name == std::end(kNonFinite) ? std::string_view() : *name;
}

namespace {

std::string replace_non_finite(std::string_view text, std::string_view before, std::string_view after) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\' && i + 1 < text.size()) {
      out += text[i++];
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      const auto* const name =
          std::ranges::find_if(kNonFinite, [&](std::string_view each) { return text.substr(i).starts_with(each); });
      if (name != std::end(kNonFinite)) {
        out.append(before).append(*name).append(after);
        i += name->size() - 1;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

}  // namespace

nlohmann::json parse_json_line(std::string_view text, const std::filesystem::path& file, std::size_t line,
                               const LineForm& form) {
  Page place;
  place.file = file;
  place.line = line;
  const RepairedText repaired(text);
  Json json = parse_text(repaired, text, place, form);
  if (!repaired.good()) throw repaired.fault_in_page(place, text);
  return json;
}

Page parse_jsonl_page(std::string_view json_text, const std::filesystem::path& file, std::size_t line,
                      const ReadOptions& options, PageFaults* faults) {
  static constexpr const char* kWords[] = {"words", "tokens"};
  static constexpr const char* kLabels[] = {"labels", "ner_tags"};
  static constexpr const char* kText[] = {"text"};

  Page page;
  page.file = file;
  page.line = line;
  const RepairedText text(json_text);
  const Json json = parse_text(text, json_text, page);
  page.id = name_of(json, "id", page, faults);
  page.document = name_of(json, "document", page, faults);

  const bool reads_text = options.target != nullptr && options.target->reads_text();
  const Json* const whole = reads_text || find_key(json, kWords) != nullptr ? nullptr : find_key(json, kText);
  if (whole != nullptr && !options.texts) throw text_refused(page, json, *whole);
  if (const Json* image = options.parts.image ? &need_key(json, kImageKeys, page) : find_key(json, kImageKeys)) {
    if (!image->is_string()) throw wrong_type(page, "image", *image, "the path of an image file");
    page.image = file.parent_path() / image->get<std::string>();  // an absolute path replaces the folder
  }
  page.width = parse_size(json, "width", page).value_or(0);
  page.height = parse_size(json, "height", page).value_or(0);
  if (page.width == 0 || page.height == 0) page.width = page.height = 0;

  bool bad_word = false;
  if (reads_text || whole != nullptr) {
    page.is_text = true;
    page.words =
        reads_text ? options.target->text(json, text.text(), page, options.chat.get()) : whole_text(page, *whole);
    for (const std::string& part : page.words) {
      if (auto fault = text.fault_in(part, place(page))) throw PageError(*fault);
    }
    if (!text.good()) report(faults, text.fault_in_page(page, json_text));
    if (options.target != nullptr) page.target = options.target->read(json, page, faults);
    if (options.target != nullptr && page.target == nullptr) {
      page.other_keys = other_keys(json);
      std::erase(page.other_keys, kText[0]);  // it is read
    }
    return page;
  }
  if (options.texts && find_key(json, kWords) == nullptr) {
    throw PageError("missing-key", {.what = "a page has neither a text nor words",
                                    .where = place(page),
                                    .found = keys_of(json),
                                    .allowed = "text, or words or tokens",
                                    .remedy = "add the key, or rename the one that holds it"});
  }
  const Json& words = need_array(json, kWords, page);
  page.words.reserve(words.size());
  for (const Json& word : words) {
    const std::size_t index = page.words.size();
    if (!word.is_string()) {
      report(faults, wrong_type(page, fmt::format("word {}", index), word, "a string"));
      page.words.emplace_back(kUnreadWord);
      continue;
    }
    page.words.push_back(word.get<std::string>());
    if (auto fault = text.fault_in(page.words.back(), fmt::format("{}, word {}", place(page), index))) {
      bad_word = true;
      page.words.back() = kUnreadWord;
      report(faults, std::move(*fault));
    }
  }
  if (!text.good() && !bad_word) report(faults, text.fault_in_page(page, json_text));

  if (options.target != nullptr) page.target = options.target->read(json, page, faults);

  const bool boxed = options.parts.boxes || find_key(json, kBoxKeys) != nullptr;
  const Json* const boxes = boxed ? &need_array(json, kBoxKeys, page) : nullptr;
  const bool labelled = !options.ignore_labels && find_key(json, kLabels) != nullptr;
  const Json* const labels = labelled ? &need_array(json, kLabels, page) : nullptr;
  const bool wanted = options.target != nullptr || !options.ignore_labels;
  if (wanted && !labelled && page.target == nullptr) page.other_keys = other_keys(json);
  if (!counts_agree(page, boxes, labels, faults)) {
    // The counts differ, so no word can be matched with its label.
    if (labelled) page.labels.assign(page.words.size(), {});
    return page;
  }
  if (boxed) {
    page.boxes.reserve(boxes->size());
    for (const Json& box : *boxes) page.boxes.push_back(parse_box(box, place(page, page.boxes.size()), faults));
  }
  if (!labelled) return page;
  page.labels.reserve(labels->size());
  for (const Json& label : *labels) {
    page.labels.push_back(label_name(label, page, page.labels.size(), options, faults));
  }
  refuse_contradiction(json, page, options, faults);
  return page;
}

Page parse_funsd_page(std::string_view json_text, const std::filesystem::path& file, const std::filesystem::path& image,
                      const ReadOptions& options, PageFaults* faults) {
  static constexpr const char* kForm[] = {"form"};
  static constexpr const char* kWords[] = {"words"};
  static constexpr const char* kBox[] = {"box"};
  static constexpr const char* kText[] = {"text"};
  static constexpr const char* kLabel[] = {"label"};

  Page page;
  page.file = file;
  page.id = file.stem().string();
  page.image = image;
  const RepairedText repaired(json_text);
  const Json json = parse_text(repaired, json_text, page);
  bool bad_word = false;
  const Json& form = need_array(json, kForm, page);
  for (std::size_t e = 0; e < form.size(); ++e) {
    const Json& entity = form[e];
    const std::string at = fmt::format("{}, entity {}", place(page), e);
    if (!entity.is_object()) throw wrong_type(page, fmt::format("entity {}", e), entity, "a JSON object");
    std::string name;
    if (!options.ignore_labels) {
      const Json& label = need_key(entity, kLabel, page);
      if (!label.is_string()) throw wrong_type(page, fmt::format("label of entity {}", e), label, "a string");
      for (const char c : label.get<std::string>()) {
        name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      }
    }
    bool first = true;
    for (const Json& word : need_array(entity, kWords, page)) {
      if (!word.is_object()) throw wrong_type(page, fmt::format("a word of entity {}", e), word, "a JSON object");
      const Json& text = need_key(word, kText, page);
      if (!text.is_string()) throw wrong_type(page, fmt::format("a word of entity {}", e), text, "a string");
      std::string spelled = text.get<std::string>();
      if (spelled.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      const std::string here = fmt::format("{}, word {}", at, page.words.size());
      if (auto fault = repaired.fault_in(spelled, here)) {
        bad_word = true;
        spelled = kUnreadWord;
        report(faults, std::move(*fault));
      }
      page.boxes.push_back(parse_box(need_key(options.segment_boxes ? entity : word, kBox, page),
                                     fmt::format("{} ({})", here, in_quotes(spelled)), faults));
      page.words.push_back(std::move(spelled));
      if (options.ignore_labels) continue;
      page.labels.push_back(name == "OTHER" ? "O" : (first ? "B-" : "I-") + name);
      first = false;
    }
  }
  if (!repaired.good() && !bad_word) report(faults, repaired.fault_in_page(page, json_text));
  if (options.target != nullptr) page.target = options.target->read(json, page, faults);
  return page;
}

}  // namespace plimsoll
