#include "draw/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/image.h"
#include "draw/facts.h"
#include "draw/fonts.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

std::vector<nlohmann::json> read_lines(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_text_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<std::string> files_under(const fs::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), root).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Returns the words of one label's entity, in order, joined by spaces.
std::string entity_text(const SynthPage& page, const std::string& name) {
  std::string text;
  for (const SynthWord& word : page.words) {
    if (word.label.size() < 3 || word.label.substr(2) != name) continue;
    text += (text.empty() ? "" : " ") + word.text;
  }
  return text;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : " ") + line;
  return text;
}

// The gray levels of a PNG in memory, read as in training.
struct GrayImage {
  int width, height;
  std::vector<double> levels;
  double at(int x, int y) const { return levels[static_cast<std::size_t>(y * width + x)]; }
};

GrayImage read_gray(const fs::path& path) {
  const std::unique_ptr<ImageRows> image = open_image(path);
  GrayImage gray{image->width(), image->height(), {}};
  std::vector<std::uint8_t> row(3 * static_cast<std::size_t>(gray.width));
  for (int y = 0; y < gray.height; ++y) {
    image->next_row(row);
    for (std::size_t x = 0; x < row.size(); x += 3) gray.levels.push_back((row[x] + row[x + 1] + row[x + 2]) / 3.0);
  }
  return gray;
}

TEST(Synth, TheSameSeedGivesTheSameBytes) {
  const ScratchFolder scratch;
  for (const char* name : {"a", "b"})
    synthesize({.output_dir = scratch / name, .count = 12, .seed = 5, .threads = name[0] == 'a' ? 1 : 3});
  const std::vector<std::string> names = files_under(scratch / "a");
  EXPECT_EQ(names.size(), 14U);
  ASSERT_EQ(names, files_under(scratch / "b"));
  for (const std::string& name : names) {
    EXPECT_EQ(read_text_file(scratch / "a" / name), read_text_file(scratch / "b" / name)) << name;
  }
}

TEST(Synth, AnotherSeedGivesOtherPages) {
  const SynthPage one = PageDrawer(1).draw(3), two = PageDrawer(2).draw(3);
  EXPECT_NE(one.png, two.png);
  EXPECT_NE(entity_text(one, "COMPANY"), entity_text(two, "COMPANY"));
  // All 64 bits of the seed matter.
  EXPECT_NE(one.png, PageDrawer(1 + (std::uint64_t{1} << 40)).draw(3).png);
}

TEST(Synth, ALongerRunExtendsAShorterOne) {
  const ScratchFolder scratch;
  synthesize({.output_dir = scratch / "short", .count = 7, .seed = 9});
  synthesize({.output_dir = scratch / "long", .count = 16, .seed = 9});
  for (const std::string& name : files_under(scratch / "short")) {
    const std::string shorter = read_text_file(scratch / "short" / name);
    EXPECT_EQ(shorter, read_text_file(scratch / "long" / name).substr(0, shorter.size())) << name;
  }
}

TEST(Synth, KeepsTheAskedShareForValidation) {
  for (const double fraction : {0.0, 0.1, 0.25, 0.5, 0.9}) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < 1000; ++i) kept += is_validation_page(i, fraction) ? 1 : 0;
    EXPECT_EQ(kept, static_cast<std::size_t>(1000 * fraction + 0.5)) << fraction;
  }
  EXPECT_FALSE(is_validation_page(4, 0.1));
  EXPECT_TRUE(is_validation_page(5, 0.1));
  EXPECT_TRUE(is_validation_page(15, 0.1));
}

