#include "formats/tensor_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {

const TensorEntry* TensorSource::find(std::string_view name) const {
  const auto place = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [this](std::size_t i, std::string_view key) { return entries_[i].name < key; });
  if (place == by_name_.end() || entries_[*place].name != name) return nullptr;
  return &entries_[*place];
}

std::optional<StoredTensor> TensorSource::stored(std::string_view name) const {
  return stored_at(static_cast<std::size_t>(&at(name) - entries_.data()));
}

const TensorEntry& TensorSource::at(std::string_view name) const {
  const TensorEntry* entry = find(name);
  if (entry != nullptr) return *entry;
  throw DataError({.what = "a tensor is missing",
                   .where = fmt::format("{}, tensor '{}'", path_.string(), name),
                   .found = entries_.empty() ? "no tensors at all"
                                             : fmt::format("{}, the first '{}'", counted(entries_.size(), "other"),
                                                           entries_.front().name),
                   .remedy = "check that the file belongs to this model"});
}

void TensorSource::read(std::string_view name, std::span<std::byte> destination) const {
  const TensorEntry& entry = at(name);
  check(destination.size() == entry.type.bytes(), "a tensor is read into exactly its bytes");
  read_elements(entry, 0, destination);
}

void TensorSource::read_elements(const TensorEntry& entry, std::uint64_t first_element,
                                 std::span<std::byte> destination) const {
  check(!entries_.empty() && &entry >= entries_.data() && &entry <= &entries_.back(),
        "an entry is read from its own source");
  const std::size_t width = dtype_bytes(entry.type.dtype);
  const auto elements = static_cast<std::uint64_t>(entry.type.shape.elements());
  check(destination.size() % width == 0, "whole elements are read");
  check(first_element <= elements && destination.size() / width <= elements - first_element,
        "the elements read lie in the tensor");
  if (destination.empty()) return;
  read_range(static_cast<std::size_t>(&entry - entries_.data()), first_element, destination);
}

void TensorSource::set_entries(std::vector<TensorEntry> entries) {
  entries_ = std::move(entries);
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::size_t a, std::size_t b) { return entries_[a].name < entries_[b].name; });
  const auto twin = std::adjacent_find(by_name_.begin(), by_name_.end(), [this](std::size_t a, std::size_t b) {
    return entries_[a].name == entries_[b].name;
  });
  if (twin == by_name_.end()) return;
  throw DataError({.what = "a tensor's name comes twice",
                   .where = fmt::format("{}, tensor '{}'", path_.string(), entries_[*twin].name),
                   .remedy = "the file is damaged or was made to mislead: get it again"});
}

TensorType checked_tensor_type(DType dtype, std::span<const std::uint64_t> dims, const std::string& where) {
  if (dims.size() > Shape::kMaxRank) {
    throw DataError({.what = "a tensor has too many dimensions",
                     .where = where,
                     .found = counted(dims.size(), "dimension"),
                     .allowed = fmt::format("at most {}", Shape::kMaxRank)});
  }
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = dtype_bytes(dtype);
  std::array<std::int64_t, Shape::kMaxRank> shape{};
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const std::uint64_t dim = dims[axis];
    if (dim > kLimit || (dim != 0 && bytes > kLimit / dim)) {
      throw DataError({.what = "a tensor's shape is larger than any file",
                       .where = where,
                       .found = fmt::format("dimension {} of {}", axis, dim),
                       .allowed = "at most 2^63 - 1 bytes in all",
                       .remedy = "the file is damaged: get it again"});
    }
    if (dim != 0) bytes *= dim;
    shape[axis] = static_cast<std::int64_t>(dim);
  }
  return {dtype, Shape(std::span<const std::int64_t>(shape.data(), dims.size()))};
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (auto dtype = DType::kF64; dtype <= DType::kBool; dtype = static_cast<DType>(static_cast<int>(dtype) + 1)) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

void refuse_placeholder(const InputFile& file) {
  constexpr std::string_view kLfs = "version https://git-lfs";
  std::string start(std::min<std::uint64_t>(file.size_bytes(), kLfs.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start.data(), start.size())));
  if (start == kLfs) {
    throw DataError({.what = "this is a Git LFS pointer, not the weights",
                     .where = file.path().string(),
                     .found = "a text of " + counted(file.size_bytes(), "byte"),
                     .remedy = "run 'git lfs pull' in the model's directory, or download the file"});
  }
  if (start.starts_with("<!DOCTYPE") || start.starts_with("<!doctype") || start.starts_with("<html")) {
    throw DataError({.what = "this is a web page, not the weights",
                     .where = file.path().string(),
                     .remedy = "download the file itself (on Hugging Face: the 'resolve' address, "
                               "not the 'blob' one), signed in if the model requires it"});
  }
}

}  // namespace plimsoll
