// Reads the words of a page's picture (OCR), by Tesseract if this program is built with it.
//
//   const std::unique_ptr<TextReader> reader = open_text_reader({.language = "eng+chi_sim"});
//   const PageText text = reader->read(picture, TextLayout::kAuto);
//   for (const ReadWord& word : text.words) use(word.text, word.box, word.confidence);
//
// Tesseract's library is loaded by the first reader, not with the program: it and the libraries that it needs take 8.6
// MiB of every process, for which a training run has better uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/page.h"
#include "ocr/picture.h"

namespace plimsoll {

// A word in the picture's pixels; `confidence` is from 0 to 1.
struct ReadWord {
  std::string text{};
  Box box{};
  double confidence = 0;
};

// How a page's text is laid out.
enum class TextLayout : std::uint8_t {
  kAuto,   // Tesseract looks for blocks and columns
  kBlock,  // one column: a receipt, whose prices belong to the names at their left
  kSparse  // words anywhere, in no order
};

struct TextReaderOptions {
  std::string language = "eng";          // "eng+chi_sim": a page may have both
  std::filesystem::path tessdata_dir{};  // of *.traineddata files; empty: where Tesseract's packages put them
};

struct PageText {
  std::vector<ReadWord> words{};  // in reading order
  // Most words are higher than wide: their lines run from top to bottom, as on a page that lies on its side. They are
  // read as well as others, except for lines that run from bottom to top.
  bool is_sideways = false;
};

// Returns the mean confidence of a page's letters, from 0 to 1; 0 for a page without words.
double mean_confidence(const PageText& text);

class TextReader {
 public:
  virtual ~TextReader() = default;
  // A reader belongs to one thread and computes only in that thread, so that many pages can be read in parallel.
  virtual PageText read(const Picture& picture, TextLayout layout) = 0;
};

// Throws UsageError for a language that is not installed, naming its package, and EnvironmentError if Tesseract cannot
// be loaded or this program is built without it.
std::unique_ptr<TextReader> open_text_reader(const TextReaderOptions& options);

// Returns about how many bytes a reader holds, from the size of its languages' data. Throws what open_text_reader
// throws for a language that is not installed.
std::size_t text_reader_bytes(const TextReaderOptions& options);

// Returns "Tesseract 5.3.0"; "Tesseract, which cannot be loaded (...)" or "none" if no reader can be opened.
std::string describe_text_reader();

}  // namespace plimsoll
