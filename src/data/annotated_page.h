// A page with labels of its words, as a task gives it to be drawn (draw/annotate.h).
//
//   AnnotatedPage picture{.image = "page.png", .words = words, .output_png = "annotated.png"};
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/label_scheme.h"

namespace plimsoll {

struct AnnotatedWord {
  std::array<double, 4> box{};         // x0, y0, x1, y1 in pixels of the page
  std::string label{};                 // "O", "B-TOTAL", "I-TOTAL", ...
  std::optional<double> confidence{};  // 0 to 1
  std::optional<std::string> gold_label{};
};

// A link from one word to another; each is the first word of what is linked.
struct AnnotatedLink {
  enum class State : std::uint8_t { kPredicted, kRight, kWrong, kMissed };
  std::size_t from_word = 0, to_word = 0;
  State state = State::kPredicted;
};

struct AnnotatedPage {
  std::filesystem::path image{};  // PNG, JPEG, TIFF, PNM, BMP or WebP
  int width = 0, height = 0;      // of the page that boxes refer to, in pixels; 0: they refer to the image
  std::vector<AnnotatedWord> words{};
  std::vector<AnnotatedLink> links{};
  std::filesystem::path output_png{};
  std::string caption{};  // of the whole page; empty: none
  // Entity names in the order that determines their colours; other names found on the page follow in alphabetical
  // order. Set it so that all pages of a run have the same colours.
  std::vector<std::string> entity_names{};
  // How labels are interpreted; the default interprets each by itself, tagged or plain.
  LabelScheme scheme = LabelScheme::kMixed;
};

}  // namespace plimsoll
