#include "formats/protobuf.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/base64.h"

namespace plimsoll {
namespace {

using Type = ProtobufField::Type;

TEST(Protobuf, ReadsEveryKindOfField) {
  // 1: 300; 2: "ab"; 5: 1.0F; 6: eight bytes; 100: 0
  const std::string message(
      "\x08\xAC\x02\x12\x02"
      "ab\x2D\0\0\x80\x3F\x31\x01\0\0\0\0\0\0\x80\xA0\x06\0",
      24);
  ProtobufReader reader(message);
  auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 1U);
  EXPECT_EQ(field->type, Type::kVarint);
  EXPECT_EQ(field->value, 300U);
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 2U);
  EXPECT_EQ(field->bytes, "ab");
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->type, Type::kFixed32);
  EXPECT_EQ(field->as_float(), 1.0F);
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->value, 0x8000000000000001U);
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 100U);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.damaged());
}

TEST(Protobuf, StopsAtDamage) {
  const std::string_view damaged[] = {"\x08",                                          // no value
                                      "\x08\x80",                                      // a number without its end
                                      "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",  // a number that has none
                                      "\x12\x05"
                                      "ab",                // too short
                                      "\x2D\x01\x01",      // too short
                                      "\x0B\x0C",          // a group
                                      "\x0E\x01",          // no such kind
                                      {"\0\0", 2},         // no number
                                      "\x80\x80\x80\x80",  // a key without its end
                                      "\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"};
  for (const std::string_view bytes : damaged) {
    ProtobufReader reader(bytes);
    EXPECT_FALSE(reader.next());
    EXPECT_TRUE(reader.damaged());
    EXPECT_FALSE(reader.next());
  }
}

TEST(Base64, DecodesWhatRfc4648Encodes) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64("//79"), "\xFF\xFE\xFD");
  for (const char* text : {"Zg", "Zg=", "Z===", "Zm9v!mFy", "=Zg="}) EXPECT_FALSE(decode_base64(text)) << text;
}

}  // namespace
}  // namespace plimsoll
