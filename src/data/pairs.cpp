#include "data/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "data/page_faults.h"

namespace plimsoll {
namespace {

using Ids = std::map<std::string, std::uint32_t, std::less<>>;

constexpr std::uint32_t kSeveralPages = Pairs::kNoPage - 1;
constexpr const char* kLabelFault = "wrong-type";
constexpr LineForm kPairLine{"pair", "{\"a\": …, \"b\": …, \"label\": …}"};
constexpr const char* kLinked = "1";  // the label of pages that belong together

// Returns the representative of an element's set, halving paths on the way.
std::uint32_t find_root(std::vector<std::uint32_t>& parents, std::uint32_t element) {
  while (parents[element] != element) {
    parents[element] = parents[parents[element]];
    element = parents[element];
  }
  return element;
}

PageError pair_error(const char* kind, std::string what, std::string where, std::string found, std::string allowed,
                     std::string remedy) {
  return PageError(kind, {.what = std::move(what),
                          .where = std::move(where),
                          .found = std::move(found),
                          .allowed = std::move(allowed),
                          .remedy = std::move(remedy)});
}

}  // namespace

Pairs::Pairs(PagePaths paths, const PageSource& pages, Form form,
             const std::function<std::string(const Page&)>& group_of)
    : paths_(std::move(paths)), form_(form) {
  Ids ids;
  std::vector<std::string> groups(pages.size());
  page_ids_.resize(pages.size());
  for (std::uint32_t p = 0; p < pages.size(); ++p) {
    try {
      PageFaults faults;
      const Page page = pages.read(p, &faults);
      page_ids_[p] = page.id;
      if (group_of) groups[p] = group_of(page);
      if (form == Form::kInLine) continue;
      const auto [at, added] = ids.emplace(page.id, p);
      if (!added) at->second = kSeveralPages;
    } catch (const PageError&) {
      continue;  // the check of pages reports it, and no pair can name it
    }
  }
  for (std::uint32_t file = 0; file < paths_.size(); ++file) read_file(file, form, ids);
  if (pairs_.empty()) {
    throw DataError({.what = "a data file has no pairs",
                     .where = listed(paths_),
                     .found = "no line with text",
                     .allowed = fmt::format("one JSON object per line: {}", kPairLine.form),
                     .remedy = "pass a JSONL file with at least one pair"});
  }
  group_pages(groups);
}

void Pairs::read_file(std::uint32_t file, Form form, const Ids& ids) {
  std::ifstream stream(paths_[file]);
  if (!stream) {
    throw DataError({.what = "a file of pairs cannot be opened",
                     .where = paths_[file].string(),
                     .allowed = "a JSONL file, one pair a line",
                     .remedy = "check the path"});
  }
  std::string text;
  for (std::uint32_t line = 1; std::getline(stream, text); ++line) {
    if (text.find_first_not_of(" \t\r\xEF\xBB\xBF") == std::string::npos) continue;
    std::string_view json = text;
    if (line == 1 && json.starts_with("\xEF\xBB\xBF")) json.remove_prefix(3);
    read_line(json, {.file = file, .line = line}, form, ids);
  }
}

void Pairs::read_line(std::string_view text, Pair pair, Form form, const Ids& ids) {
  const auto index = static_cast<std::uint32_t>(pairs_.size());
  const std::string at = fmt::format("{}:{}", paths_[pair.file].string(), pair.line);
  pairs_.push_back(pair);  // kept, even if it cannot be used
  const auto refuse = [&](PageError error) { faults_.emplace_back(index, std::move(error)); };
  nlohmann::json json;
  try {
    json = parse_json_line(text, paths_[pair.file], pair.line, kPairLine);
  } catch (const PageError& error) {
    return refuse(error);
  }
  std::uint32_t pages[2] = {2 * index, 2 * index + 1};
  for (int side = 0; side < 2 && form == Form::kIds; ++side) {  // otherwise the reader of their pages reports them
    const char* const key = side == 0 ? "a" : "b";
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) {
      return refuse(pair_error("missing-key", "a pair lacks one of its pages", at, fmt::format("no `{}`", key),
                               kPairLine.form, "name both pages, or omit the pair"));
    }
    if (!found->is_string() && !found->is_number_integer()) {
      return refuse(pair_error("wrong-type", "a pair's page is not an id", fmt::format("{}, `{}`", at, key),
                               shown(*found), "the id of a page",
                               "write the id of one of --pages; or omit --pages if pairs contain their pages"));
    }
    const std::string id = found->is_string() ? found->get<std::string>() : found->dump();
    const auto page = ids.find(id);
    if (page == ids.end() || page->second == kSeveralPages) {
      const bool none = page == ids.end();
      return refuse(pair_error(
          none ? "pair-unknown-page" : "pair-ambiguous-page",
          none ? "a pair names a page that is not there, or cannot be read"
               : "a pair names a page by an id that several have",
          fmt::format("{}, `{}`", at, key), in_quotes(id),
          none ? counted(page_ids_.size(), "page") + " of --pages" : "an id that one page has",
          none ? "correct the id, or pass the page's file to --pages too" : "give each page an id of its own"));
    }
    pages[side] = page->second;
  }
  if (pages[0] == pages[1]) {
    return refuse(pair_error("pair-same-page", "a page is paired with itself", at, in_quotes(page_ids_[pages[0]]),
                             "two different pages", "omit the pair"));
  }
  if (const auto label = json.find("label"); label != json.end() && !label->is_null()) {
    if (!label->is_string() && !label->is_number_integer()) {
      return refuse(pair_error(kLabelFault, "a pair's label is neither a number nor a name", at + ", `label`",
                               shown(*label), "0 or 1, or a label's name", "correct the label"));
    }
    const std::string name = label->is_string() ? label->get<std::string>() : label->dump();
    const auto known = std::ranges::find(labels_, name);
    pair.label = static_cast<std::int32_t>(known - labels_.begin());
    if (known == labels_.end()) labels_.push_back(name);
  }
  pair.a = pages[0];
  pair.b = pages[1];
  pairs_.back() = pair;
}

