#include "data/labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/file.h"
#include "base/in_quotes.h"
#include "data/label_scheme.h"
#include "data/page_source.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uint64_t kLongestLabelConfigBytes = 16 * kMiB;

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

DataError bad_config(const fs::path& path, std::string what, std::string found, std::string allowed) {
  return DataError({.what = std::move(what),
                    .where = path.string(),
                    .found = std::move(found),
                    .allowed = std::move(allowed),
                    .remedy = "correct the file, or download it again with the model"});
}

// Reads {"0": "O", "1": "B-X"} or {"O": 0, "B-X": 1} as number -> name.
std::map<std::int64_t, std::string> numbered(const Json& object, bool keys_are_numbers, const fs::path& path,
                                             std::string_view key) {
  const auto fail = [&](const std::string& found) {
    return bad_config(path, fmt::format("{} is not a map between numbers and label names", key), found,
                      keys_are_numbers ? R"({"0": "O", "1": "B-X", …})" : R"({"O": 0, "B-X": 1, …})");
  };
  if (!object.is_object()) throw fail(json_text(object).substr(0, 60));
  std::map<std::int64_t, std::string> names;
  for (const auto& item : object.items()) {
    std::int64_t number = -1;
    std::string name;
    if (keys_are_numbers) {
      const std::string& text = item.key();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size() || !item.value().is_string()) {
        throw fail(in_quotes(item.key()));
      }
      name = item.value().get<std::string>();
    } else {
      if (!item.value().is_number_integer()) throw fail(in_quotes(item.key()));
      number = item.value().get<std::int64_t>();
      name = item.key();
    }
    if (!names.emplace(number, name).second) throw fail(fmt::format("number {} twice", number));
  }
  return names;
}

}  // namespace

LabelSet::LabelSet(std::vector<std::string> names, std::string_view where) : names_(std::move(names)) {
  const auto fail = [where](std::string what, std::string found) {
    return UsageError({.what = std::move(what),
                       .where = std::string(where),
                       .found = std::move(found),
                       .allowed = "names, each once: O,B-X,I-X",
                       .remedy = "correct the list of labels"});
  };
  if (names_.empty()) throw fail("a label set is empty", "no name");
  for (const std::string& name : names_) {
    if (name.empty()) throw fail("a label has no name", fmt::format("{}", fmt::join(names_, ",")));
    if (!ids_.emplace(name, static_cast<std::int32_t>(ids_.size())).second) {
      throw fail("a label occurs twice", in_quotes(name));
    }
  }
}

LabelSet LabelSet::parse(const std::string& list_or_file) {
  std::error_code error;
  const bool is_file = fs::is_regular_file(list_or_file, error);
  const bool looks_like_file = list_or_file.find('/') != std::string::npos || list_or_file.ends_with(".txt");
  if (!is_file && looks_like_file && list_or_file.find(',') == std::string::npos) {
    throw UsageError({.what = "the label file is not found",
                      .where = "--labels",
                      .found = list_or_file,
                      .allowed = "a file with one label name per line, or names: O,B-X,I-X",
                      .remedy = "check the path"});
  }
  const std::string text = is_file ? read_text_file(list_or_file, kLongestLabelConfigBytes) : list_or_file;
  std::vector<std::string> names;
  // A list in JSON, whose names may have commas.
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (const Json list = parse_json(text); list.is_array() && std::all_of(list.begin(), list.end(), is_text)) {
    return LabelSet(list.get<std::vector<std::string>>(), is_file ? list_or_file : "--labels");
  }
  // So may names that have lines of their own.
  const std::string all = trimmed(text);
  const bool has_lines = is_file && all.find('\n') != std::string::npos && all.find(",\n") == std::string::npos;
  const char* const separators = has_lines ? "\n" : is_file ? ",\n" : ",";
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    std::string name = trimmed(std::string_view(text).substr(begin, end - begin));
    // Blank lines in a file are ignored; an empty name in a list is a mistake that must be reported.
    if (!name.empty() || !is_file) names.push_back(std::move(name));
    begin = end + 1;
  }
  return LabelSet(std::move(names), is_file ? list_or_file : "--labels");
}

