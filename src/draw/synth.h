// Draws receipts and forms with labelled words, for training and testing when no real pages are available.
//
// Every page is a function of (seed, index). Invariant: the same seed gives the same page, however many are drawn.
//
// A receipt has a vendor, an address, a day, goods and consistent sums, one of six layouts with its variants, a font,
// and the traces of a scanner. Labels are those of SROIE: O and B-/I- of COMPANY, ADDRESS, DATE and TOTAL, one entity
// of each per page.
//
// A form has headers, questions and answers, each an entity, and links from headers to their questions and from
// questions to their answers. Labels are those of FUNSD: O and B-/I- of HEADER, QUESTION and ANSWER. Every word belongs
// to one entity; an answer has at most one question, a question at most one header.
//
//   synthesize({.output_dir = "pages", .count = 500, .seed = 1});
//   // pages/train.jsonl, pages/validation.jsonl, pages/images/00000.png, ...
//
// Names, numbers and layouts come from large ranges, as in real data: a small model trained from scratch learns more
// from thousands of pages seen two or three times than from hundreds seen often, which it memorises.
//
// The bytes also depend on the installed versions of the fonts, FreeType, Cairo and zlib, so they may differ between
// machines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/page_share.h"
#include "draw/fonts.h"

namespace plimsoll {

inline constexpr std::array<std::string_view, 9> kSynthLabels = {
    "O", "B-COMPANY", "I-COMPANY", "B-ADDRESS", "I-ADDRESS", "B-DATE", "I-DATE", "B-TOTAL", "I-TOTAL"};

inline constexpr std::array<std::string_view, 7> kSynthFormLabels = {"O",          "B-HEADER", "I-HEADER", "B-QUESTION",
                                                                     "I-QUESTION", "B-ANSWER", "I-ANSWER"};

enum class SynthLayout { kReceipts, kForms };

struct SynthWord {
  std::string text{};
  std::array<int, 4> box{};  // x0, y0, x1, y1 in pixels, half-open, tight around the ink, inside the page
  std::string label{};       // one of kSynthLabels or kSynthFormLabels
};

struct SynthEntity {
  std::string label{};  // header, question, answer or other
  std::size_t start_word = 0, end_word = 0;
};

struct SynthPage {
  std::string id{};  // "00000"
  int width = 0, height = 0;
  std::vector<SynthWord> words{};
  std::vector<SynthEntity> entities{};              // of a form, in the order of the words
  std::vector<std::array<std::size_t, 2>> links{};  // from, to: indices into `entities`
  std::string png{};                                // the file's bytes: 8-bit gray, or RGB if the paper has a tint
};

// Draws pages; several threads may use it at once. Cairo's text drawing is not thread-safe, whatever fonts it uses: a
// drawer lets one thread in at a time, so threads must share one drawer. Throws EnvironmentError naming the Debian
// package if a font is not installed.
class PageDrawer {
 public:
  explicit PageDrawer(std::uint64_t seed, SynthLayout layout = SynthLayout::kReceipts) : seed_(seed), layout_(layout) {}
  SynthPage draw(std::uint64_t index) const;

 private:
  std::uint64_t seed_;
  SynthLayout layout_;
  draw::FontSet fonts_;
  mutable std::mutex text_;  // held while Cairo measures and draws text
};

struct SynthOptions {
  std::filesystem::path output_dir{};
  std::size_t count = 100;
  std::uint64_t seed = 1;
  SynthLayout layout = SynthLayout::kReceipts;
  double validation_fraction = 0.1;
  // Number of threads; 0 uses one per processor, at most eight. The files are the same for any number.
  int threads = 0;
  // With ranks, each draws its pages and writes their pictures, and the first one writes the lists. `output_dir` must
  // then exist on all ranks.
  PageShare share{};
  // Called after every page with the number of pages done, by one thread at a time. An exception from it ends the run.
  std::function<void(std::size_t done)> on_page{};
};

struct SynthSummary {
  std::filesystem::path train_file{}, validation_file{};
  std::size_t train_pages = 0, validation_pages = 0;
  std::size_t words = 0;
  std::size_t image_bytes = 0;
};

// True if page `index` goes to validation: with 0.1, pages 5, 15, 25, ... It depends on nothing else, so that a longer
// run extends both files.
bool is_validation_page(std::size_t index, double validation_fraction);

// Writes output_dir/{train,validation}.jsonl (as for SROIE: id, image, width, height, words, boxes, labels; for forms
// also entities and links) and output_dir/images/NNNNN.png. JSONL files of an earlier run are removed first and written
// last, in one step each, so a run that was stopped leaves no file that names a missing or wrong picture. Throws
// UsageError (count, fraction, threads), EnvironmentError (fonts, disk).
SynthSummary synthesize(const SynthOptions& options);

}  // namespace plimsoll