void Pairs::group_pages(const std::vector<std::string>& names) {
  std::vector<std::uint32_t> parents(names.size());
  std::iota(parents.begin(), parents.end(), 0U);
  const auto join = [&](std::uint32_t a, std::uint32_t b) { parents[find_root(parents, a)] = find_root(parents, b); };
  std::map<std::string_view, std::uint32_t> first;
  for (std::uint32_t page = 0; page < names.size(); ++page) {
    if (!names[page].empty()) join(page, first.emplace(names[page], page).first->second);
  }
  for (std::size_t pair = 0; pair < size(); ++pair) {
    if (is_usable(pair) && label(pair) == kLinked) join(pairs_[pair].a, pairs_[pair].b);
  }
  groups_.resize(names.size());
  for (std::uint32_t page = 0; page < names.size(); ++page) {
    groups_[page] = static_cast<std::int32_t>(find_root(parents, page));
  }
}

std::string_view Pairs::label(std::size_t pair) const {
  const std::int32_t label = pairs_.at(pair).label;
  return label < 0 ? std::string_view() : labels_[static_cast<std::size_t>(label)];
}

std::optional<std::int32_t> Pairs::label_in(std::size_t pair, std::span<const std::string> labels) const {
  const std::string_view name = label(pair);
  if (const auto known = std::ranges::find(labels, name); known != labels.end()) {
    return static_cast<std::int32_t>(known - labels.begin());
  }
  std::int32_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size() && !name.empty();
  if (!whole || number < 0 || number >= static_cast<std::int32_t>(labels.size())) return std::nullopt;
  return number;
}

std::vector<bool> Pairs::named_pages(std::span<const std::uint32_t> without) const {
  std::vector<bool> named(page_ids_.size());
  for (std::uint32_t pair = 0; pair < size(); ++pair) {
    if (!is_usable(pair) || std::ranges::binary_search(without, pair)) continue;
    named[pairs_[pair].a] = named[pairs_[pair].b] = true;
  }
  return named;
}

std::string Pairs::place(std::size_t pair) const {
  const Pair& of = pairs_.at(pair);
  const std::string at = fmt::format("{}:{}", paths_[of.file].string(), of.line);
  return is_usable(pair) ? fmt::format("{}, '{}' and '{}'", at, page_ids_[of.a], page_ids_[of.b]) : at;
}

