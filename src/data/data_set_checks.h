// Checks that need all pages together: ids and pages that occur twice, labels, and the kinds of boxes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/check.h"
#include "data/page_checks.h"

namespace plimsoll {

class DataSetChecker {
 public:
  DataSetChecker(const PageSource& source, const CheckOptions& options)
      : source_(source),
        options_(options),
        word_level_(options.places_kept),
        inside_first_(options.places_kept),
        order_with_ends_(options.places_kept),
        ends_(options.places_kept) {
    report_.findings = Findings(options.places_kept);
  }

  // Adds the next pages in order.
  void add(const BlockReport& block);
  CheckReport finish();

 private:
  void check_twice(const PageFacts& page);
  LabelScheme scheme_of(const std::vector<std::string>& names) const;
  void check_labels();
  // Return how often each entity or class occurs; warn of names that are nearly alike.
  std::map<std::string, std::uint64_t> entity_counts() const;
  void check_case();
  void check_spelling();
  void check_scheme();
  void check_targets();
  void check_box_habits();
  void check_tokens();

  const PageSource& source_;
  const CheckOptions& options_;
  CheckReport report_;
  Findings word_level_, inside_first_, order_with_ends_, ends_;
  BoxExtent boxes_;
  std::uint64_t document_ = 0;                                               // of the last page
  PageSize document_size_{};                                                 // up to it
  std::unordered_map<std::uint64_t, std::uint32_t> ids_, contents_, asked_;  // hash -> first page that has it
};

}  // namespace plimsoll
