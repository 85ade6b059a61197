#include "tensor/device_tensor.h"

#include <cstring>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

void MemoryAccess::write(std::span<const std::byte> from, void* to) const {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

void MemoryAccess::read(const void* from, std::span<std::byte> to) const {
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
}

void MemoryAccess::fill_zeros(std::span<std::byte> bytes) const { std::fill(bytes.begin(), bytes.end(), std::byte{0}); }

const MemoryAccess& host_memory() {
  static const MemoryAccess memory;
  return memory;
}

void DeviceTensor::write(std::span<const std::byte> from, std::size_t first) const {
  check(first + from.size() <= bytes(), "what is written lies within the tensor");
  memory_->write(from, view_.byte_span().data() + first);
}

void DeviceTensor::read(std::span<std::byte> to, std::size_t first) const {
  check(first + to.size() <= bytes(), "what is read lies within the tensor");
  memory_->read(view_.byte_span().data() + first, to);
}

std::span<std::byte> DeviceTensor::host_bytes() const {
  return memory_ != nullptr && memory_->is_host() ? view_.byte_span() : std::span<std::byte>();
}

HostCopy::HostCopy(const DeviceTensor& tensor)
    : tensor_(tensor),
      bytes_(tensor.host_bytes().empty() ? tensor.bytes() : 0),
      view_(bytes_.empty() ? tensor.view() : TensorView(tensor.type(), bytes_.data())) {
  refresh();
}

void HostCopy::refresh() {
  if (!bytes_.empty()) tensor_.read(bytes_);
}

namespace {

constexpr std::size_t kPieceBytes = 256 * kKiB;

// Calls body(first, piece) for the pieces of a tensor, using a buffer.
template <typename Body>
void for_each_piece(const DeviceTensor& tensor, const Body& body) {
  std::vector<std::byte> buffer(std::min(kPieceBytes, tensor.bytes()));
  for (std::size_t first = 0; first < tensor.bytes(); first += buffer.size()) {
    body(first, std::span(buffer).first(std::min(buffer.size(), tensor.bytes() - first)));
  }
}

}  // namespace

void read_in_pieces(const DeviceTensor& tensor, const std::function<void(std::span<const std::byte>)>& visit) {
  if (!tensor.host_bytes().empty()) return visit(tensor.host_bytes());
  for_each_piece(tensor, [&](std::size_t first, std::span<std::byte> piece) {
    tensor.read(piece, first);
    visit(piece);
  });
}

void write_in_pieces(const DeviceTensor& tensor, const std::function<void(std::span<std::byte>)>& fill) {
  if (!tensor.host_bytes().empty()) return fill(tensor.host_bytes());
  for_each_piece(tensor, [&](std::size_t first, std::span<std::byte> piece) {
    fill(piece);
    tensor.write(piece, first);
  });
}

}  // namespace plimsoll
