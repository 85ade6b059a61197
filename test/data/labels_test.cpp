#include "data/labels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/page_source.h"
#include "data/pages_fixture.h"

namespace plimsoll {
namespace {

using test::caught;
using test::ScratchFolder;
using testing::ElementsAre;

TEST(Labels, ParsesListsAndFiles) {
  const LabelSet labels = LabelSet::parse("O, B-X,I-X");
  EXPECT_THAT(labels.names(), ElementsAre("O", "B-X", "I-X"));
  EXPECT_EQ(labels.find("I-X"), 2);
  EXPECT_EQ(labels.find("B-Y"), std::nullopt);
  const ScratchFolder folder;
  EXPECT_EQ(LabelSet::parse(folder.write("labels.txt", "O\nB-X\r\n\nI-X\n").string()), labels);
  EXPECT_EQ(LabelSet::parse(R"(["O", "B-X", "I-X"])"), labels);
  EXPECT_EQ(LabelSet::parse(folder.write("commas.txt", "O,B-X,\nI-X\n").string()), labels);
  EXPECT_EQ(LabelSet::parse(folder.write("lines.txt", "O\nB-Total, net\n").string()).name(1), "B-Total, net");
  EXPECT_EQ(LabelSet::parse(R"(["O", "B-Total, net"])").name(1), "B-Total, net");
  EXPECT_THROW(LabelSet::parse("O,B-X,B-X"), UsageError);
  EXPECT_THROW(LabelSet::parse("O,,B-X"), UsageError);
  EXPECT_THROW(LabelSet::parse(""), UsageError);
}

TEST(Labels, ComesFromConfig) {
  const ScratchFolder folder;
  // With ten and more labels, numbers must sort as numbers, not as text.
  std::string ids, names;
  for (int i = 11; i >= 0; --i) {
    const std::string_view comma = i == 11 ? "" : ", ";
    ids += fmt::format(R"({}"{}": "L{}")", comma, i, i);
    names += fmt::format(R"({}"L{}": {})", comma, i, i);
  }
  const auto both = folder.write("a.json", "{\"id2label\": {" + ids + "}, \"label2id\": {" + names + "}}");
  const auto labels = LabelSet::from_config(both);
  ASSERT_TRUE(labels.has_value());
  EXPECT_EQ(labels->size(), 12U);
  EXPECT_EQ(labels->name(10), "L10");
  EXPECT_EQ(LabelSet::from_config(folder.write("b.json", "{\"label2id\": {" + names + "}}")), labels);
  EXPECT_EQ(LabelSet::from_config(folder.write("c.json", "{\"hidden_size\": 4}")), std::nullopt);

  const auto fails = [&](const std::string& json) {
    EXPECT_THROW(LabelSet::from_config(folder.write("bad.json", json)), DataError) << json;
  };
  fails(R"({"id2label": {"0": "O", "2": "B-X"}})");
  fails(R"({"id2label": {"0": "O", "1": "O"}})");
  fails(R"({"id2label": {"0": "O", "x": "B-X"}})");
  fails(R"({"id2label": ["O"]})");
  fails(R"({"id2label": {"0": "O", "1": "B-X"}, "label2id": {"O": 1, "B-X": 0}})");
  fails("{\"id2label\": ");
}

TEST(Labels, ComesFromDataInAFixedOrder) {
  const LabelSet labels = LabelSet::from_names_seen({"I-TOTAL", "B-TOTAL", "B-DATE", "O", "misc"});
  EXPECT_THAT(labels.names(), ElementsAre("O", "B-DATE", "I-DATE", "B-TOTAL", "I-TOTAL", "misc"));

  EXPECT_THAT(LabelSet::from_names_seen({"O", "S-A", "B-B"}).names(),
              ElementsAre("O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"));
  EXPECT_THAT(LabelSet::from_names_seen({"O", "U-A"}).names(), ElementsAre("O", "B-A", "I-A", "L-A", "U-A"));
  EXPECT_THAT(LabelSet::from_names_seen({"O", "RATE", "E-MAIL"}).names(), ElementsAre("O", "E-MAIL", "RATE"));

  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", R"({"image": "a", "words": ["A"], "boxes": [[0,0,1,1]], "labels": ["B-Z"]})"
                                            "\n"
                                            R"({"image": "a", "words": ["A"], "boxes": [[0,0,1,1]]})"
                                            "\n");
  EXPECT_THAT(LabelSet::from_pages(*open_pages(path, {})).names(), ElementsAre("O", "B-Z", "I-Z"));
  const auto error = caught<DataError>([&] { LabelSet::from_pages(*open_pages(path, {.ignore_labels = true})); });
  EXPECT_EQ(error.problem().what, "no page has labels");

  // What cannot be read is passed over, unless nothing can be read.
  const std::string broken = R"({"image": "a", "words": ["A"], "boxes": [[0,0,1]], "labels": [7]})"
                             "\n{\n";
  const auto mixed =
      folder.write("b.jsonl", broken + R"({"image": "a", "words": ["A"], "boxes": [[0,0,1,1]], "labels": ["B-Z"]})");
  EXPECT_THAT(LabelSet::from_pages(*open_pages(mixed, {})).names(), ElementsAre("O", "B-Z", "I-Z"));
  const auto none = folder.write("c.jsonl", broken);
  EXPECT_EQ(caught<PageError>([&] { LabelSet::from_pages(*open_pages(none, {})); }).kind(), "box-shape");
}

TEST(Labels, ListsItself) {
  std::vector<std::string> names;
  for (int i = 0; i < 30; ++i) names.push_back(fmt::format("L{}", i));
  EXPECT_NE(LabelSet(names, "test").listed().find("L23, … (30 in all)"), std::string::npos);
  EXPECT_EQ(LabelSet({"O", "B-X"}, "test").listed(), "O, B-X");
}

}  // namespace
}  // namespace plimsoll
