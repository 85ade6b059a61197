// TokenizedPages: the pages of files, each parsed and tokenised once, however often they are read.
//
// Construction is the only pass over the files' text. Pages, their tokens and their faults are then packed in one file
// (data/page_cache.h): nameless and gone with the process, or kept between runs. Resolving labels, checks, data sets
// and loaders all read from there, so that memory does not grow with the pages' text: it takes 16 bytes per page
// besides what the files' own source keeps. A kept file whose pages have not changed saves the pass, too.
//
//   const auto pages = std::make_shared<TokenizedPages>(open_pages("train.jsonl", reading), encoder, reading);
//   PageTokens tokens;
//   const Page page = pages->read(17, tokens);
//
// Invariant: a page reads as its source gives it, faults included. Reading is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "data/packed_page.h"
#include "data/page_cache.h"
#include "data/page_source.h"
#include "data/windows.h"

namespace plimsoll {

// Where tokenised pages lie while they are read.
struct PageStorage {
  std::filesystem::path directory{};  // empty: temporary_directory() of base/file.h
  // The tokenizer's fingerprint, if the file is to be kept in `directory` for the next run; absent: the file is
  // nameless.
  std::optional<std::uint64_t> kept_for{};
  int threads = 1;  // threads that make it
  std::function<void(std::size_t done, std::size_t pages)> on_progress{};
};

class TokenizedPages final : public PageSource {
 public:
  // `reading` is what `source` was opened with. Throws EnvironmentError if the file cannot be written, DataError if the
  // source's files change meanwhile. Faults of pages are thrown when these are read.
  TokenizedPages(std::unique_ptr<const PageSource> source, WordEncoder encoder, const ReadOptions& reading,
                 const PageStorage& storage = {});

  std::size_t size() const override { return source_->size(); }
  using PageSource::read;
  Page read(std::size_t index, PageFaults* faults) const override;
  // Returns the page with its tokens.
  Page read(std::size_t index, PageTokens& tokens, PageFaults* faults = nullptr) const;
  std::span<const std::filesystem::path> paths() const override { return source_->paths(); }
  // Counts the tokens, too; the size of the packed page bounds them.
  std::uint64_t parsing_bytes() const override { return source_->parsing_bytes() + 3 * mapped_bytes(); }
  // Returns the most bytes of a page in memory, with its tokens: a word of one character takes 12 bytes packed, and 112
  // as two strings, a box and a token.
  std::uint64_t unpacking_bytes() const { return 10 * mapped_bytes(); }
  std::uint64_t host_bytes() const override { return source_->host_bytes() + file_->host_bytes(); }
  void add_to_key(CacheKey& key) const override { source_->add_to_key(key); }

  const WordEncoder& encoder() const { return encoder_; }
  // Returns the most that one reading thread has mapped.
  std::uint64_t mapped_bytes() const { return file_->mapped_bytes(); }

 private:
  std::vector<std::byte> make(std::size_t index) const;

  std::unique_ptr<const PageSource> source_;
  WordEncoder encoder_;
  ReadOptions reading_;
  std::unique_ptr<const PageCache> file_;
  mutable std::mutex parsing_;  // lets one thread at a time parse a damaged page
};

}  // namespace plimsoll
