// Checks that need only one page: its values, boxes, labels, image and tokens.
//
//   PageChecker checker(*source, options, gate);  // one per thread: it keeps buffers
//   BlockReport block(options.places_kept);
//   for (std::size_t i = begin; i < end; ++i) checker.check(i, block);
//
// Invariant: only a PageFacts and its findings are kept of a checked page.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "data/box_checks.h"
#include "data/check.h"
#include "data/label_scheme.h"
#include "data/page_sizes.h"

namespace plimsoll {

// What the checks on the whole data set need to know about a page that could be read.
struct PageFacts {
  std::uint32_t index = 0;
  std::uint64_t id = 0;        // hash
  std::uint64_t content = 0;   // hash of words and boxes; 0: too few words to distinguish pages
  std::uint64_t asked = 0;     // the same with PageTarget::asked
  std::uint64_t picture = 0;   // hash of its image's path; 0: none is read
  std::uint64_t document = 0;  // hash of its name; 0: it has none
  PageSize size{};
};

// The report on a block of consecutive pages.
struct BlockReport {
  explicit BlockReport(std::size_t places_kept)
      : findings(places_kept),
        word_level(places_kept),
        inside_first(places_kept),
        order_with_ends(places_kept),
        ends(places_kept) {}

  Findings findings;
  Findings word_level;    // "word-boxes" of pages without shared boxes, which count only beside pages that share them
  Findings inside_first;  // "tag-order" of entities that begin with I-, which is correct in IOB1
  // "tag-order" of a scheme that marks ends, and the first labels that do: a few of them among others are mistakes.
  Findings order_with_ends, ends;
  CheckCounts counts;
  std::vector<PageFacts> pages;
  std::vector<BadPage> bad_pages;
  std::map<std::string, std::uint64_t> labels;  // occurrences
  BoxExtent boxes;
};

Problem mixed_labels_problem(std::string where, std::string_view label);

class PageChecker {
 public:
  // `decoding`, which all threads share, bounds the bytes that their decoders hold.
  PageChecker(const PageSource& source, const CheckOptions& options, ByteGate& decoding);

  // Checks page `index`. Faults of the page become findings; none is thrown.
  void check(std::size_t index, BlockReport& block);

 private:
  void read_and_check(std::size_t index);
  void check_page(Page& page, std::size_t index, bool is_whole);
  void check_image(Page& page);
  void check_size(Page& page);
  void check_page_boxes(const Page& page);
  void check_labels(const Page& page, bool is_whole);
  void check_scheme(const Page& page, std::size_t word);
  void check_tag_order(const Page& page);
  bool is_known(const std::string& label) const;
  void check_iob_order(const Page& page);
  void check_tokens(const Page& page, bool is_skipped);
  std::size_t idle_windows(const Page& page);
  std::uint64_t windows_behind_prompts(const Page& page);
  void check_length(const Page& page);
  void check_truncated_text(const Page& page);
  void add(Severity severity, std::string_view kind, Problem problem);

  const PageSource& source_;
  const CheckOptions& options_;
  ByteGate& decoding_;
  LabelScheme scheme_ = LabelScheme::kIob;  // that of the label set, if there is one
  BlockReport* block_ = nullptr;            // the one being filled
  PageTokens tokens_;
  std::vector<Window> windows_;
};

}  // namespace plimsoll
