// What PickleWriter writes, parse_pickle reads: the same values, and no code.
#include "formats/pickle_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "formats/pickle.h"

namespace plimsoll {
namespace {

using Kind = PickleValue::Kind;

Pickle read(const std::string& bytes) {
  return parse_pickle(std::as_bytes(std::span(bytes)), "test", [](std::string_view) { return false; });
}

TEST(PickleWriter, WritesEveryKindOfValue) {
  std::string bytes;
  PickleWriter pickle([&bytes](std::string_view piece) { bytes += piece; });
  pickle.begin_dict();
  pickle.text("numbers");
  pickle.begin_list();
  using Limits = std::numeric_limits<std::int64_t>;
  const std::int64_t numbers[] = {
      0, -1, 255, INT32_MIN, INT32_MAX, INT64_C(0x7f0000000000), Limits::min(), Limits::max()};
  for (const std::int64_t number : numbers) pickle.integer(number);
  pickle.end_list();
  pickle.text("nothing");
  pickle.begin_list();
  pickle.end_list();
  pickle.text("pair");
  pickle.begin_tuple();
  pickle.boolean(true);
  pickle.real(0.5);
  pickle.end_tuple();
  pickle.end_dict();
  pickle.finish();

  const Pickle values = read(bytes);
  const PickleValue& root = values[values.root()];
  ASSERT_EQ(root.kind, Kind::kDict);
  ASSERT_EQ(root.pairs.size(), 6U);
  const PickleValue& list = values[root.pairs[1]];
  ASSERT_EQ(list.items.size(), std::size(numbers));
  for (std::size_t i = 0; i < std::size(numbers); ++i) EXPECT_EQ(values[list.items[i]].integer, numbers[i]);
  EXPECT_TRUE(values[root.pairs[3]].items.empty());
  const PickleValue& pair = values[root.pairs[5]];
  EXPECT_EQ(pair.kind, Kind::kTuple);
  EXPECT_EQ(values[pair.items[0]].kind, Kind::kBool);
  EXPECT_EQ(values[pair.items[1]].kind, Kind::kReal);
}

TEST(PickleWriter, WritesATextAndARememberedValueOnce) {
  std::string bytes;
  PickleWriter pickle([&bytes](std::string_view piece) { bytes += piece; });
  pickle.begin_list();
  pickle.begin_list();
  pickle.text("a name of some length");
  pickle.end_list();
  const std::uint32_t inner = pickle.remember();
  for (int i = 0; i < 9; ++i) pickle.recall(inner);
  pickle.text("a name of some length");
  pickle.end_list();
  pickle.finish();
  EXPECT_EQ(bytes.find("a name"), bytes.rfind("a name"));
  const Pickle values = read(bytes);
  const PickleValue& root = values[values.root()];
  ASSERT_EQ(root.items.size(), 11U);
  EXPECT_EQ(root.items[0], root.items[9]);
  EXPECT_EQ(values[root.items[10]].text, "a name of some length");
}

}  // namespace
}  // namespace plimsoll
