#include "formats/protobuf.h"

#include <bit>

#include "formats/little_endian.h"

namespace plimsoll {

float ProtobufField::as_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }

std::optional<ProtobufField> ProtobufReader::next() {
  if (rest_.empty() || damaged_) return std::nullopt;
  damaged_ = true;  // until the field has been read
  const auto number = [](std::string_view bytes) -> std::uint64_t {
    const auto raw = std::as_bytes(std::span(bytes));
    return bytes.size() == 4 ? load_little_endian<std::uint32_t>(raw) : load_little_endian<std::uint64_t>(raw);
  };
  const std::optional<std::uint64_t> key = varint();
  if (!key || *key >> 3 == 0 || *key >> 32 != 0) return std::nullopt;
  ProtobufField field{.number = static_cast<std::uint32_t>(*key >> 3),
                      .type = static_cast<ProtobufField::Type>(*key & 7)};
  switch (field.type) {
    case ProtobufField::Type::kVarint: {
      const std::optional<std::uint64_t> value = varint();
      if (!value) return std::nullopt;
      field.value = *value;
      break;
    }
    case ProtobufField::Type::kFixed32:
    case ProtobufField::Type::kFixed64: {
      const auto bytes = take(field.type == ProtobufField::Type::kFixed32 ? 4 : 8);
      if (!bytes) return std::nullopt;
      field.value = number(*bytes);
      break;
    }
    case ProtobufField::Type::kBytes: {
      const std::optional<std::uint64_t> size = varint();
      const auto bytes = size ? take(*size) : std::nullopt;
      if (!bytes) return std::nullopt;
      field.bytes = *bytes;
      break;
    }
    default:  // groups, which are no longer in use, and unknown types
      return std::nullopt;
  }
  damaged_ = false;
  return field;
}

std::optional<std::uint64_t> ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> ProtobufReader::take(std::uint64_t size) {
  if (size > rest_.size()) return std::nullopt;
  const std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

}  // namespace plimsoll
