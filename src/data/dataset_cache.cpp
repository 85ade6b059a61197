// The cache of Dataset: the contents of an entry, and what it depends on.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "data/dataset.h"

namespace plimsoll {
namespace {

// A token has an id, four coordinates, a label and the word that it predicts.
constexpr std::size_t kTokenBytes = 7 * sizeof(std::int32_t);

// Visits the arrays of an example in their order in an entry: those with a number a token, its targets, and where its
// page begins.
template <typename Example, typename Visit>
void for_arrays(Example& example, const Visit& visit) {
  visit(std::span(example.input_ids));
  visit(std::span(example.bbox));
  visit(std::span(example.labels));
  visit(std::span(example.predicts));
  visit(std::span(example.targets));
  visit(std::span(&example.pair_begin, 1));
}

template <typename T>
void add_value(CacheKey& key, const T& value) {
  key.add(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

void Dataset::add_to_key(const EncodedExample& example, CacheKey& key) {
  for_arrays(example, [&key](const auto& array) { key.add(std::as_bytes(array)); });
}

// An image is identified by its path, its size and the time when it was last changed, renamed or replaced.
void Dataset::add_to_key(const std::filesystem::path& image, CacheKey& key) {
  const std::string path = std::filesystem::absolute(image).lexically_normal().string();
  key.add(std::as_bytes(std::span(path)));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return;  // the error is reported when the file is opened
  for (const auto value :
       {std::int64_t{info.st_size}, std::int64_t{info.st_mtim.tv_sec}, std::int64_t{info.st_mtim.tv_nsec},
        std::int64_t{info.st_ctim.tv_sec}, std::int64_t{info.st_ctim.tv_nsec}}) {
    add_value(key, value);
  }
}

// The file is named after the data and its use, so that other options replace the file instead of adding one.
std::filesystem::path Dataset::cache_path() const {
  std::string text;
  for (const std::filesystem::path& path : source_->paths()) {
    text += (text.empty() ? "" : "\n") + std::filesystem::absolute(path).lexically_normal().string();
  }
  const int use = (options_.labels ? 1 : 0) + (options_.label_owned_words_only ? 2 : 0) + (options_.targets ? 4 : 0);
  const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(text)), static_cast<std::uint64_t>(use));
  const std::string name = std::filesystem::absolute(source_->paths().front()).lexically_normal().stem().string();
  return options_.cache.directory / fmt::format("{}-{:016x}.pages", name, hash);
}

std::size_t Dataset::cached_bytes(const Example& example) const {
  return example.tokens * kTokenBytes + (targets_ + 1) * sizeof(std::int32_t);
}

void Dataset::open_cache(CacheKey key) {
  const std::string image = processor_.config().to_json();
  key.add(std::as_bytes(std::span(image)));
  std::vector<std::uint64_t> entry_bytes(source_->size(), pixel_count());
  for (const Example& example : examples_) {
    entry_bytes[example.page] += cached_bytes(example);
  }
  std::vector<std::uint32_t> first(source_->size());  // the first example of each page
  for (std::size_t i = examples_.size(); i-- > 0;) first[examples_[i].page] = static_cast<std::uint32_t>(i);
  ByteGate decoding(kDecodingBytes);
  cache_ = std::make_unique<PageCache>(
      cache_path(), key, entry_bytes, options_.cache.threads, [&](std::size_t page, std::span<std::byte> out) {
        Scratch scratch;
        scratch.decoding = &decoding;
        EncodedExample example;
        if (is_skipped(page)) return;  // its entry is never read
        read_page(page, scratch);
        const auto pixels = out.first(pixel_count());
        if (!pixels.empty()) load_pixels(scratch, {reinterpret_cast<std::uint8_t*>(pixels.data()), pixels.size()});
        out = out.subspan(pixels.size());
        for (std::size_t i = first[page]; i < examples_.size() && examples_[i].page == page; ++i) {
          cut_unchanged(examples_[i], scratch);
          encode(examples_[i], scratch, example);
          for_arrays(example, [&out](const auto& array) {
            const auto bytes = std::as_bytes(array);
            std::memcpy(out.data(), bytes.data(), bytes.size());
            out = out.subspan(bytes.size());
          });
        }
      });
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
      std::memcpy(bytes.data(), entry.data(), bytes.size());
      entry = entry.subspan(bytes.size());
    });
    out.loss_terms = example.loss_terms;
  });
}

}  // namespace plimsoll
