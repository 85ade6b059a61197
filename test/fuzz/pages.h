// Checks the invariants of every page that was read (data/page.h).
#pragma once

#include <cmath>
#include <optional>

#include "data/page_source.h"

namespace plimsoll::fuzz {

// `whole`: read without a list of faults, so that no placeholder stands for an unreadable value.
inline void check_page(const Page& page, bool whole) {
  const bool counts = page.boxes.size() == page.words.size();
  check(counts || (!whole && page.boxes.empty()), "a page has a box for each word");
  check(page.labels.empty() || page.labels.size() == page.words.size(), "a page has a label for each word");
  for (const std::string& word : page.words) {
    check(invalid_utf8_offset(word) == std::string_view::npos, "a word is valid UTF-8");
  }
  for (const Box& box : page.boxes) {
    for (const double coordinate : box) check(!whole || std::isfinite(coordinate), "a coordinate is finite");
    scale_box(box, page.width, page.height, BoxFormat::k1000);
  }
  for (std::size_t i = 0; i < page.words.size(); ++i) place(page, i);
}

}  // namespace plimsoll::fuzz
