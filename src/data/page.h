// One document page as read: its words, their boxes, their labels and the path of its image.
//
// Invariant: words, boxes and (where present) labels have equal counts, every word is valid UTF-8 and every
// coordinate is a finite number. data/check.h checks whether boxes lie on the page, labels are known and the image
// opens.
//
//   Page page = source.read(17);
//   Box1000 box = scale_box(page.boxes[4], page.width, page.height, BoxFormat::kPixel);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace plimsoll {

class PageTarget;

// The unit of a box's numbers: pixels of an image of `width` x `height`, or thousandths of the
// page.
enum class BoxFormat : std::uint8_t { kPixel, k1000 };

using Box = std::array<double, 4>;            // x0, y0, x1, y1 as read
using Box1000 = std::array<std::int32_t, 4>;  // the same in thousandths of the page

inline constexpr std::int32_t kIgnoredLabel = -100;  // of what has no loss and is not scored, as in Hugging Face

// Says which parts of a page a model sees besides its words. The others are neither required nor checked.
struct PageParts {
  bool boxes = true;
  bool image = true;
};

struct Page {
  std::string id;
  std::string document{};  // the document that the page belongs to; empty: it stands alone
  std::filesystem::path image;
  int width = 0,
      height = 0;  // pixels that the boxes refer to; 0: not given, the image's header knows
  std::vector<std::string> words;
  std::vector<Box> boxes;  // one per word; empty if they are not asked for and the page has none
  // One per word, by name; empty when the page has none (prediction). The name is empty of a word whose label is not
  // known (null or -100 in the file): it is neither learnt nor scored.
  std::vector<std::string> labels;
  bool is_text = false;                        // the words are the parts of one running text, which has no boxes
  std::shared_ptr<const PageTarget> target{};  // what a task has read from the page (data/targets.h); may be nullptr
  // The keys of a page without labels or target that were not read; another task may read them.
  std::vector<std::string> other_keys{};
  std::filesystem::path file;  // the file that it was read from
  std::size_t line = 0;        // from 1; 0 if the page is a file of its own
};

// Return "train.jsonl:17, page 'a12'" and "train.jsonl:17, page 'a12', word 4 ("TOTAL")"; words are counted from
// 0.
std::string place(const Page& page);
std::string place(const Page& page, std::size_t word);

// Returns int(1000 * x / width) and so on, rounded towards zero, or the numbers unchanged. Values beyond int32 are
// clamped to its range, so that a later check never sees them wrapped.
Box1000 scale_box(const Box& box, int width, int height, BoxFormat format);

// True if 0 <= x0, y0, x1, y1 <= 1000.
bool box_on_page(const Box1000& box);

// Formats a box: "[12, 40, 1214, 60]".
std::string to_string(const Box& box);
std::string to_string(const Box1000& box);

// A page that cannot be read. `kind` is a stable short name ("counts-differ") by which findings are
// grouped.
class PageError : public DataError {
 public:
  PageError(std::string kind, Problem problem) : DataError(std::move(problem)), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

// Returns the offset of the first byte that is not valid UTF-8 (overlong forms and surrogates included), or
// npos.
std::size_t invalid_utf8_offset(std::string_view text);

}  // namespace plimsoll
