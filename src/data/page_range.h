// The pages of a shard: one of several parts of a data set, on which processes without a network work independently.
//
//   const ShardNumber shard = parse_shard("2/3");
//   const PageRange range = range_of_shard(*pages, shard);
//   const std::unique_ptr<PageSource> part = open_range(std::move(pages), range);
//
// Invariant: shards 1 to n follow one another and cover all pages; consecutive pages of one document (Page::document)
// belong to one shard, which may leave another shard empty.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "data/page_source.h"

namespace plimsoll {

struct ShardNumber {
  std::size_t index = 0, count = 1;  // the index counts from 0

  std::string text() const;  // "2/3"
  friend bool operator==(const ShardNumber&, const ShardNumber&) = default;
};

// Reads "2/3"; throws UsageError, which names --shard, for anything else.
ShardNumber parse_shard(const std::string& text);

struct PageRange {
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
};

// `joins(i)` says whether page i belongs to the shard of the page before it.
PageRange range_of_shard(std::size_t pages, ShardNumber shard, const std::function<bool(std::size_t page)>& joins);
PageRange range_of_shard(const PageSource& pages, ShardNumber shard);

// Returns only these pages; messages name them as before. Throws nothing; the range may be empty.
std::unique_ptr<PageSource> open_range(std::unique_ptr<const PageSource> pages, PageRange range);

}  // namespace plimsoll
