#include "data/tokenized_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "data/pages_fixture.h"
#include "support/log_capture.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::caught;
using test::letters_encoder;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kPages = 5;

// Whole and broken coordinates, words without tokens, pages without labels, and every kind of name.
constexpr const char* kText =
    R"({"id": "a", "image": "x/a.png", "width": 10, "height": 20, "words": ["AB", "", "C"], "boxes": [[1, 2, 3, 4], [0, 0, 0, 0], [5, 6, 7, 8]], "labels": ["O", "B-X", "O"]}
{"image": "/b.png", "words": ["D"], "boxes": [[0.5, -0.0, 1e20, 3]]}
{"id": 7, "image": "c.png", "words": [], "boxes": []}
{"id": "d", "image": "d.png", "words": ["E", 5, "F"], "boxes": [[1, 2, 3], [1, 2, 3, NaN], [1, 2, 3, 4]]}
{"id": "e", "words": ["G"]
)";

class TokenizedPagesTest : public testing::Test {
 protected:
  std::shared_ptr<const TokenizedPages> open(const PageStorage& storage = {}) {
    reading_.counts = &counts_;
    return std::make_shared<TokenizedPages>(open_pages(path_, reading_), letters_encoder(), reading_, storage);
  }
  // Kept for the tokenizer of that number.
  std::shared_ptr<const TokenizedPages> open_kept(std::uint64_t tokenizer = 1) {
    return open({.directory = folder_ / "kept", .kept_for = tokenizer, .threads = 2});
  }

  ScratchFolder folder_;
  fs::path path_ = folder_.write("data.jsonl", kText);
  ReadOptions reading_;
  PageCounts counts_;
  test::LogCapture log_;
};

void expect_equal(const Page& a, const Page& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.image, b.image);
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  EXPECT_EQ(a.words, b.words);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.file, b.file);
  EXPECT_EQ(a.line, b.line);
  ASSERT_EQ(a.boxes.size(), b.boxes.size());
  for (std::size_t i = 0; i < a.boxes.size(); ++i) {
    EXPECT_EQ(std::memcmp(&a.boxes[i], &b.boxes[i], sizeof(Box)), 0) << a.id << ", box " << i;
  }
}

// With a list for faults and without, every page reads as the files' own source gives it.
TEST_F(TokenizedPagesTest, ReadAsTheirSource) {
  const auto source = open_pages(path_, {});
  const auto pages = open();
  ASSERT_EQ(pages->size(), kPages);
  for (std::size_t i = 0; i < kPages; ++i) {
    const auto read = [&](const PageSource& from, PageFaults* faults, std::string& error) {
      try {
        return from.read(i, faults);
      } catch (const PageError& thrown) {
        error = thrown.kind() + ": " + thrown.what();
        return Page();
      }
    };
    std::string own_error, error;
    expect_equal(read(*pages, nullptr, error), read(*source, nullptr, own_error));
    EXPECT_EQ(error, own_error);
    EXPECT_EQ(error.empty(), i < 3);
    PageFaults faults, own_faults;
    expect_equal(read(*pages, &faults, error), read(*source, &own_faults, own_error));
    ASSERT_EQ(faults.size(), own_faults.size());
    for (std::size_t f = 0; f < faults.size(); ++f) {
      EXPECT_EQ(faults[f].kind(), own_faults[f].kind());
      EXPECT_STREQ(faults[f].what(), own_faults[f].what());
    }
  }
}

TEST_F(TokenizedPagesTest, HaveTheTokensOfTheirWords) {
  PageTokens tokens;
  open()->read(0, tokens);
  EXPECT_THAT(tokens.ids, ElementsAre('A', 'B', 'C'));
  EXPECT_THAT(tokens.words, ElementsAre(0, 0, 2));
  EXPECT_THAT(tokens.first_of_word, ElementsAre(0, kNoWord, 2));
  EXPECT_TRUE(tokens.prompts.empty());
}

TEST_F(TokenizedPagesTest, AreParsedAndTokenisedOnce) {
  const auto pages = open({.directory = folder_.path(), .threads = 3});
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 3; ++i) pages->read(i);
  }
  EXPECT_EQ(counts_.parsed, kPages);
  EXPECT_EQ(counts_.tokenized, kPages - 1) << "the last one is no JSON";
  EXPECT_EQ(pages->host_bytes(), open_pages(path_, {})->host_bytes() + 16 * kPages);
}

// A second run finds them, unless anything that they depend on has changed.
TEST_F(TokenizedPagesTest, ThatAreKeptAreNotParsedAgain) {
  open_kept();
  EXPECT_EQ(counts_.parsed, kPages);
  const auto again = open_kept();
  EXPECT_EQ(again->read(0).words.size(), 3U);
  EXPECT_EQ(counts_.parsed, kPages);
  open_kept(2);
  EXPECT_EQ(counts_.parsed, 2 * kPages) << "another tokenizer";
  reading_.parts.image = false;
  open_kept(2);
  EXPECT_EQ(counts_.parsed, 3 * kPages) << "other parts of pages";
  std::ofstream(path_, std::ios::app) << R"({"words": ["NEW"], "boxes": [[0, 0, 1, 1]]})"
                                      << "\n";
  EXPECT_EQ(open_kept(2)->read(kPages).words.front(), "NEW");
  EXPECT_EQ(counts_.parsed, 4 * kPages + 1);
}

TEST_F(TokenizedPagesTest, ComeFromTheirSourceWhereTheFileIsDamaged) {
  open_kept();
  for (const auto& entry : fs::directory_iterator(folder_ / "kept")) {
    if (entry.path().extension() != ".tokens") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(70).put('!');  // of page 0
  }
  const auto pages = open_kept();
  EXPECT_EQ(counts_.parsed, kPages);
  expect_equal(pages->read(0), open_pages(path_, {})->read(0));
  EXPECT_EQ(counts_.parsed, kPages + 1);
  EXPECT_THAT(log_.text(), HasSubstr("damaged at page 0"));
}

TEST_F(TokenizedPagesTest, OfFilesThatChangeMeanwhileAreRefused) {
  PageStorage storage{.directory = folder_.path()};
  storage.on_progress = [&](std::size_t done, std::size_t) {
    if (done == kPages) std::ofstream(path_, std::ios::app) << "\n";
  };
  const auto error = caught<DataError>([&] { open(storage); });
  EXPECT_THAT(error.what(), HasSubstr("changed while it was read"));
  EXPECT_THAT(error.problem().where, HasSubstr("data.jsonl"));
}

TEST_F(TokenizedPagesTest, SayWhereTheirFileCannotBe) {
  EXPECT_THAT(caught<EnvironmentError>([&] { open({.directory = folder_ / "none"}); }).problem().where,
              HasSubstr("none"));
}

}  // namespace
}  // namespace plimsoll
