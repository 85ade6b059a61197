// Turns scans and PDF files into pages with words and boxes.
//
//   DocumentOptions options{.files = find_documents({"scans"}), .threads = 4};
//   options.images = [] { return std::filesystem::path("pages.images"); };
//   const DocumentSummary summary = read_documents(options, [](const DocumentPage& page) { use(page.words); });
//
// Pages are read in parallel, one per thread, and are delivered in the order of the files. Memory is that of one page
// per thread (ocr/picture.h says how large a page may be), or within a budget (ocr/reading_memory.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/page.h"
#include "data/page_range.h"
#include "data/page_share.h"
#include "ocr/pdf_programs.h"
#include "ocr/reading_memory.h"
#include "ocr/text_reader.h"

namespace plimsoll {

// A page that was read: boxes are in pixels of its image, which has `width` x `height`; `confidences` has a number from
// 0 to 1 for each word, 1 for the words that a PDF file itself has.
struct DocumentPage {
  std::string id{};
  std::string document{};         // the file, if the page is one of several; empty: it stands alone
  std::filesystem::path image{};  // the file itself, or a picture that was written of the page
  int width = 0, height = 0;
  std::vector<std::string> words{};
  std::vector<Box> boxes{};
  std::vector<double> confidences{};
};

struct DocumentOptions {
  std::vector<std::filesystem::path> files{};
  TextReaderOptions reader{};
  TextLayout layout = TextLayout::kAuto;
  // Returns the directory for pictures of pages that have none of their own: those of PDF files and of TIFF files with
  // several pages, and pages that were turned. It is called when the first picture is written. Without it such files
  // are refused and pages are not turned.
  std::function<std::filesystem::path()> images{};
  int threads = 1;
  // If it has bytes, fewer threads read if more do not fit.
  ReadingBudget budget{};
  // If set, only this part of all pages is read; their ids are the same as when all are read.
  std::optional<ShardNumber> shard{};
  bool whole_documents = false;  // the pages of a file belong to one shard
  // The dots per inch at which a PDF's page is drawn for reading; at most kTextPageDpi if the page has text.
  int pdf_dpi = 300;
  PdfReader pdf_reader = PdfReader::kAuto;
  bool use_pdf_text = true;  // false: PDF pages are read as if they were scans
  bool turn_pages = true;    // pages that lie on a side or upside down are turned
  // Reads pages with small print at twice their size: more words are right, in twice the time.
  bool enlarge = false;
  double min_confidence = 0;  // words below it are left out
  bool reorder = false;       // words are in the order of ocr/reading_order.h, not in that of Tesseract or the PDF file
  bool drop_specks = false;   // words of only lines and dots, "_" or "~", are left out
  // Called with how many pages of all are done; may be nullptr.
  std::function<void(std::size_t done, std::size_t pages)> on_progress{};
  PageShare share{};  // with ranks, each reads its share, and all get all pages
};

// The picture of a PDF's page that has text is only for models and people, not for OCR.
inline constexpr int kTextPageDpi = 150;

struct DocumentSummary {
  std::size_t pages = 0, words = 0;
  static constexpr std::size_t kNamed = 5;
  // The ids of the first pages without words, at most kNamed, with what is wrong with their files.
  std::vector<std::string> without_words{};
  std::size_t pages_without_words = 0, turned_pages = 0, pages_with_own_text = 0, unsure_words = 0;
  PageRange range{};                       // the range of all pages that was read
  std::vector<int> numbers{};              // of the pages that were read, in their files, from 0
  std::vector<std::string> earlier_ids{};  // of the pages before the range
  std::vector<Problem> unreadable{};       // files, or pages of files, that have no page in the result
};

// Calls `use` with every page, in order, never in two threads at once. Files and pages that cannot be read are left
// out. Throws what open_text_reader throws, BudgetTooSmall for a page that does not fit the budget before any is read,
// EnvironmentError for a missing program or a full disk, and UsageError for a file that needs a directory for its
// pictures if there is none.
DocumentSummary read_documents(const DocumentOptions& options, const std::function<void(const DocumentPage&)>& use);

}  // namespace plimsoll
