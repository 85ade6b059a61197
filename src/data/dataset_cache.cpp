// The cache of Dataset: the contents of an entry, and what it depends on.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "data/dataset.h"

namespace plimsoll {
namespace {

// A token has an id, four coordinates, a label and the word that it predicts.
constexpr std::size_t kTokenBytes = 7 * sizeof(std::int32_t);

// Visits the arrays of an example in their order in an entry: those with one number per token, its targets, and where
// its page begins.
template <typename Example, typename Visit>
void for_arrays(Example& example, const Visit& visit) {
  visit(std::span(example.input_ids));
  visit(std::span(example.bbox));
  visit(std::span(example.labels));
  visit(std::span(example.predicts));
  visit(std::span(example.targets));
  visit(std::span(&example.pair_begin, 1));
}

}  // namespace

void Dataset::add_to_key(const EncodedExample& example, CacheKey& key) {
  for_arrays(example, [&key](const auto& array) { key.add(std::as_bytes(array)); });
}

// The file is named after the data and its use, so that other options replace the file instead of adding one.
std::filesystem::path Dataset::cache_path() const {
  std::string text;
  for (const std::filesystem::path& path : pages_->paths()) {
    text += (text.empty() ? "" : "\n") + std::filesystem::absolute(path).lexically_normal().string();
  }
  const int use = (options_.labels ? 1 : 0) + (options_.label_owned_words_only ? 2 : 0) + (options_.targets ? 4 : 0);
  const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(text)), static_cast<std::uint64_t>(use));
  const std::string name = std::filesystem::absolute(pages_->paths().front()).lexically_normal().stem().string();
  return options_.cache.directory / fmt::format("{}-{:016x}.pages", name, hash);
}

std::size_t Dataset::cached_bytes(const Example& example) const {
  return example.tokens * kTokenBytes + (targets_ + 1) * sizeof(std::int32_t);
}

void Dataset::open_cache(CacheKey key) {
  const std::string image = processor_.config().to_json();
  key.add(std::as_bytes(std::span(image)));
  const auto entry_bytes = [this](std::size_t example, std::size_t page) {
    std::size_t bytes = pixel_count();
    for (; example < examples_.size() && examples_[example].page == page; ++example) {
      bytes += cached_bytes(examples_[example]);
    }
    return bytes;
  };
  std::vector<std::uint32_t> first(pages_->size(), static_cast<std::uint32_t>(examples_.size()));
  for (std::size_t i = examples_.size(); i-- > 0;) first[examples_[i].page] = static_cast<std::uint32_t>(i);
  PageCache::Contents contents{.pages = pages_->size(), .threads = options_.cache.threads};
  for (std::size_t page = 0; page < first.size(); ++page) contents.bytes += entry_bytes(first[page], page);
  ByteGate decoding(kDecodingBytes);
  contents.fill = [&](std::size_t page) {
    std::vector<std::byte> entry(entry_bytes(first[page], page));
    const bool is_read = !is_skipped(page) && first[page] < examples_.size();
    if (is_read) fill_entry(page, first[page], decoding, entry);
    return entry;
  };
  cache_ = std::make_unique<PageCache>(cache_path(), key, contents);
}

void Dataset::fill_entry(std::size_t page, std::size_t first, ByteGate& decoding, std::span<std::byte> out) const {
  Scratch scratch;
  scratch.decoding = &decoding;
  EncodedExample example;
  read_page(page, scratch);
  const auto pixels = out.first(pixel_count());
  if (!pixels.empty()) load_pixels(scratch, {reinterpret_cast<std::uint8_t*>(pixels.data()), pixels.size()});
  out = out.subspan(pixels.size());
  for (std::size_t i = first; i < examples_.size() && examples_[i].page == page; ++i) {
    cut_unchanged(examples_[i], scratch);
    encode(examples_[i], scratch, example);
    for_arrays(example, [&out](const auto& array) {
      const auto bytes = std::as_bytes(array);
      std::ranges::copy(bytes, out.begin());  // there may be none, and memcpy takes no null pointers
      out = out.subspan(bytes.size());
    });
  }
}

bool Dataset::load_cached(std::size_t index, EncodedExample& out, std::span<std::uint8_t> pixels) const {
  const Example& example = examples_[index];
  return cache_->read(example.page, [&](std::span<const std::byte> entry) {
    if (!pixels.empty()) std::memcpy(pixels.data(), entry.data(), pixels.size());
    std::size_t before = 0;  // bytes of the page's earlier examples
    for (std::size_t i = index; i > 0 && examples_[i - 1].page == example.page; --i)
      before += cached_bytes(examples_[i - 1]);
    entry = entry.subspan(pixel_count() + before);
    out.input_ids.resize(example.tokens);
    out.bbox.resize(example.tokens);
    out.labels.resize(example.tokens);
    out.predicts.resize(example.tokens);
    out.targets.resize(targets_);
    for_arrays(out, [&](const auto& array) {
      const auto bytes = std::as_writable_bytes(array);
      std::ranges::copy(entry.first(bytes.size()), bytes.begin());
      entry = entry.subspan(bytes.size());
    });
    out.loss_terms = example.loss_terms;
  });
}

}  // namespace plimsoll
