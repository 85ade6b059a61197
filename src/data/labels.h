// LabelSet: the names with which a token can be labelled, and their numbers.
//
// Invariant: there is at least one name, no name occurs twice, numbers are 0 .. size() - 1 in order.
//
//   LabelSet labels = LabelSet::parse("O,B-TOTAL,I-TOTAL");
//   labels.find("B-TOTAL") == 1; labels.name(2) == "I-TOTAL";
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll {

class PageSource;

// What messages advise on a label that is not in the label set.
inline constexpr const char* kUnknownLabelRemedy =
    "correct the data, or leave the page out; a model learns labels that it does not know in a new head: train it with "
    "--labels and all their names";

class LabelSet {
 public:
  // Takes the names in the given order. Throws UsageError (naming `where`) if there are none, or if a name is empty or
  // occurs twice.
  LabelSet(std::vector<std::string> names, std::string_view where);

  // Parses "O,B-X,I-X" or ["O", "B-X"], or reads a file with such a list or one name per line. Throws UsageError.
  static LabelSet parse(const std::string& list_or_file);
  // Reads `id2label` (or else `label2id`) of a config.json; nullopt if it has neither. Throws DataError if the numbers
  // have gaps, the names repeat, or the two contradict each other.
  static std::optional<LabelSet> from_config(const std::filesystem::path& config_json);
  // Makes a set from the names that occur: O first, then all tags of the names' scheme (B- and I-, in BIOES also E- and
  // S-, in BILOU also L- and U-) for each entity in alphabetical order, even if the data has only some (held-out pages
  // may have the others), then names of any other kind.
  static LabelSet from_names_seen(const std::set<std::string>& seen);
  // Reads every page; pages without labels, and unreadable parts of others, are skipped. If no page has labels, throws
  // the first fault, or DataError if there is none.
  static LabelSet from_pages(const PageSource& pages);

  std::size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& name(std::size_t id) const { return names_.at(id); }
  std::optional<std::int32_t> find(std::string_view name) const;
  // Finds the same name, or else the only one that differs from it only in the case of ASCII letters: words labelled
  // B-HEADER name the entities that FUNSD calls "header".
  std::optional<std::int32_t> find_in_any_case(std::string_view name) const;
  // Returns "O, B-TOTAL, I-TOTAL", cut after some names, for messages.
  std::string listed() const;

  friend bool operator==(const LabelSet& a, const LabelSet& b) { return a.names_ == b.names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace plimsoll
