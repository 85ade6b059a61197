#include "formats/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "allocation_guard.h"
#include "formats/protobuf.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using namespace test;

// The records of a file, with both checksums compared.
std::vector<std::string> records_of(const EventFile& file) {
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t crc = crc32c(bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8U;
  };
  std::vector<std::string> records;
  const std::string bytes = read_text_file(file.path());
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t size = 0;
    std::uint32_t head = 0, body = 0;
    std::memcpy(&size, bytes.data() + at, 8);
    std::memcpy(&head, bytes.data() + at + 8, 4);
    EXPECT_EQ(head, masked({bytes.data() + at, 8}));
    if (at + 16 + size > bytes.size()) {
      ADD_FAILURE() << "a record is torn";
      break;
    }
    records.emplace_back(bytes.data() + at + 12, size);
    std::memcpy(&body, bytes.data() + at + 12 + size, 4);
    EXPECT_EQ(body, masked(records.back()));
    at += 16 + size;
  }
  return records;
}

struct Fields {
  std::vector<ProtobufField> all;
  explicit Fields(std::string_view message) {
    ProtobufReader reader(message);
    while (const auto field = reader.next()) all.push_back(*field);
    EXPECT_FALSE(reader.damaged());
  }
  const ProtobufField* find(std::uint32_t number) const {
    for (const ProtobufField& field : all) {
      if (field.number == number) return &field;
    }
    return nullptr;
  }
};

TEST(Crc32c, IsThatOfTheStandard) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c("6789", crc32c("12345")), 0xE3069283U);
}

TEST(EventFile, HoldsNumbersOfAStep) {
  const ScratchFolder folder;
  EventFile file(folder.path() / "new" / "folder");
  EXPECT_THAT(file.path().filename().string(), testing::StartsWith("events.out.tfevents."));
  const std::vector<EventFile::Scalar> scalars = {
      {"train/loss", 0.25}, {"eval/f1/\xC3\x9C", -1e30}, {"train/grad_norm", std::numeric_limits<double>::quiet_NaN()}};
  file.add_scalars(300, scalars);
  const std::vector<std::string> records = records_of(file);
  ASSERT_EQ(records.size(), 2U);
  const Fields first(records[0]), second(records[1]);
  ASSERT_NE(first.find(3), nullptr);
  EXPECT_EQ(first.find(3)->bytes, "brain.Event:2");
  ASSERT_NE(second.find(2), nullptr);
  EXPECT_EQ(second.find(2)->value, 300U);
  EXPECT_GT(std::bit_cast<double>(second.find(1)->value), 1.7e9);  // seconds since 1970
  const Fields summary(second.find(5)->bytes);
  ASSERT_EQ(summary.all.size(), scalars.size());
  for (std::size_t i = 0; i < scalars.size(); ++i) {
    const Fields value(summary.all[i].bytes);
    EXPECT_EQ(value.find(1)->bytes, scalars[i].tag);
    const float found = value.find(2)->as_float();
    EXPECT_TRUE(found == static_cast<float>(scalars[i].value) || (std::isnan(found) && std::isnan(scalars[i].value)));
  }
}

TEST(EventFile, NumbersAreWrittenWithoutAllocating) {
  const ScratchFolder folder;
  EventFile file(folder.path());
  const std::string tag(EventFile::kLongestTag, 'x');
  const std::vector<EventFile::Scalar> most(EventFile::kMostScalars, {tag, 1e300});
  const AllocationGuard guard;
  file.add_scalars(std::numeric_limits<std::int64_t>::max(), most);
  EXPECT_EQ(guard.largest_bytes(), 0U);
}

TEST(EventFile, ARunThatGoesOnMakesReadersForgetLaterSteps) {
  const ScratchFolder folder;
  EventFile file(folder.path()), next(folder.path(), 17);
  EXPECT_LT(file.path().filename(), next.path().filename());
  const std::vector<std::string> records = records_of(next);
  ASSERT_EQ(records.size(), 2U);
  const Fields event(records[1]);
  EXPECT_EQ(event.find(2)->value, 18U);
  EXPECT_EQ(Fields(event.find(7)->bytes).find(1)->value, 1U);  // SessionLog.START
}

TEST(EventFile, HoldsTextsAndPictures) {
  const ScratchFolder folder;
  EventFile file(folder.path());
  file.add_text(0, "plan", "| a |");
  file.add_image(5, "worst/1", std::string(100'000, 'p'), 300, 200);
  const std::vector<std::string> records = records_of(file);
  ASSERT_EQ(records.size(), 3U);
  const Fields text(Fields(Fields(records[1]).find(5)->bytes).find(1)->bytes);
  EXPECT_EQ(text.find(1)->bytes, "plan");
  EXPECT_EQ(Fields(text.find(8)->bytes).find(8)->bytes, "| a |");
  EXPECT_EQ(Fields(Fields(text.find(9)->bytes).find(1)->bytes).find(1)->bytes, "text");
  const Fields image(Fields(Fields(Fields(records[2]).find(5)->bytes).find(1)->bytes).find(4)->bytes);
  EXPECT_EQ(image.find(1)->value, 200U);
  EXPECT_EQ(image.find(2)->value, 300U);
  EXPECT_EQ(image.find(4)->bytes, std::string(100'000, 'p'));
}

}  // namespace
}  // namespace plimsoll
