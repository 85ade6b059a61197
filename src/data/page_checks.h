// What can be said of one page by itself: its values, boxes, labels, image and tokens.
//
//   PageChecker checker(*source, options, gate);  // one a thread: it keeps buffers
//   BlockReport block(options.places_kept);
//   for (std::size_t i = begin; i < end; ++i) checker.check(i, block);
//
// Invariant: what is kept of a page, once checked, is a PageFacts and its findings.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "data/box_checks.h"
#include "data/check.h"

namespace plimsoll {

// What the checks on the whole data set need of a page that could be read.
struct PageFacts {
  std::uint32_t index = 0;
  std::uint64_t id = 0;       // hash
  std::uint64_t content = 0;  // hash of words and boxes; 0: too few words to tell pages apart
};

// Of pages in a row.
struct BlockReport {
  explicit BlockReport(std::size_t places_kept) : findings(places_kept), word_level(places_kept) {}

  Findings findings;
  Findings word_level;  // "word-boxes" of pages without shared boxes, which count only beside pages that share them
  CheckCounts counts;
  std::vector<PageFacts> pages;
  std::map<std::string, std::uint64_t> labels;  // occurrences
  BoxExtent boxes;
};

class PageChecker {
 public:
  // `decoding`, which all threads share, bounds what their decoders hold.
  PageChecker(const PageSource& source, const CheckOptions& options, ByteGate& decoding)
      : source_(source), options_(options), decoding_(decoding) {}

  // Adds page `index`. Faults of the page become findings; nothing is thrown for them.
  void check(std::size_t index, BlockReport& block);

 private:
  void check_page(Page& page, std::size_t index);
  void check_image(Page& page);
  void check_page_boxes(const Page& page);
  void check_labels(const Page& page);
  void check_tokens(const Page& page);
  void check_length(const Page& page);
  void add(Severity severity, std::string_view kind, Problem problem);

  const PageSource& source_;
  const CheckOptions& options_;
  ByteGate& decoding_;
  BlockReport* block_ = nullptr;  // the one being filled
  PageTokens tokens_;
  std::vector<Window> windows_;
};

}  // namespace plimsoll