std::uint64_t Pairs::host_bytes() const {
  std::uint64_t bytes = pairs_.capacity() * sizeof(Pair) + groups_.capacity() * sizeof(std::int32_t) +
                        page_ids_.capacity() * sizeof(std::string);
  for (const std::string& id : page_ids_) bytes += id.capacity();
  return bytes;
}

void Pairs::add_faults(Findings& findings) const {
  for (const auto& [pair, fault] : faults_) {
    // The reader of a line's pages reports what is wrong with the whole line.
    const bool is_told = form_ == Form::kInLine && fault.kind() != kLabelFault;
    if (!is_told) findings.add(Severity::kError, fault.kind(), fault.problem());
  }
}

void Pairs::check(PairOrder order, Findings& findings) const {
  const bool ordered = order == PairOrder::kContradicts;
  add_faults(findings);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> first;
  for (std::size_t pair = 0; pair < size(); ++pair) {
    if (!is_usable(pair)) continue;
    const Pair& of = pairs_[pair];
    std::pair pages(of.a, of.b);
    if (order != PairOrder::kAnother && pages.first > pages.second) std::swap(pages.first, pages.second);
    const auto [at, added] = first.emplace(pages, pair);
    if (added) continue;
    const Pair& before = pairs_[at->second];
    const bool contradicts = before.label != of.label || (ordered && before.a != of.a);
    // People may disagree about which one is better, but no pair has two labels.
    findings.add(
        contradicts && !ordered ? Severity::kError : Severity::kWarning,
        contradicts ? "pair-contradiction" : "pair-twice",
        {.what = contradicts ? "two pairs contradict each other" : "a pair occurs twice; it counts twice",
         .where = place(pair),
         .found = contradicts && ordered ? "the other order at " + place(at->second)
                  : contradicts ? fmt::format("label {} here, {} at {}", label(pair).empty() ? "none" : label(pair),
                                              label(at->second).empty() ? "none" : label(at->second), place(at->second))
                                : "first at " + place(at->second),
         .allowed = "each pair once",
         .remedy = "omit one of them"});
  }
}

void Pairs::check_held_out(const Pairs& training, PairOrder order, Findings& findings) const {
  const auto key = [order](const Pair& pair) {
    const bool swaps = order != PairOrder::kAnother && pair.a > pair.b;
    return swaps ? std::pair(pair.b, pair.a) : std::pair(pair.a, pair.b);
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> trained;
  for (std::size_t pair = 0; pair < training.size(); ++pair) {
    if (training.is_usable(pair)) trained.emplace(key(training[pair]), pair);
  }
  for (std::size_t pair = 0; pair < size(); ++pair) {
    const auto found = is_usable(pair) ? trained.find(key(pairs_[pair])) : trained.end();
    if (found == trained.end()) continue;
    findings.add(Severity::kWarning, "pair-in-both",
                 {.what = "a pair is in both the training and the evaluation data",
                  .where = place(pair),
                  .found = "the pair of " + training.place(found->second),
                  .allowed = "pairs that are not in the training data",
                  .remedy = "remove it from one of them; otherwise the score will be too optimistic"});
  }
}

const PairContent& pair_of(const Page& page) {
  const auto* const pair = dynamic_cast<const PairContent*>(page.target.get());
  plimsoll::check(pair != nullptr, "a page of PairedPages has its pair");
  return *pair;
}

PairedPages::PairedPages(std::shared_ptr<const PageSource> pages, std::shared_ptr<const Pairs> pairs)
    : pages_(std::move(pages)), pairs_(std::move(pairs)) {}

Page PairedPages::read(std::size_t index, PageFaults* faults) const {
  const Pairs::Pair& pair = (*pairs_)[index];
  if (!pairs_->is_usable(index)) {
    const auto fault = std::ranges::lower_bound(pairs_->faults(), static_cast<std::uint32_t>(index), {},
                                                [](const auto& each) { return each.first; });
    throw PageError(fault->second);
  }
  Page page = pages_->read(pair.a, faults);
  auto content = std::make_shared<PairContent>();
  content->first_id = page.id;
  content->second = pages_->read(pair.b, faults);
  content->label = pairs_->label(index);
  page.id = fmt::format("{} and {}", page.id, content->second.id);
  page.file = pairs_->paths()[pair.file];
  page.line = pair.line;
  page.target = std::move(content);
  return page;
}

}  // namespace plimsoll
