// Pairs: examples that are two pages each, read from JSONL, one pair per line: {"a": "000", "b": "166", "label": 0},
// with ids of pages in separate files (--pages), or the pages themselves, {"a": {"words": …}, "b": …}.
//
// Invariant: every line is one pair, whether it can be used or not, so that a pair's number follows from the files
// alone. A page is parsed and tokenised once, however many pairs name it; 24 bytes per pair are kept.
//
//   const auto pairs = std::make_shared<const Pairs>(paths, *pages, Pairs::Form::kIds);
//   if (pairs->is_usable(17)) use((*pairs)[17].a, (*pairs)[17].b);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/findings.h"
#include "data/labels.h"
#include "data/page_source.h"

namespace plimsoll {

// Says what (b, a) is to a task that has the pair (a, b).
enum class PairOrder : std::uint8_t {
  kSame,        // the same pair: of similarities
  kAnother,     // another pair, which may have another label: of classes, such as whether a leads to b
  kContradicts  // its contradiction: of rankings
};

class Pairs {
 public:
  static constexpr std::uint32_t kNoPage = ~std::uint32_t{0};
  static constexpr std::int32_t kNoGroup = -100;

  enum class Form : std::uint8_t {
    kIds,    // `a` and `b` are ids of the pages
    kInLine  // they are the pages: `a` of line k is page 2 k, and `b` is the next one
  };
  struct Pair {
    std::uint32_t a = kNoPage, b = kNoPage;  // pages; both kNoPage if the pair cannot be used
    std::int32_t label = -1;                 // numbered in the order of first occurrence; -1: none
    std::uint32_t file = 0, line = 0;        // line from 1
  };

  // Reads every pair. `pages` are those that the pairs may name; they are read once, for their ids and for `group_of`,
  // which returns the name of a page's group, or nothing, and may be empty. Throws DataError for a file that cannot be
  // read or has no pairs; errors of single pairs are kept as faults().
  Pairs(PagePaths paths, const PageSource& pages, Form form,
        const std::function<std::string(const Page&)>& group_of = {});

  std::size_t size() const { return pairs_.size(); }
  const Pair& operator[](std::size_t pair) const { return pairs_.at(pair); }
  bool is_usable(std::size_t pair) const { return pairs_.at(pair).a != kNoPage; }
  // Returns the label as it was written: "1"; empty if there is none.
  std::string_view label(std::size_t pair) const;
  // Returns the label's number: that of its name, or the number itself; nothing if the labels have neither.
  std::optional<std::int32_t> label_in(std::size_t pair, std::span<const std::string> labels) const;
  // Pages of one group, or linked by pairs with label 1, have the same number; any other page has a number of its own.
  std::int32_t group(std::uint32_t page) const { return groups_.at(page); }
  // Returns, by page, whether a usable pair that is not among `without` (ascending) names it.
  std::vector<bool> named_pages(std::span<const std::uint32_t> without = {}) const;
  // Returns "pairs.jsonl:17, '000' and '166'".
  std::string place(std::size_t pair) const;
  // Returns the pairs that cannot be used, and why, ascending.
  std::span<const std::pair<std::uint32_t, PageError>> faults() const { return faults_; }
  std::span<const std::filesystem::path> paths() const { return paths_; }
  std::uint64_t host_bytes() const;

  // Adds the faults that the check of the pages does not add.
  void add_faults(Findings& findings) const;
  // Adds those, and the pairs that occur twice or contradict each other, to `findings`.
  void check(PairOrder order, Findings& findings) const;
  // Adds the pairs that `training`, which names the same pages, has, too: "pair-in-both".
  void check_held_out(const Pairs& training, PairOrder order, Findings& findings) const;

 private:
  void read_file(std::uint32_t file, Form form, const std::map<std::string, std::uint32_t, std::less<>>& ids);
  void read_line(std::string_view text, Pair pair, Form form,
                 const std::map<std::string, std::uint32_t, std::less<>>& ids);
  void group_pages(const std::vector<std::string>& names);

  PagePaths paths_;
  Form form_;
  std::vector<Pair> pairs_;
  std::vector<std::string> labels_;  // as written, in the order of their first occurrence
  std::vector<std::string> page_ids_;
  std::vector<std::int32_t> groups_;  // of pages
  std::vector<std::pair<std::uint32_t, PageError>> faults_;
};

// Makes a task's targets for pairs. One object serves all threads.
class PairTargets {
 public:
  virtual ~PairTargets() = default;
  // Returns whether the pair is an example to train on.
  virtual bool trains_on(const Pairs&, std::size_t /*pair*/) const { return true; }
  // Fills `targets` and `loss_terms` of the sample that is the first page of the pair (`side` 0) or the second (1).
  // `trains` is true for training, false for evaluation.
  virtual void encode(const Pairs& pairs, std::size_t pair, int side, bool trains, EncodedExample& out) const = 0;
  // Adds what is wrong with the pairs to `findings`, and counts the names of their labels.
  virtual void check(const Pairs& pairs, Findings& findings, std::map<std::string, std::uint64_t>& labels) const = 0;
  // Returns what the pair (b, a) is beside (a, b).
  virtual PairOrder order() const = 0;
};

// A pair in the form of a page: the first page, under the name of both.
struct PairContent final : PageTarget {
  std::string first_id;
  Page second;
  std::string label;  // empty: none
};
const PairContent& pair_of(const Page& page);

// Presents the pairs as a source of pages.
class PairedPages final : public PageSource {
 public:
  PairedPages(std::shared_ptr<const PageSource> pages, std::shared_ptr<const Pairs> pairs);
  std::size_t size() const override { return pairs_->size(); }
  using PageSource::read;
  Page read(std::size_t pair, PageFaults* faults) const override;
  std::span<const std::filesystem::path> paths() const override { return pairs_->paths(); }
  std::uint64_t parsing_bytes() const override { return pages_->parsing_bytes(); }
  std::uint64_t host_bytes() const override { return pages_->host_bytes() + pairs_->host_bytes(); }
  void add_to_key(CacheKey& key) const override { pages_->add_to_key(key); }

 private:
  std::shared_ptr<const PageSource> pages_;
  std::shared_ptr<const Pairs> pairs_;
};

}  // namespace plimsoll