TEST(Synth, WritesPagesThatTheReaderTakes) {
  const ScratchFolder scratch;
  std::size_t last_done = 0;
  const SynthSummary summary =
      synthesize({.output_dir = scratch / "pages", .count = 20, .seed = 3, .on_page = [&](std::size_t done) {
                    last_done = done;
                  }});
  EXPECT_EQ(last_done, 20U);
  EXPECT_EQ(summary.train_pages, 18U);
  EXPECT_EQ(summary.validation_pages, 2U);
  std::size_t pages = 0, words = 0;
  for (const fs::path& file : {summary.train_file, summary.validation_file}) {
    for (const nlohmann::json& line : read_lines(file)) {
      ++pages;
      words += line["words"].size();
      EXPECT_EQ(line["words"].size(), line["boxes"].size());
      EXPECT_EQ(line["words"].size(), line["labels"].size());
      EXPECT_EQ(line["image"], "images/" + line["id"].get<std::string>() + ".png");
      const ImageInfo info = read_image_info(file.parent_path() / line["image"].get<std::string>());
      EXPECT_EQ(info.width, line["width"]);
      EXPECT_EQ(info.height, line["height"]);
      EXPECT_EQ(info.bits_per_sample, 8);
    }
  }
  EXPECT_EQ(pages, 20U);
  EXPECT_EQ(words, summary.words);
}

TEST(Synth, LabelsAreValidAndEachEntityOccursOnce) {
  const PageDrawer drawer(21);
  for (std::uint64_t index = 0; index < 60; ++index) {
    SCOPED_TRACE(index);
    const SynthPage page = drawer.draw(index);
    std::map<std::string, int> begins;
    std::string previous = "O";
    for (const SynthWord& word : page.words) {
      EXPECT_NE(std::find(kSynthLabels.begin(), kSynthLabels.end(), word.label), kSynthLabels.end()) << word.label;
      if (word.label[0] == 'B') ++begins[word.label.substr(2)];
      if (word.label[0] == 'I') {
        EXPECT_TRUE(previous != "O" && previous.substr(2) == word.label.substr(2)) << word.text;
      }
      EXPECT_FALSE(word.text.empty());
      EXPECT_EQ(word.text.find(' '), std::string::npos);
      EXPECT_TRUE(std::all_of(word.text.begin(), word.text.end(), [](char c) { return c > ' ' && c <= '~'; }))
          << word.text;
      previous = word.label;
    }
    const std::map<std::string, int> once = {{"COMPANY", 1}, {"ADDRESS", 1}, {"DATE", 1}, {"TOTAL", 1}};
    EXPECT_EQ(begins, once);
    EXPECT_GE(page.words.size(), 25U);
    EXPECT_LE(page.words.size(), 180U);
  }
}

TEST(Synth, EntitiesSayWhatTheFactsSay) {
  const PageDrawer drawer(22);
  for (std::uint64_t index = 0; index < 60; ++index) {
    SCOPED_TRACE(index);
    const draw::PageFacts facts = draw::make_facts(22, index);
    const SynthPage page = drawer.draw(index);
    EXPECT_EQ(entity_text(page, "COMPANY"), joined(facts.company_lines));
    EXPECT_EQ(entity_text(page, "ADDRESS"), joined(facts.address_lines));
    EXPECT_EQ(entity_text(page, "DATE"), facts.date);
    const std::string total = entity_text(page, "TOTAL"), number = draw::format_amount(facts.total, facts.money);
    EXPECT_TRUE(total == number || total == facts.money.currency + number) << total;
  }
}

