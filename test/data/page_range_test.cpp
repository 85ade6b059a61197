// The pages of shards.
#include "data/page_range.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using test::ScratchFolder;

// A page a letter, which is its document; "." stands alone, "!" is no JSON.
std::unique_ptr<PageSource> pages_of(const ScratchFolder& folder, const std::string& documents) {
  const std::filesystem::path path = folder.path() / "pages.jsonl";
  std::ofstream file(path);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (documents[i] == '!') {
      file << "{\n";
      continue;
    }
    file << R"({"id": ")" << i << R"(", "words": ["a"], "boxes": [[1, 2, 3, 4]])";
    if (documents[i] != '.') file << R"(, "document": ")" << documents[i] << '"';
    file << "}\n";
  }
  file.close();
  return open_pages(path, {.parts = {.boxes = true, .image = false}});
}

TEST(PageRange, ShardsAreAllPagesOnce) {
  const ScratchFolder folder;
  for (const std::string documents :
       {"..........", "aaaaaaaaaa", "aabbccddee", "a.bb.ccc.d", "!!aa!a!b!b", "aaaa!!!!aa", "."}) {
    const std::unique_ptr<PageSource> pages = pages_of(folder, documents);
    for (std::size_t count = 1; count <= 12; ++count) {
      std::size_t end = 0;
      for (std::size_t index = 0; index < count; ++index) {
        const PageRange range = range_of_shard(*pages, {.index = index, .count = count});
        EXPECT_EQ(range.begin, end) << documents << " " << index << "/" << count;
        end = range.end;
        if (range.begin == 0 || range.begin == pages->size()) continue;
        // No border lies behind a page of the same document, though pages between cannot be read.
        const std::size_t last = documents.find_last_not_of('!', range.begin - 1);
        const char before = last == std::string::npos ? '.' : documents[last], here = documents[range.begin];
        EXPECT_TRUE(before == '.' || (here != '!' && here != before)) << documents << " " << index << "/" << count;
      }
      EXPECT_EQ(end, pages->size());
    }
  }
}

TEST(PageRange, ALongDocumentLeavesOtherShardsEmpty) {
  const ScratchFolder folder;
  const std::unique_ptr<PageSource> pages = pages_of(folder, "aaaa....");
  EXPECT_EQ(range_of_shard(*pages, {.index = 0, .count = 4}).size(), 4U) << "the whole document";
  EXPECT_EQ(range_of_shard(*pages, {.index = 1, .count = 4}).size(), 0U);
  EXPECT_EQ(range_of_shard(*pages, {.index = 2, .count = 4}).size(), 2U);
}

TEST(PageRange, ReadsItsPagesAsTheyAre) {
  const ScratchFolder folder;
  std::unique_ptr<PageSource> pages = pages_of(folder, "......");
  const std::string there = place(pages->read(4));
  const std::unique_ptr<PageSource> part = open_range(std::move(pages), {.begin = 3, .end = 5});
  ASSERT_EQ(part->size(), 2U);
  EXPECT_EQ(part->read(0).id, "3");
  EXPECT_EQ(place(part->read(1)), there);
}

TEST(PageRange, ParsesShards) {
  EXPECT_EQ(parse_shard("2/3"), (ShardNumber{.index = 1, .count = 3}));
  EXPECT_EQ(parse_shard("1/1").text(), "1/1");
  for (const char* text : {"", "/", "1/", "/2", "0/1", "2/1", " 1/2", "1/2 ", "1,2", "1/2/3", "-1/2", "1/100001"}) {
    EXPECT_THROW(parse_shard(text), UsageError) << text;
  }
}

}  // namespace
}  // namespace plimsoll
