// Small data sets with planted faults: pages of 12 lines with 4 words, in order, on a picture of their size.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "data/check.h"
#include "data/pages_fixture.h"

namespace plimsoll::test {

inline constexpr int kPageWidth = 400, kPageHeight = 600, kLines = 12, kWordsInLine = 4;
inline constexpr std::size_t kPages = 60, kPlaces = 10;

// Returns the picture of every page: paper with a stripe of ink, with colours in the given order.
inline std::string page_picture(int red = 255, int green = 252, int blue = 240, bool ink = true) {
  std::string bytes = fmt::format("P6 {} {} 255\n", kPageWidth, kPageHeight);
  for (int y = 0; y < kPageHeight; ++y) {
    for (int x = 0; x < kPageWidth; ++x) {
      const bool dark = ink && y % 40 < 12;
      for (const int level : {red, green, blue}) bytes += static_cast<char>(dark ? 20 : level);
    }
  }
  return bytes;
}

struct Places {
  explicit Places(const std::string& seed) {
    std::seed_seq sequence(seed.begin(), seed.end());
    random.seed(sequence);
  }
  std::size_t below(std::size_t limit) { return random() % limit; }
  std::mt19937_64 random;
};

inline std::vector<nlohmann::json> clean_pages(Places& places, bool segments = false) {
  std::vector<nlohmann::json> pages;
  for (std::size_t p = 0; p < kPages; ++p) {
    nlohmann::json page = {
        {"id", fmt::format("p{}", p)}, {"image", "page.ppm"}, {"width", kPageWidth}, {"height", kPageHeight}};
    for (int line = 0; line < kLines; ++line) {
      for (int k = 0; k < kWordsInLine; ++k) {
        std::string word;
        for (int letter = 0; letter < 5; ++letter) word += static_cast<char>('a' + places.below(26));
        page["words"].push_back(word);
        const int x = 10 + 95 * k, y = 30 + 46 * line;
        page["boxes"].push_back(segments ? nlohmann::json{10, y, 385, y + 14}
                                         : nlohmann::json{x, y, x + 60 + static_cast<int>(places.below(30)), y + 14});
        constexpr const char* kLabels[] = {"O", "B-X", "I-X", "B-Y"};
        page["labels"].push_back(kLabels[k]);
      }
    }
    pages.push_back(std::move(page));
  }
  return pages;
}

enum class At { kLine, kPage, kWord };

struct Fault {
  std::string name;
  std::string kind;
  At at = At::kPage;
  // Puts the fault into a page at a word; then into its line of JSON.
  std::function<void(nlohmann::json& page, std::size_t word)> plant{};
  std::function<void(std::string& line, const std::string& word)> spoil{};
  std::set<std::string> also{};  // other kinds that follow from the fault
  std::function<void(CheckOptions& options)> options{};
  bool segments = false;  // among pages with segment-level boxes
  bool any_word = false;  // found at some word of the page, several times
};

// Return faults of values, words, labels, boxes; of pictures and whole pages.
std::vector<Fault> word_faults();
std::vector<Fault> page_faults();

}  // namespace plimsoll::test