std::optional<LabelSet> LabelSet::from_config(const fs::path& config_json) {
  const std::string text = read_text_file(config_json, kLongestLabelConfigBytes);
  const Json config = parse_json(text, config_json.string());
  if (!config.is_object()) {
    throw bad_config(config_json, "not valid JSON", in_quotes(std::string_view(text).substr(0, 40)), "a JSON object");
  }
  const auto by_id = config.find("id2label"), by_name = config.find("label2id");
  const bool has_ids = by_id != config.end() && !by_id->is_null();
  const bool has_names = by_name != config.end() && !by_name->is_null();
  if (!has_ids && !has_names) return std::nullopt;

  const auto labels =
      has_ids ? numbered(*by_id, true, config_json, "id2label") : numbered(*by_name, false, config_json, "label2id");
  std::vector<std::string> names;
  for (const auto& [number, name] : labels) {
    if (number != static_cast<std::int64_t>(names.size())) {
      throw bad_config(config_json, "label numbers have a gap", fmt::format("number {} ({})", number, in_quotes(name)),
                       fmt::format("{}", names.size()));
    }
    names.push_back(name);
  }
  if (has_ids && has_names) {
    // Two numbers share a name in id2label only if the file is wrong: label2id would then be
    // shorter.
    for (const auto& [number, name] : numbered(*by_name, false, config_json, "label2id")) {
      if (number < 0 || number >= static_cast<std::int64_t>(names.size()) ||
          names[static_cast<std::size_t>(number)] != name) {
        throw bad_config(config_json, "id2label and label2id contradict each other",
                         fmt::format("label2id says {} is {}", in_quotes(name), number), "the same pairs in both");
      }
    }
  }
  try {
    return LabelSet(std::move(names), config_json.string());
  } catch (const UsageError& error) {
    throw DataError(error.problem());
  }
}

LabelSet LabelSet::from_names_seen(const std::set<std::string>& seen) {
  const std::vector<std::string> all(seen.begin(), seen.end());
  const LabelScheme scheme = label_scheme(all);
  const std::string_view tags = scheme == LabelScheme::kIobes ? "BIES" : scheme == LabelScheme::kBilou ? "BILU" : "BI";
  std::set<std::string> entities, others;
  for (const std::string& name : seen) {
    const bool tagged = name.size() > 2 && tags.find(name[0]) != tags.npos && name[1] == '-';
    if (tagged && scheme != LabelScheme::kPlain) {
      entities.insert(name.substr(2));
    } else if (name != "O") {
      others.insert(name);
    }
  }
  std::vector<std::string> names = {"O"};
  for (const std::string& entity : entities) {
    for (const char tag : tags) names.push_back(fmt::format("{}-{}", tag, entity));
  }
  names.insert(names.end(), others.begin(), others.end());
  return LabelSet(std::move(names), "labels of the data");
}

LabelSet LabelSet::from_pages(const PageSource& pages) {
  std::set<std::string> seen;
  bool any_words = false, any_unknown = false;
  const std::optional<PageError> fault = read_as_far_as_possible(pages, [&](const Page& page) {
    any_words = any_words || !page.words.empty();
    for (const std::string& label : page.labels) {
      if (!label.empty()) seen.insert(label);
      any_unknown = any_unknown || label.empty();  // or the reader has reported why it is empty
    }
  });
  if (seen.empty()) {
    if (fault) throw PageError(*fault);
    if (any_unknown) {
      throw DataError({.what = "no word's label is known",
                       .where = plimsoll::listed(pages.paths()),
                       .found = "no label but null or -100",
                       .allowed = "labels of some words",
                       .remedy = "label words of the data, or pass the label set with --labels"});
    }
    throw DataError(
        {.what = any_words ? "no page has labels" : "no page has words",
         .where = pages.size() > 0 ? place(pages.read(0)) : plimsoll::listed(pages.paths()),
         .found = fmt::format("{} without {}, this one first", counted(pages.size(), "page"),
                              any_words ? "`labels` or `ner_tags`" : "words"),
         .allowed = "one label per word",
         .remedy = any_words
                       ? "add labels to the data, which training needs; to plan, the label set is enough: --labels"
                       : "run OCR on the pages first, and label their words"});
  }
  return from_names_seen(seen);
}

std::optional<std::int32_t> LabelSet::find(std::string_view name) const {
  const auto found = ids_.find(std::string(name));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int32_t> LabelSet::find_in_any_case(std::string_view name) const {
  if (const std::optional<std::int32_t> same = find(name)) return same;
  const auto alike = [name](const std::string& other) {
    return std::ranges::equal(name, other, [](unsigned char a, unsigned char b) {
      return a == b || (a < 0x80 && b < 0x80 && std::tolower(a) == std::tolower(b));
    });
  };
  const auto found = std::ranges::find_if(names_, alike);
  if (found == names_.end() || std::ranges::count_if(names_, alike) > 1) return std::nullopt;
  return static_cast<std::int32_t>(found - names_.begin());
}

std::string LabelSet::listed() const {
  constexpr std::size_t kShown = 24;
  const std::size_t count = std::min(names_.size(), kShown);
  // A name is data: it may hold anything.
  std::string text = printable(
      fmt::format("{}", fmt::join(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(count), ", ")));
  if (count < names_.size()) text += fmt::format(", … ({} in all)", names_.size());
  return text;
}

}  // namespace plimsoll
