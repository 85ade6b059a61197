// Pages that a run leaves out because they could be read when it began and no longer can.
//
// A page that was skipped once stays skipped to the run's end, also in a resumed run: the checkpoint names it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll {

struct SkippedPage {
  bool evaluation = false;  // a page to evaluate on, not to train on
  std::uint32_t page = 0;   // its index in the data set's source
  Problem problem{};
};

// Write and parse [{"data": "train", "index": 16, "what": …, "where": …, "found": …}]. `parse` throws nlohmann's
// exceptions.
nlohmann::json skipped_pages_json(const std::vector<SkippedPage>& pages);
// Writes the same without `data`, for commands that read one data set.
nlohmann::json unread_pages_json(const std::vector<SkippedPage>& pages);
std::vector<SkippedPage> parse_skipped_pages(const nlohmann::json& json);

// Returns "train.jsonl:17, page 'a12', image a12.png: a page's image cannot be decoded (broken png data)"
std::string describe(const SkippedPage& page);

// Returns the indices of the pages of one data set, ascending.
std::vector<std::uint32_t> indices_of(const std::vector<SkippedPage>& pages, bool evaluation);

}  // namespace plimsoll
