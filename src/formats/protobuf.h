// Reads the fields of a Protocol Buffers message from untrusted bytes, without a schema.
//
//   ProtobufReader reader(bytes);
//   while (const std::optional<ProtobufField> field = reader.next()) {
//     if (field->number == 1) pieces.push_back(std::string(field->bytes));
//   }
//   if (reader.damaged()) throw DataError({.what = "the model file is damaged"});
//
// Fields view into the bytes, which must outlive them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

struct ProtobufField {
  enum class Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  std::uint32_t number = 0;
  Type type = Type::kVarint;
  std::uint64_t value = 0;   // of a number
  std::string_view bytes{};  // of text, bytes or a message

  float as_float() const;  // of a kFixed32
};

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // Returns nothing at the end of the message, or if it is damaged.
  std::optional<ProtobufField> next();
  bool damaged() const { return damaged_; }
  // Returns the bytes that have not been read yet.
  std::string_view rest() const { return rest_; }

 private:
  std::optional<std::uint64_t> varint();
  std::optional<std::string_view> take(std::uint64_t size);

  std::string_view rest_;
  bool damaged_ = false;
};

}  // namespace plimsoll
