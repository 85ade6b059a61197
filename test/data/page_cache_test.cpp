#include "data/page_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "data/pages_fixture.h"
#include "support/log_capture.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::caught;
using test::ScratchFolder;
using testing::HasSubstr;

constexpr std::size_t kPages = 9;

CacheKey key_of(std::string_view text) {
  CacheKey key;
  key.add(std::as_bytes(std::span(text)));
  return key;
}

class PageCacheTest : public testing::Test {
 protected:
  PageCacheTest() {
    for (std::size_t i = 0; i < kPages; ++i) sizes_.push_back(3000 + 700 * i);
  }

  static std::byte byte_of(std::size_t page, std::size_t i) {
    return static_cast<std::byte>(31 * page + i * 7 + i / 256);
  }
  PageCache open(std::string_view key = "k", int threads = 3) {
    return PageCache(path_, key_of(key), contents(threads));
  }
  PageCache::Contents contents(int threads) {
    const auto fill = [this](std::size_t page) {
      ++filled_;
      std::vector<std::byte> entry(sizes_[page]);
      for (std::size_t i = 0; i < entry.size(); ++i) entry[i] = byte_of(page, i);
      return entry;
    };
    return {.pages = kPages, .threads = threads, .fill = fill};
  }
  // Returns the number of pages that can be read and are correct.
  static std::size_t right(const PageCache& cache) {
    std::size_t count = 0;
    for (std::size_t page = 0; page < kPages; ++page) {
      bool same = true;
      const bool whole = cache.read(page, [&](std::span<const std::byte> entry) {
        for (std::size_t i = 0; i < entry.size(); ++i) same = same && entry[i] == byte_of(page, i);
      });
      EXPECT_TRUE(same) << "what is handed out is right";
      count += whole ? 1U : 0U;
    }
    return count;
  }
  std::string text() const { return read_text_file(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << text; }

  ScratchFolder folder_;
  fs::path path_ = folder_ / "new" / "a.pages";
  std::vector<std::uint64_t> sizes_;
  std::atomic<int> filled_ = 0;
  test::LogCapture log_;
};

TEST_F(PageCacheTest, IsMadeOnceAndReadAgain) {
  EXPECT_EQ(right(open()), kPages);
  EXPECT_EQ(filled_, 9);
  EXPECT_THAT(log_.text(), HasSubstr("does not exist yet"));
  const std::string first = text();
  EXPECT_EQ(right(open()), kPages);
  EXPECT_EQ(filled_, 9) << "nothing is made again";
  fs::remove(path_);
  open("k", 1);
  EXPECT_EQ(text(), first) << "whatever the number of threads";
  EXPECT_FALSE(fs::exists(aside_path(path_)));
}

TEST_F(PageCacheTest, AnotherKeyOrOtherPagesMakeItAgain) {
  open();
  EXPECT_EQ(right(open("another")), kPages);
  EXPECT_EQ(filled_, 18);
  EXPECT_THAT(log_.text(), HasSubstr("belongs to other data or options"));
}

TEST_F(PageCacheTest, ANamelessOneLeavesNoFile) {
  const fs::path directory = folder_.make("work");
  const PageCache cache(directory, contents(3));
  EXPECT_TRUE(fs::is_empty(directory));
  EXPECT_EQ(right(cache), kPages);
  EXPECT_EQ(filled_, 9);
  EXPECT_GE(cache.mapped_bytes(), sizes_.back());
  EXPECT_EQ(cache.host_bytes(), 16 * kPages);
  EXPECT_THAT(caught<EnvironmentError>([&] { PageCache(folder_ / "none", contents(1)); }).problem().where,
              HasSubstr("none"));
}

TEST_F(PageCacheTest, IsMadeAgainWhereverItWasCutOrItsFrameSpoilt) {
  open();
  const std::string whole = text();
  std::vector<std::string> spoilt;
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{5000},
                                   whole.size() - 16 * kPages, whole.size() - 1}) {
    spoilt.push_back(whole.substr(0, length));
  }
  for (std::size_t at = 0; at < whole.size(); at += at < 64 || at >= whole.size() - 16 * kPages ? 1 : 100) {
    if (at >= 64 && at < whole.size() - 16 * kPages) continue;  // an entry's bytes: noticed when it is read
    spoilt.push_back(whole);
    spoilt.back()[at] = static_cast<char>(spoilt.back()[at] ^ 4);
  }
  spoilt.push_back(whole + "x");
  spoilt.push_back("not a cache at all, but a text that is longer than a header, which has sixty-four bytes");
  for (const std::string& each : spoilt) {
    write(each);
    const int before = filled_;
    EXPECT_EQ(right(open()), kPages);
    EXPECT_EQ(filled_ - before, 9);
    EXPECT_EQ(text(), whole);
  }
}

TEST_F(PageCacheTest, ADamagedEntryIsNotHandedOut) {
  open();
  std::string spoilt = text();
  spoilt[64 + 3000 + 100] ^= 1;  // of page 1
  write(spoilt);
  const PageCache cache = open();
  EXPECT_EQ(filled_, 9);
  EXPECT_EQ(right(cache), kPages - 1);
  EXPECT_THAT(log_.text(), HasSubstr("damaged at page 1"));
  EXPECT_FALSE(fs::exists(path_)) << "so that the next run makes it again";
  EXPECT_EQ(right(cache), kPages - 1) << "the rest is still of use";
  EXPECT_EQ(right(open()), kPages);
}

TEST_F(PageCacheTest, TwoAtOnceMakeItOnce) {
  std::vector<std::jthread> threads;
  std::atomic<std::size_t> all = 0;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { all += right(open("k", 2)); });
  threads.clear();
  EXPECT_EQ(all, 4 * kPages);
  EXPECT_EQ(filled_, 9);
}

// A file that a reader has open is unchanged when another process replaces it.
TEST_F(PageCacheTest, StaysWholeForWhoHasItOpen) {
  const PageCache cache = open();
  open("another");
  EXPECT_EQ(right(cache), kPages);
}

TEST_F(PageCacheTest, SaysWhenItCannotBeWritten) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 20000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto full = caught<EnvironmentError>([&] { open(); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_action);
  EXPECT_THAT(full.problem().where, HasSubstr("a.pages"));
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_FALSE(fs::exists(aside_path(path_)));
  EXPECT_EQ(right(open()), kPages);

  path_ = folder_.write("a file", "") / "a.pages";
  EXPECT_THAT(caught<EnvironmentError>([&] { open(); }).problem().where, HasSubstr("a file"));
}

TEST_F(PageCacheTest, LeavesNothingWhenAPageCannotBeMade) {
  PageCache::Contents broken = contents(2);
  broken.fill = [](std::size_t page) {
    if (page == 5) throw DataError({.what = "page five"});
    return std::vector<std::byte>(3);
  };
  EXPECT_THROW(PageCache(path_, key_of("k"), broken), DataError);
  EXPECT_THROW(PageCache(folder_.path(), broken), DataError);
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_FALSE(fs::exists(aside_path(path_)));
}

}  // namespace
}  // namespace plimsoll
