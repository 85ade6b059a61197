// LabelSet: the names a token can be labelled with, and their numbers.
//
// Invariant: at least one name, no name twice, numbers are 0 .. size() - 1 in order.
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

class LabelSet {
 public:
  // In the order given. Throws UsageError (naming `where`) if empty, or if a name is empty or comes
  // twice.
  LabelSet(std::vector<std::string> names, std::string_view where);

  // "O,B-X,I-X", or the path of a file with one name a line (or commas). Throws UsageError.
  static LabelSet parse(const std::string& list_or_file);
  // `id2label` (or else `label2id`) of a config.json; nullopt if it has neither. Throws DataError
  // if the numbers have gaps, the names repeat, or the two contradict each other.
  static std::optional<LabelSet> from_config(const std::filesystem::path& config_json);
  // From the names that occur: O first, then all tags of the names' scheme (B- and I-, in BIOES also E- and S-, in
  // BILOU also L- and U-) for each entity in alphabetical order, even where the data has only some (held-out pages may
  // have the others), then names of any other kind.
  static LabelSet from_names_seen(const std::set<std::string>& seen);
  // Reads every page; pages without labels are passed over. Throws DataError if no page has any, or
  // on a broken page.
  static LabelSet from_pages(const PageSource& pages);

  std::size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& name(std::size_t id) const { return names_.at(id); }
  std::optional<std::int32_t> find(std::string_view name) const;
  // "O, B-TOTAL, I-TOTAL", cut after some names: for messages.
  std::string listed() const;

  friend bool operator==(const LabelSet& a, const LabelSet& b) { return a.names_ == b.names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace plimsoll
