#include "ocr/upright.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace plimsoll {
namespace {

// Letters are read with a mean confidence of 0.6 to 0.9 if a page is upright, including till receipts, of 0.15 to 0.35
// if it is upside down or a bad scan, and of up to 0.65 if it is an upside-down table in crisp print. Below kSure,
// another turn is tried; below kLegible, no turn says anything.
constexpr double kSure = 0.7, kUpright = 0.4, kLegible = 0.3;

// A bad scan is uncertain, too, so a part of it decides whether the whole page is worth reading again.
bool may_be_upside_down(TextReader& reader, const Picture& picture, TextLayout layout, double confidence) {
  const PageText part = reader.read(picture.middle().turned(180), layout);
  return count_letters(part) < kFewLetters || mean_confidence(part) > confidence + 0.1;
}

}  // namespace

std::size_t count_letters(const PageText& text) {
  std::size_t letters = 0;
  for (const ReadWord& word : text.words) letters += word.text.size();
  return letters;
}

void turn_upright(TextReader& reader, const Picture& picture, TextLayout layout, UprightText& best) {
  if (count_letters(best.text) < kFewLetters) return;
  const bool is_in_doubt = mean_confidence(best.text) < kSure;
  if (!is_in_doubt && !best.text.is_sideways) return;
  // Only kAuto finds lines that run from top to bottom.
  const PageText lines = layout == TextLayout::kAuto ? best.text : reader.read(picture, TextLayout::kAuto);
  // Lines from top to bottom are read well, and those from bottom to top are not.
  const bool from_top = mean_confidence(lines) >= kUpright;
  std::optional<UprightText> found;
  for (const int turn : lines.is_sideways ? from_top ? std::array{270, 90} : std::array{90, 270} : std::array{180, 0}) {
    if (turn == 0) continue;
    if (turn == 180 && !may_be_upside_down(reader, picture, layout, mean_confidence(best.text))) continue;
    PageText text = reader.read(picture.turned(turn), layout);
    // Sideways lines are read about as well as upright ones; Japanese ones, which may run so, are not when turned.
    const double needed = lines.is_sideways ? mean_confidence(lines) - 0.05 : mean_confidence(best.text) + 0.1;
    if (text.is_sideways || mean_confidence(text) < std::max(kLegible, needed)) continue;
    if (found && mean_confidence(found->text) >= mean_confidence(text)) continue;
    found = {.text = std::move(text), .turned = turn};
    if (mean_confidence(found->text) >= kSure) break;
  }
  if (found) best = std::move(*found);
}

}  // namespace plimsoll
