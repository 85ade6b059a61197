#include "compress/copied_tensor.h"

#include <algorithm>
#include <span>

#include "model/file_values.h"

namespace plimsoll {
namespace {

constexpr std::size_t kCopiedBytes = 1 << 20, kStagingBytes = 1 << 16;

}  // namespace

void TensorCopier::check_numbers(const TensorEntry& entry) {
  const DType type = entry.type.dtype;
  if (type != DType::kF32 && type != DType::kF16 && type != DType::kBF16) return;
  staging_.resize(kStagingBytes);
  const std::int64_t elements = entry.type.shape.elements();
  for (std::int64_t first = 0; first < elements; first += std::ssize(values_)) {
    values_.resize(static_cast<std::size_t>(std::min<std::int64_t>(elements - first, kCopiedBytes / sizeof(float))));
    weights_.read_as_f32(entry.name, first, values_, staging_);
    refuse_non_finite(weights_, entry.name, first, values_);
  }
}

void TensorCopier::copy(const TensorEntry& entry, std::int64_t first, std::int64_t end) {
  const std::size_t width = dtype_bytes(entry.type.dtype);
  std::size_t bytes = static_cast<std::size_t>(end - first) * width;
  auto element = static_cast<std::uint64_t>(first);
  buffer_.resize(kCopiedBytes);
  while (bytes > 0) {
    const std::span<std::byte> part = std::span(buffer_).first(std::min(kCopiedBytes / width * width, bytes));
    weights_.read_elements(entry, element, part);
    writer_.write(part);
    element += part.size() / width;
    bytes -= part.size();
  }
}

}  // namespace plimsoll
