#include "formats/pickle.h"

#include <limits>

#include "formats/support.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = PickleValue::Kind;
using namespace std::string_literals;

Pickle parse(const std::string& bytes) {
  return parse_pickle(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.pkl",
                      [](std::string_view name) { return name == "safe.thing"; });
}
std::string error_of(const std::string& bytes) {
  return data_error([&] { parse(bytes); });
}

TEST(Pickle, ReadsPlainValues) {
  // The bytes are pickle.dumps((1, -2, 300, 70000, -(2**40), None, True, "é", 0.5), 2).
  const Pickle pickle = parse(
      "\x80\x02(K\x01J\xFE\xFF\xFF\xFFM\x2C\x01J\x70\x11\x01\x00\x8A\x06\x00\x00\x00\x00\x00\xFFN\x88"
      "X\x02\x00\x00\x00\xC3\xA9G\x3F\xE0\x00\x00\x00\x00\x00\x00tq\x00."s);
  const PickleValue& tuple = pickle[pickle.root()];
  ASSERT_EQ(tuple.kind, Kind::kTuple);
  ASSERT_EQ(tuple.items.size(), 9U);
  const auto item = [&](std::size_t i) -> const PickleValue& { return pickle[tuple.items[i]]; };
  EXPECT_EQ(item(0).integer, 1);
  EXPECT_EQ(item(1).integer, -2);
  EXPECT_EQ(item(2).integer, 300);
  EXPECT_EQ(item(3).integer, 70000);
  EXPECT_EQ(item(4).integer, -(1LL << 40));
  EXPECT_EQ(item(5).kind, Kind::kNone);
  EXPECT_EQ(item(6).kind, Kind::kBool);
  EXPECT_EQ(item(7).text, "é");
  EXPECT_EQ(item(8).kind, Kind::kReal);
}

TEST(Pickle, WritesDownCallsItemsAndPersistentNames) {
  // The bytes are safe.thing(7) with item 'k' -> persistent id 'p', memoized and recalled.
  const Pickle pickle = parse(
      "\x80\x02"
      "csafe\nthing\nK\x07\x85Rq\x01(U\x01kU\x01pQuh\x01\x86."s);
  const PickleValue& pair = pickle[pickle.root()];
  ASSERT_EQ(pair.items.size(), 2U);
  EXPECT_EQ(pair.items[0], pair.items[1]) << "shared, not copied";
  const PickleValue& call = pickle[pair.items[0]];
  EXPECT_EQ(call.kind, Kind::kCall);
  EXPECT_EQ(pickle[call.items[0]].text, "safe.thing");
  EXPECT_EQ(pickle[pickle[call.items[1]].items[0]].integer, 7);
  ASSERT_EQ(call.pairs.size(), 2U);
  EXPECT_EQ(pickle[call.pairs[0]].text, "k");
  const PickleValue& persistent = pickle[call.pairs[1]];
  EXPECT_EQ(persistent.kind, Kind::kPersistent);
  EXPECT_EQ(pickle[persistent.items[0]].text, "p");
}