TEST(Synth, BoxesAreInsideThePageAndTightAroundInk) {
  const ScratchFolder scratch;
  const SynthSummary summary = synthesize({.output_dir = scratch / "pages", .count = 24, .seed = 31});
  for (const nlohmann::json& line : read_lines(summary.train_file)) {
    SCOPED_TRACE(line["id"].get<std::string>());
    const GrayImage image = read_gray(scratch / "pages" / line["image"].get<std::string>());
    EXPECT_LE(std::max(image.width, image.height), 1000);
    std::vector<double> sorted = image.levels;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    const double paper = sorted[sorted.size() / 2];
    for (std::size_t i = 0; i < line["boxes"].size(); ++i) {
      SCOPED_TRACE(line["words"][i].get<std::string>());
      const auto box = line["boxes"][i].get<std::array<int, 4>>();
      ASSERT_LE(0, box[0]);
      ASSERT_LT(box[0], box[2]);
      ASSERT_LE(box[2], image.width);
      ASSERT_LE(0, box[1]);
      ASSERT_LT(box[1], box[3]);
      ASSERT_LE(box[3], image.height);
      double sum = 0, darkest = 255, lightest = 0;
      for (int y = box[1]; y < box[3]; ++y) {
        for (int x = box[0]; x < box[2]; ++x) {
          sum += image.at(x, y);
          darkest = std::min(darkest, image.at(x, y));
          lightest = std::max(lightest, image.at(x, y));
        }
      }
      const double mean = sum / ((box[2] - box[0]) * (box[3] - box[1]));
      if (mean > paper / 2) {  // dark on paper; the others are white on a dark bar
        EXPECT_LT(mean, paper - 10);
        EXPECT_LT(darkest, paper - 40);
        // Each edge row and column of the box has ink, so the box is as small as possible.
        const auto darkest_of = [&](int x0, int y0, int x1, int y1) {
          double level = 255;
          for (int y = y0; y < y1; ++y) {
            for (int x = x0; x < x1; ++x) level = std::min(level, image.at(x, y));
          }
          return level;
        };
        EXPECT_LT(darkest_of(box[0], box[1], box[2], box[1] + 1), paper - 3);
        EXPECT_LT(darkest_of(box[0], box[3] - 1, box[2], box[3]), paper - 3);
        EXPECT_LT(darkest_of(box[0], box[1], box[0] + 1, box[3]), paper - 3);
        EXPECT_LT(darkest_of(box[2] - 1, box[1], box[2], box[3]), paper - 3);
      } else {
        EXPECT_GT(lightest, mean + 40);
      }
    }
  }
}

TEST(Synth, AStoppedRunLeavesNoListOfPages) {
  const ScratchFolder scratch;
  const fs::path root = scratch / "pages";
  synthesize({.output_dir = root, .count = 6, .seed = 1});
  struct Stop {};
  const auto stop = [](std::size_t done) {
    if (done == 2) throw Stop{};
  };
  EXPECT_THROW(synthesize({.output_dir = root, .count = 6, .seed = 2, .threads = 2, .on_page = stop}), Stop);
  EXPECT_FALSE(fs::exists(root / "train.jsonl"));
  EXPECT_FALSE(fs::exists(root / "validation.jsonl"));
  EXPECT_FALSE(fs::exists(aside_path(root / "train.jsonl")));
}

TEST(Synth, RefusesSenselessOptions) {
  const ScratchFolder scratch;
  EXPECT_THROW(synthesize({.output_dir = scratch / "x", .count = 0}), UsageError);
  EXPECT_THROW(synthesize({.output_dir = scratch / "x", .count = 3, .validation_fraction = 1.0}), UsageError);
  EXPECT_THROW(synthesize({.output_dir = scratch / "x", .count = 3, .validation_fraction = -0.1}), UsageError);
  EXPECT_THROW(synthesize({.output_dir = "", .count = 3}), UsageError);
  write_text_file(scratch / "file", "in the way");
  EXPECT_THROW(synthesize({.output_dir = scratch / "file", .count = 3}), EnvironmentError);
}

TEST(Fonts, AMissingFamilyIsNamedWithItsPackage) {
  try {
    draw::find_font_file("No Such Family At All", false, "fonts-of-nowhere");
    FAIL() << "a family that does not exist was found";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("No Such Family At All"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("apt-get install fonts-of-nowhere"), std::string::npos);
  }
}

TEST(Fonts, TheFileIsOfTheVeryFamily) {
  EXPECT_EQ(fs::path(draw::find_font_file("DejaVu Sans", false, "")).filename(), "DejaVuSans.ttf");
  EXPECT_EQ(fs::path(draw::find_font_file("DejaVu Sans", true, "")).filename(), "DejaVuSans-Bold.ttf");
}

}  // namespace
}  // namespace plimsoll
