// Findings: faults that a check has found, grouped by kind and by what is wrong, each group with its count, its first
// places and one example.
//
// Invariant: memory depends on the number of groups, not on the number of occurrences. So `what` says nothing of the
// page: `where` and `found` do.
//
//   Findings findings;
//   findings.add(Severity::kError, "box-outside", {.what = "a box lies outside the page", .where = "train.jsonl:17"});
//   if (findings.count(Severity::kError) > 0) fmt::print("{}", findings.to_text());
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll {

enum class Severity : std::uint8_t { kError, kWarning, kInfo };
std::string_view severity_name(Severity severity);  // "error", "warning", "info"

struct Finding {
  struct Place {
    std::string where{};
    std::string found{};
    friend bool operator==(const Place&, const Place&) = default;
  };

  Severity severity = Severity::kError;
  std::string kind{};           // stable short name for machines, "box-outside"
  std::uint64_t count = 0;      // number of occurrences
  Problem first{};              // the first occurrence; its place is places[0]
  std::vector<Place> places{};  // places of the first occurrences
};

class Findings {
 public:
  static constexpr std::size_t kPlacesKept = 5;

  // Keeps the places of the first `places_kept` occurrences of each kind.
  explicit Findings(std::size_t places_kept = kPlacesKept) : places_kept_(places_kept) {}

  void add(Severity severity, std::string_view kind, Problem problem);
  // Adds a group whose kind and `what` are not here yet.
  void add(Finding finding) { findings_.push_back(std::move(finding)); }
  // Appends `other`, as if it had come after the findings here (checks that ran in parallel, in page order).
  void merge(const Findings& other);

  // Returns errors first, then warnings, then infos; each in order of first occurrence.
  std::vector<Finding> sorted() const;
  // The number of occurrences of one severity.
  std::uint64_t count(Severity severity) const;
  // The number of occurrences of one kind.
  std::uint64_t count(std::string_view kind) const;
  bool empty() const { return findings_.empty(); }

  // Returns one paragraph per kind, for people; it ends with a line break unless empty.
  std::string to_text() const;
  // A JSON array of {"severity", "kind", "count", "what", "places", "found_at_places", "found", "allowed", "remedy"}.
  std::string to_json() const;
  // Returns one line per kind, for a log: "[box-inverted] a box's … (3 times, first at …)".
  std::vector<std::string> to_lines(Severity severity) const;
  // Returns the errors as one DataError, for a run that must not begin; `more` says where the others are listed.
  // Precondition: there is at least one error.
  DataError to_error(std::string_view file, std::string_view more = "plimsoll check lists all kinds") const;

 private:
  std::size_t places_kept_;
  std::vector<Finding> findings_;
};

}  // namespace plimsoll