TEST(Pickle, ReadsHugeIntegersOnlyWhereAllowed) {
  // The bytes are pickle.dumps((2**64 - 1, -(2**64)), 2).
  const std::string bytes =
      "\x80\x02\x8A\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00\x8A\x09\x00\x00\x00\x00\x00\x00\x00\x00\xFF\x86."s;
  EXPECT_THAT(error_of(bytes), HasSubstr("too large"));
  const Pickle pickle = parse_pickle(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.pkl",
                                     [](std::string_view) { return false; }, {.huge_integers = true});
  const PickleValue& pair = pickle[pickle.root()];
  ASSERT_EQ(pair.items.size(), 2U);
  EXPECT_EQ(pickle[pair.items[0]].integer, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(pickle[pair.items[1]].integer, std::numeric_limits<std::int64_t>::min());
}

TEST(Pickle, BoundsListsThatRecallOneValueAgainAndAgain) {
  // One list that takes 'N' repeatedly: two bytes of the file each time, but more memory.
  std::string bytes =
      "\x80\x02]Nq\x00"
      "0"s;
  for (int i = 0; i < 200; ++i)
    bytes +=
        "h\x00"
        "a"s;
  bytes += ".";
  const auto parse_within = [&](std::size_t values) {
    return parse_pickle(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.pkl",
                        [](std::string_view) { return false; }, {.values = values});
  };
  const Pickle pickle = parse_within(100);
  EXPECT_EQ(pickle[pickle.root()].items.size(), 200U);
  EXPECT_THAT(data_error([&] { parse_within(20); }), HasSubstr("lists are longer"));
}

TEST(Pickle, NamesTheCodeThatAFileWouldRun) {
  EXPECT_THAT(error_of("\x80\x02"
                       "cos\nsystem\nU\x04true\x85R."s),
              AllOf(HasSubstr("would run code"), HasSubstr("'os.system'")));
  // The instruction is STACK_GLOBAL of protocol 4.
  EXPECT_THAT(error_of("\x80\x04\x8C\x08"
                       "builtins\x8C\x04"
                       "eval\x93."s),
              HasSubstr("'builtins.eval'"));
  EXPECT_THAT(error_of("\x80\x02"
                       "csafe\nthing.__globals__\n."s),
              HasSubstr("thing.__globals__"));
}

TEST(Pickle, RefusesInstructionsThatBuildOtherObjects) {
  // The instructions are INST, OBJ, EXT1, PERSID, GET by text, NEWOBJ_EX, bytearray, next buffer.
  for (const std::string op : {"(ios\nsystem\n", "(o", "\x82\x01", "Pname\n", "g0\n", "\x92", "\x96", "\x97"}) {
    EXPECT_THAT(error_of("\x80\x02" + op + "."), HasSubstr("instruction that tensors never need")) << op;
  }
}

TEST(Pickle, RefusesWhatDoesNotHoldTogether) {
  EXPECT_THAT(error_of(""), HasSubstr("ends too early"));
  EXPECT_THAT(error_of("\x80\x02"), HasSubstr("ends too early"));
  EXPECT_THAT(error_of("\x80\x09."), HasSubstr("protocol"));
  EXPECT_THAT(error_of("."), HasSubstr("more from its stack"));
  EXPECT_THAT(error_of("N(\x85."), HasSubstr("more from its stack")) << "a mark is not crossed";
  EXPECT_THAT(error_of("t."), HasSubstr("lacks a mark"));
  EXPECT_THAT(error_of("h\x05."), HasSubstr("never stored"));
  EXPECT_THAT(error_of("X\xFF\xFF\xFF\xFFx."), HasSubstr("ends too early"));
  EXPECT_THAT(error_of("\x8D\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFx."), HasSubstr("ends too early"));
  EXPECT_THAT(error_of("cos"), HasSubstr("ends too early"));
  EXPECT_THAT(error_of("\x8A\x09"
                       "123456789."),
              HasSubstr("too large"));
  EXPECT_THAT(error_of("NN\x85R."), HasSubstr("no function"));
  EXPECT_THAT(error_of("NNa."), HasSubstr("no list"));
  EXPECT_THAT(error_of("NNNs."), HasSubstr("no dictionary"));
  EXPECT_THAT(error_of("}(Nu."), HasSubstr("key without a value"));
  EXPECT_THAT(error_of("NNb."), HasSubstr("attributes of a plain value"));
  EXPECT_THAT(error_of("NN\x93."), HasSubstr("no text"));
}

TEST(Pickle, BoundsDepthAndCount) {
  EXPECT_THAT(error_of(std::string(2000, '(') + "."), HasSubstr("nested too deep"));
  EXPECT_THAT(error_of(std::string(kMaxPickleValues + 1, 'N') + "."), HasSubstr("more values than any"));
  EXPECT_THAT(error_of("N" + std::string(4 * kMaxPickleValues + 1, '2') + "."), HasSubstr("too deep"));
}

TEST(Pickle, AllowsCyclesAndDeepNestingWithoutRecursion) {
  const Pickle cycle = parse(
      "]q\x01h\x01"
      "a."s);  // a list that contains itself
  EXPECT_EQ(cycle[cycle.root()].items[0], cycle.root());
  parse("N" + std::string(500'000, '\x85') + ".");  // ((((None,),),),): freed without recursion too
}

}  // namespace
}  // namespace plimsoll
