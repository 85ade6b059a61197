// What reading takes: pages stay below the bytes that are planned for them, and threads share a budget.
#include "ocr/reading_memory.h"

#include <gtest/gtest.h>
#include <leptonica/allheaders.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/heap.h"
#include "base/process.h"
#include "ocr/find_documents.h"
#include "ocr/read_documents.h"
#include "support/drawn_text.h"
#include "support/expect_error.h"
#include "support/sanitizer.h"
#include "support/scratch_folder.h"
#include "support/text_reader.h"

namespace plimsoll {
namespace {

using test::expect_error;

TEST(ReadingPlan, AsManyThreadsReadAsFit) {
  const PageNeed largest{.name = "scan", .form = {.pixels = 1'000'000}, .bytes = 100 * kMiB};
  const auto plan = [&](std::size_t budget, std::size_t mean, int threads) {
    return plan_reading({.bytes = budget}, 50 * kMiB, 30 * kMiB, largest, mean, threads);
  };
  EXPECT_EQ(plan(150 * kMiB, 100 * kMiB, 16).threads, 1);
  EXPECT_EQ(plan(150 * kMiB, 100 * kMiB, 16).page_bytes, 100 * kMiB);
  EXPECT_EQ(plan(281 * kMiB, 100 * kMiB, 16).threads, 1);
  EXPECT_EQ(plan(282 * kMiB, 100 * kMiB, 16).threads, 2);
  EXPECT_EQ(plan(282 * kMiB, 100 * kMiB, 16).page_bytes, 200 * kMiB);
  EXPECT_EQ(plan(282 * kMiB, 10 * kMiB, 16).threads, 4) << "most pages are small";
  EXPECT_EQ(plan(10 * kGiB, 100 * kMiB, 16).threads, 16);
  expect_error<BudgetTooSmall>([&] { plan(149 * kMiB, kMiB, 2); }, {"--budget", "scan", "1.0 million", "153 MiB"});
}

TEST(MemoryShare, WhatDoesNotFitWaits) {
  MemoryShare share;
  share.set_limit(100);
  std::atomic<int> read = 0;
  std::vector<std::jthread> threads;
  {
    const MemoryShare::Part first = share.take(60);
    const MemoryShare::Part second = share.take(40);
    for (const std::size_t bytes : {60, 500}) {  // one more than there ever is
      threads.emplace_back([&, bytes] {
        const MemoryShare::Part part = share.take(bytes);
        ++read;
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(read, 0);
  }
  threads.clear();
  EXPECT_EQ(read, 2);
}

TEST(MemoryShare, WithoutALimitNothingWaits) {
  MemoryShare share;
  const MemoryShare::Part first = share.take(kGiB), second = share.take(kGiB);
}

struct DestroyPage {
  void operator()(Pix* pix) const { pixDestroy(&pix); }
};
using PagePix = std::unique_ptr<Pix, DestroyPage>;

class ReadingMemory : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_TEXT_READER();
    if (!reset_peak_resident()) GTEST_SKIP() << "the kernel does not reset the peak of the resident set";
  }

  std::filesystem::path at(const std::string& name) const { return folder_ / name; }
  // A page of 1800 x 2400 pixels, full of text.
  PagePix page(bool in_colours) {
    test::draw_text(at("part.png"), {"Invoice number 4711 of Greenburg Services", "Six door handles at 79.95",
                                     "Please pay the TOTAL of 479.70 before Friday", "Thank you for your order",
                                     "Delivery was made on 2023 December 26", "and paid in cash on the same day"});
    const PagePix part(pixRead(at("part.png").c_str()));
    PagePix whole(pixCreate(1800, 2400, 32));
    for (int y = 0; y < 2400; y += 600) {
      for (int x = 0; x < 1800; x += 900) pixRasterop(whole.get(), x, y, 900, 600, PIX_SRC, part.get(), 0, 0);
    }
    if (!in_colours) return PagePix(pixConvertTo8(whole.get(), 0));
    for (int y = 0; y < 2400; y += 2) {
      for (int x = 0; x < 1800; ++x) pixSetRGBPixel(whole.get(), x, y, 255, 240, 120);
    }
    return whole;
  }
  DocumentSummary read(const std::string& name, DocumentOptions options) {
    options.files = find_documents({at(name).string()});
    options.images = [this] {
      std::filesystem::create_directories(at("images"));
      return at("images");
    };
    return read_documents(options, [this](const DocumentPage& each) { words_.push_back(each.words); });
  }
  // Returns how far the resident set grows while a page is read, its reader included.
  std::size_t growth(const std::string& name, const DocumentOptions& options) {
    read(name, options);  // what the library keeps for itself
    release_free_heap();
    const std::size_t before = resident_bytes();
    reset_peak_resident();
    read(name, options);
    return peak_resident_bytes() - before;
  }

  test::ScratchFolder folder_;
  std::vector<std::vector<std::string>> words_;
};

TEST_F(ReadingMemory, PagesTakeNoMoreThanIsPlanned) {
  const FastHeap heap(1);
  const PagePix gray = page(false), coloured = page(true), upside(pixRotateOrth(coloured.get(), 1));
  PagePix alpha(pixCopy(nullptr, coloured.get()));
  pixSetSpp(alpha.get(), 4);
  const PagePix small(pixScale(gray.get(), 0.4F, 0.4F));
  pixWrite(at("gray.png").c_str(), gray.get(), IFF_PNG);
  pixWrite(at("coloured.jpg").c_str(), coloured.get(), IFF_JFIF_JPEG);
  pixWrite(at("turned.png").c_str(), upside.get(), IFF_PNG);
  pixWrite(at("alpha.png").c_str(), alpha.get(), IFF_PNG);
  pixWriteTiff(at("coloured.tif").c_str(), coloured.get(), IFF_TIFF_LZW, "w");
  pixWriteTiff(at("bits.tif").c_str(), PagePix(pixConvertTo1(gray.get(), 128)).get(), IFF_TIFF_G4, "w");
  pixWrite(at("small.png").c_str(), small.get(), IFF_PNG);
  for (const char* name :
       {"gray.png", "coloured.jpg", "turned.png", "alpha.png", "coloured.tif", "bits.tif", "small.png"}) {
    const bool enlarges = std::string(name) == "small.png";
    const std::size_t planned = reading_bytes(picture_form(at(name)), {.enlarges = enlarges, .turns = true});
    const std::size_t grown = growth(name, {.enlarge = enlarges});
    EXPECT_LE(grown, planned + text_reader_bytes({})) << name;
    // The bound is of pages in gray and in colours; others may take much less.
    const bool is_usual = std::string(name) == "gray.png" || std::string(name) == "coloured.jpg";
    if (is_usual) {
      EXPECT_GT(3 * grown, planned) << name << ": much more is planned than is used";
    }
  }
}

TEST_F(ReadingMemory, ABudgetChangesNoWordsAndTheSmallestOneNamedIsEnough) {
  if (!test::kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  const PagePix gray = page(false);
  std::filesystem::create_directories(at("scans"));
  for (const char* name : {"a.png", "b.png", "c.png"}) {
    pixWrite(at("scans/" + std::string(name)).c_str(), gray.get(), IFF_PNG);
  }
  const FastHeap heap(3);
  read("scans", {.threads = 3});
  const auto expected = std::exchange(words_, {});
  std::size_t smallest = 0;
  try {
    read("scans", {.threads = 3, .budget = {.bytes = resident_bytes() + 20 * kMiB}});
    FAIL() << "a page does not fit 20 MiB";
  } catch (const BudgetTooSmall& error) {
    smallest = error.smallest_budget_bytes();
  }
  EXPECT_TRUE(words_.empty()) << "a refusal comes before any page is read";
  release_free_heap();
  reset_peak_resident();
  read("scans", {.threads = 3, .budget = {.bytes = smallest}});
  EXPECT_EQ(words_, expected);
  EXPECT_LE(peak_resident_bytes(), smallest);
}

}  // namespace
}  // namespace plimsoll
