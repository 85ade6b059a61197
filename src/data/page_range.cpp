#include "data/page_range.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMostShards = 100'000;

class RangeSource final : public PageSource {
 public:
  RangeSource(std::unique_ptr<const PageSource> pages, PageRange range) : pages_(std::move(pages)), range_(range) {}

  std::size_t size() const override { return range_.size(); }
  Page read(std::size_t index, PageFaults* faults) const override {
    check(index < range_.size(), "a page is one of the shard's");
    return pages_->read(range_.begin + index, faults);
  }
  std::span<const std::filesystem::path> paths() const override { return pages_->paths(); }
  std::uint64_t parsing_bytes() const override { return pages_->parsing_bytes(); }
  std::uint64_t host_bytes() const override { return pages_->host_bytes(); }
  void add_to_key(CacheKey& key) const override {
    pages_->add_to_key(key);
    key.add_text(fmt::format("pages {} to {}", range_.begin, range_.end));
  }

 private:
  std::unique_ptr<const PageSource> pages_;
  PageRange range_;
};

// Returns the page's document; nothing if the page cannot be read, so that a run continues without it.
std::optional<std::string> document_of(const PageSource& pages, std::size_t index) {
  PageFaults faults;
  try {
    return pages.read(index, &faults).document;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Returns whether the page continues with the document of the last page before it that can be read.
bool continues_document(const PageSource& pages, std::size_t index) {
  const std::optional<std::string> document = document_of(pages, index);
  if (document && document->empty()) return false;
  for (std::size_t before = index; before-- > 0;) {
    if (const std::optional<std::string> previous = document_of(pages, before)) {
      return !previous->empty() && (!document || *document == *previous);
    }
  }
  return false;
}

std::size_t parse_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

}  // namespace

std::string ShardNumber::text() const { return fmt::format("{}/{}", index + 1, count); }

ShardNumber parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::string_view all = text;
  const std::size_t number = slash == std::string::npos ? 0 : parse_number(all.substr(0, slash));
  const std::size_t count = slash == std::string::npos ? 0 : parse_number(all.substr(slash + 1));
  if (number >= 1 && number <= count && count <= kMostShards) return {.index = number - 1, .count = count};
  throw UsageError({.what = "not the number of a shard",
                    .where = "--shard",
                    .found = text,
                    .allowed = fmt::format("I/N, with I from 1 to N and N up to {}: 1/3, 2/3 and 3/3", kMostShards),
                    .remedy = "give each process a number of its own, counted from 1"});
}

PageRange range_of_shard(std::size_t pages, ShardNumber shard, const std::function<bool(std::size_t)>& joins) {
  const auto border = [&](std::size_t index) {
    std::size_t page = pages * index / shard.count;
    if (page == 0) return page;
    while (page < pages && joins(page)) ++page;
    return page;
  };
  return {.begin = border(shard.index), .end = border(shard.index + 1)};
}

PageRange range_of_shard(const PageSource& pages, ShardNumber shard) {
  return range_of_shard(pages.size(), shard, [&pages](std::size_t page) { return continues_document(pages, page); });
}

std::unique_ptr<PageSource> open_range(std::unique_ptr<const PageSource> pages, PageRange range) {
  return std::make_unique<RangeSource>(std::move(pages), range);
}

}  // namespace plimsoll
