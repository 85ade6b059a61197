#include "ocr/reading_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plimsoll {
namespace {

using Words = std::vector<std::size_t>;

// A strip without words that may separate two blocks is at least this wide, and so is a gap between the cells of a
// table, in heights of letters.
constexpr double kStrip = 1.0, kCellGap = 0.9;
// The share of lines across a strip that have text on both sides, if the two sides are blocks, and the mean number of
// words in a line of the wordier side. Beside a price there is no text, and a table has numbers in most cells.
constexpr double kTextLines = 0.25, kWordsInLine = 1.6;
// Lines of one block may be this near to each other, in heights of letters.
constexpr double kLineGap = 0.25;
// Text has at least this many letters: "RM 12.50" is a price.
constexpr std::size_t kLetters = 4;

// Returns the gap between two boxes along x; less than 0 if they overlap.
double gap(const Box& a, const Box& b) { return std::max(a[0] - b[2], b[0] - a[2]); }

bool on_one_line(const Box& a, const Box& b) {
  const double shared = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  return shared > 0.5 * std::min(a[3] - a[1], b[3] - b[1]);
}

std::size_t count_letters(const std::string& word) {
  return static_cast<std::size_t>(std::count_if(word.begin(), word.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte >= 0xC0;
  }));
}

class Order {
 public:
  Order(std::span<const Box> boxes, std::span<const std::string> words) : boxes_(boxes), words_(words) {
    std::vector<double> heights;
    for (const Box& box : boxes) heights.push_back(box[3] - box[1]);
    const auto middle = heights.begin() + static_cast<std::ptrdiff_t>(heights.size() / 2);
    std::nth_element(heights.begin(), middle, heights.end());
    height_ = *middle;
  }

  // Adds the words of a region to `order`.
  void add(const Words& region, Words& order, int depth = 0) const {
    constexpr int kDeepest = 40;
    const std::vector<Words> lines = lines_of(region);
    if (lines.size() >= 2 && depth < kDeepest) {
      std::pair<Words, Words> parts;
      if (part_by_strip(region, lines, parts) || part_by_gap(region, parts)) {
        add(parts.first, order, depth + 1);
        return add(parts.second, order, depth + 1);
      }
    }
    for (const Words& line : lines) order.insert(order.end(), line.begin(), line.end());
  }

 private:
  // Returns the lines of a region from the top, each from left to right. A word belongs to the line of its nearest
  // neighbour along x, so that a line of a page that was scanned at a small angle stays together.
  std::vector<Words> lines_of(const Words& region) const {
    // From the top down, a word can only belong to one of the last lines.
    constexpr std::ptrdiff_t kOpenLines = 5;
    Words sorted = region;
    std::stable_sort(sorted.begin(), sorted.end(), [this](std::size_t a, std::size_t b) {
      return boxes_[a][1] + boxes_[a][3] < boxes_[b][1] + boxes_[b][3];
    });
    std::vector<Words> lines;
    for (const std::size_t word : sorted) {
      const auto open = lines.rbegin() + std::min(kOpenLines, static_cast<std::ptrdiff_t>(lines.size()));
      const auto line = std::find_if(lines.rbegin(), open, [&](const Words& other) {
        const std::size_t nearest = *std::min_element(other.begin(), other.end(), [&](std::size_t a, std::size_t b) {
          return gap(boxes_[a], boxes_[word]) < gap(boxes_[b], boxes_[word]);
        });
        return on_one_line(boxes_[nearest], boxes_[word]);
      });
      if (line == open) {
        lines.push_back({word});
      } else {
        line->push_back(word);
      }
    }
    for (Words& line : lines) {
      std::stable_sort(line.begin(), line.end(),
                       [this](std::size_t a, std::size_t b) { return boxes_[a][0] < boxes_[b][0]; });
    }
    return lines;
  }

  // True if the words of a line, or some that follow one another at the distance of words, are text.
  bool has_text(const Words& line) const {
    std::size_t together = 0, letters = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool follows = i > 0 && boxes_[line[i]][0] - boxes_[line[i - 1]][2] < kCellGap * height_;
      together = follows ? together + 1 : 1;
      letters = (follows ? letters : 0) + count_letters(words_[line[i]]);
      if (together >= 2 && letters >= kLetters) return true;
    }
    return false;
  }

  // Returns the gaps between words along one side of their boxes (0: x, 1: y), wider than `least`: width and middle.
  std::vector<std::pair<double, double>> gaps_along(const Words& region, std::size_t side, double least) const {
    std::vector<std::pair<double, double>> spans;
    for (const std::size_t word : region) spans.emplace_back(boxes_[word][side], boxes_[word][side + 2]);
    std::sort(spans.begin(), spans.end());
    std::vector<std::pair<double, double>> gaps;
    double end = spans.front().second;
    for (const auto& [first, last] : spans) {
      if (first - end > least) gaps.emplace_back(first - end, (first + end) / 2);
      end = std::max(end, last);
    }
    return gaps;
  }

  std::pair<Words, Words> parted(const Words& region, std::size_t side, double at) const {
    std::pair<Words, Words> parts;
    for (const std::size_t word : region) (boxes_[word][side] < at ? parts.first : parts.second).push_back(word);
    return parts;
  }

  // Separates two blocks that are side by side, by the widest strip that has text on both sides.
  bool part_by_strip(const Words& region, const std::vector<Words>& lines, std::pair<Words, Words>& parts) const {
    std::vector<std::pair<double, double>> strips = gaps_along(region, 0, kStrip * height_);
    std::sort(strips.rbegin(), strips.rend());
    for (const auto& [width, at] : strips) {
      double across = 0, left_text = 0, right_text = 0;
      for (const Words& line : lines) {
        const auto [left, right] = parted(line, 0, at);
        if (left.empty() || right.empty()) continue;
        across += 1;
        left_text += has_text(left) ? 1 : 0;
        right_text += has_text(right) ? 1 : 0;
      }
      if (across == 0 || left_text < kTextLines * across || right_text < kTextLines * across) continue;
      parts = parted(region, 0, at);
      const auto words_in_line = [this](const Words& part) {
        return static_cast<double>(part.size()) / static_cast<double>(lines_of(part).size());
      };
      if (std::max(words_in_line(parts.first), words_in_line(parts.second)) >= kWordsInLine) return true;
    }
    return false;
  }

  // Separates what is above the widest gap from what is below.
  bool part_by_gap(const Words& region, std::pair<Words, Words>& parts) const {
    const std::vector<std::pair<double, double>> gaps = gaps_along(region, 1, kLineGap * height_);
    if (gaps.empty()) return false;
    const auto widest =
        std::max_element(gaps.begin(), gaps.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    parts = parted(region, 1, widest->second);
    return true;
  }

  std::span<const Box> boxes_;
  std::span<const std::string> words_;
  double height_ = 0;  // of most words
};

}  // namespace

std::vector<std::size_t> reading_order(std::span<const Box> boxes, std::span<const std::string> words) {
  std::vector<std::size_t> order;
  if (boxes.empty()) return order;
  Words all(boxes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  order.reserve(all.size());
  Order(boxes, words).add(all, order);
  return order;
}

}  // namespace plimsoll
