#include "data/tokenized_pages.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

CacheKey key_of_files(const PageSource& source) {
  CacheKey key;
  source.add_to_key(key);
  return key;
}

// Adds what pages depend on besides their files. The first text names how pages are read, tokenised and packed: it
// changes when that does.
void add_to_key(const ReadOptions& reading, std::uint64_t tokenizer, CacheKey& key) {
  key.add_text("pages and tokens, 7");
  key.add(std::as_bytes(std::span(&tokenizer, 1)));
  key.add_text(fmt::format("{}{}{}{}{}{} {} {}", reading.pairs, reading.texts, reading.segment_boxes,
                           reading.parts.boxes, reading.parts.image, reading.ignore_labels, reading.max_page_bytes,
                           reading.target != nullptr ? reading.target->key() : std::string_view()));
  for (const std::string& name : reading.label_names) key.add_text(name);
}

// The file is named after the data and its use, so that other options replace the file instead of adding one.
fs::path kept_path(const PageSource& source, const ReadOptions& reading, const fs::path& directory) {
  std::string text = reading.target != nullptr ? std::string(reading.target->key()) : std::string();
  for (const fs::path& path : source.paths()) text += "\n" + fs::absolute(path).lexically_normal().string();
  const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(text)), reading.ignore_labels ? 1 : 0);
  const std::string name = fs::absolute(source.paths().front()).lexically_normal().stem().string();
  return directory / fmt::format("{}-{:016x}.tokens", name, hash);
}

// For a directory that no option named, messages name the variable that selects another one.
std::unique_ptr<const PageCache> make_nameless(const fs::path& directory, const PageCache::Contents& contents) {
  if (!directory.empty()) return std::make_unique<PageCache>(directory, contents);
  try {
    return std::make_unique<PageCache>(temporary_directory(), contents);
  } catch (const EnvironmentError& error) {
    Problem problem = error.problem();
    if (problem.remedy.find("ulimit") != std::string::npos) throw;  // another disk has the same limit
    problem.remedy = "set TMPDIR to a directory on a disk with room for about as much as the data's text";
    throw EnvironmentError(std::move(problem));
  }
}

}  // namespace

TokenizedPages::TokenizedPages(std::unique_ptr<const PageSource> source, WordEncoder encoder,
                               const ReadOptions& reading, const PageStorage& storage)
    : source_(std::move(source)), encoder_(std::move(encoder)), reading_(reading) {
  const PageCache::Contents contents{.pages = source_->size(),
                                     .threads = storage.threads,
                                     .fill = [this](std::size_t index) { return make(index); },
                                     .on_progress = storage.on_progress};
  const CacheKey files = key_of_files(*source_);
  if (storage.kept_for) {
    CacheKey key = files;
    plimsoll::add_to_key(reading_, *storage.kept_for, key);
    file_ = std::make_unique<PageCache>(kept_path(*source_, reading_, storage.directory), key, contents);
  } else {
    file_ = make_nameless(storage.directory, contents);
  }
  if (key_of_files(*source_) == files) return;
  throw DataError({.what = "the data has changed while it was read",
                   .where = listed(source_->paths()),
                   .found = "another size or time of change than before",
                   .allowed = "files that nobody writes to",
                   .remedy = "do not change data files while a command reads them; start again"});
}

std::vector<std::byte> TokenizedPages::make(std::size_t index) const {
  PackedPage packed;
  try {
    packed.page = source_->read(index, &packed.faults);
    std::vector<std::string_view> prompts;
    if (packed.page.target != nullptr && !is_unread(packed.page))
      prompts = reading_.target->prompts(*packed.page.target);
    packed.tokens.assign(packed.page, encoder_, prompts);
    if (reading_.counts != nullptr) ++reading_.counts->tokenized;
  } catch (const PageError& error) {
    packed.broken = error;
  } catch (const DataError& error) {
    packed.broken = PageError("page-unreadable", error.problem());
  }
  return pack_page(packed, reading_.target);
}

Page TokenizedPages::read(std::size_t index, PageFaults* faults) const {
  PageTokens tokens;
  return read(index, tokens, faults);
}

Page TokenizedPages::read(std::size_t index, PageTokens& tokens, PageFaults* faults) const {
  PackedPage packed;
  const auto unpack = [&](std::span<const std::byte> bytes) { packed = unpack_page(bytes, reading_.target); };
  if (!file_->read(index, unpack)) {
    const std::lock_guard lock(parsing_);
    unpack(make(index));
  }
  if (faults == nullptr && !packed.faults.empty()) throw std::move(packed.faults.front());
  for (PageError& fault : packed.faults) faults->push_back(std::move(fault));
  if (packed.broken) throw std::move(*packed.broken);
  tokens = std::move(packed.tokens);
  return std::move(packed.page);
}

}  // namespace plimsoll
