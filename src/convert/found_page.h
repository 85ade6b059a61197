// What a file says about one page, in the file's own units, before it becomes a page of Plimsoll.
//
//   FoundPage page{.where = "scan.xml, page 1", .unit = BoxUnit::kLength, .units_per_inch = 1200};
//   page.words.push_back({.text = "TOTAL", .box = {120, 240, 480, 300}});
//
// Invariant: `labels` is empty or has a name for each word; entities are ranges of words, and links pairs of entities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/page.h"

namespace plimsoll {

// kPixels: of the picture. kLength: `units_per_inch` says how long a unit is. kShare: shares of the page, which is
// `width` x `height` units: 1 x 1, or 100 x 100 if boxes are in per cent.
enum class BoxUnit : std::uint8_t { kPixels, kLength, kShare };

struct FoundWord {
  std::string text;
  Box box{};                           // x0, y0, x1, y1
  std::optional<Box> segment{};        // that of the word's line or field
  std::optional<double> confidence{};  // 0 to 1
};

// Words [begin, end).
struct FoundEntity {
  std::string label;
  std::size_t begin = 0, end = 0;
  std::optional<double> confidence{};  // if predicted
};

struct FoundPage {
  std::string where{};  // for messages: "scan.hocr, page 2"
  std::string id{};
  std::string document{};        // the document that the page belongs to; empty: it stands alone
  std::filesystem::path file{};  // the file in which the page was found
  std::string image{};           // the picture's name in the file; empty: none
  bool only = true;              // the file has no other page, so a picture of the file's name is this page's
  int number = 1;  // the page's number in its file, from 1; 0: a file of many pages, which no picture is named after
  std::filesystem::path picture{};  // the picture that was found; empty: none

  BoxUnit unit = BoxUnit::kPixels;
  double units_per_inch = 0;                 // of kLength
  double width = 0, height = 0;              // of the page in its units; 0: not known
  double share_width = 0, share_height = 0;  // for kShare: the page's size in pixels, if there is no picture

  std::vector<FoundWord> words{};
  std::vector<std::string> labels{};
  bool has_entities = false;  // the file says which entities there are, possibly none
  std::vector<FoundEntity> entities{};
  bool has_links = false;
  std::vector<std::pair<std::size_t, std::size_t>> links{};
  std::vector<std::string> classes{};  // classes of the whole page
  bool predicted = false;              // labels, entities and links were predicted
  // Members of a page in Plimsoll's own format that no other format has; otherwise null.
  nlohmann::json more{};

  bool is_labelled() const { return !labels.empty() || has_entities || !classes.empty(); }
};

}  // namespace plimsoll
