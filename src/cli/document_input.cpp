#include "cli/document_input.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/path_from.h"
#include "cli/page_bar.h"
#include "cli/rank_options.h"
#include "cli/same_run.h"
#include "cli/signals.h"
#include "cli/usage.h"
#include "data/page_source.h"
#include "formats/json.h"
#include "ocr/find_documents.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

TextLayout layout_of(const std::string& name) {
  return name == "block" ? TextLayout::kBlock : name == "sparse" ? TextLayout::kSparse : TextLayout::kAuto;
}

PdfReader pdf_reader_of(const std::string& name) {
  return name == "poppler" ? PdfReader::kPoppler : name == "pypdfium2" ? PdfReader::kPypdfium2 : PdfReader::kAuto;
}

std::string line_of(const DocumentPage& page, const PagesPlace& place) {
  nlohmann::ordered_json line = {{"id", page.id}};
  if (!page.document.empty()) line["document"] = page.document;
  line["image"] =
      (place.absolute_paths ? fs::absolute(page.image).lexically_normal()
                            : path_from(place.named_from.empty() ? place.output : place.named_from, page.image))
          .string();
  line["width"] = page.width;
  line["height"] = page.height;
  line["words"] = page.words;
  nlohmann::ordered_json boxes = nlohmann::ordered_json::array(), confidences = nlohmann::ordered_json::array();
  for (const Box& box : page.boxes) {
    nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
    for (const double side : box) numbers.push_back(std::lround(side));
    boxes.push_back(std::move(numbers));
  }
  for (const double confidence : page.confidences) confidences.push_back(std::round(1000 * confidence) / 1000);
  line["boxes"] = std::move(boxes);
  line["confidences"] = std::move(confidences);
  return json_text(line);
}

void report_summary(const DocumentSummary& summary) {
  constexpr std::size_t kNamed = 10;
  for (std::size_t i = 0; i < std::min(kNamed, summary.unreadable.size()); ++i) {
    const Problem& problem = summary.unreadable[i];
    log_warning(fmt::format("{}: {} ({}); to do: {}", problem.where, problem.what, problem.found, problem.remedy));
  }
  if (summary.unreadable.size() > kNamed) {
    log_warning(fmt::format("{} more could not be read", summary.unreadable.size() - kNamed));
  }
  if (summary.pages_without_words > 0) {
    const bool all = summary.pages_without_words == summary.without_words.size();
    log_warning(fmt::format("{} no words ({}{}): empty, too faint, or in a language other than --language",
                            counted(summary.pages_without_words, "page has", "pages have"),
                            fmt::join(summary.without_words, ", "), all ? "" : ", …"));
  }
}

}  // namespace

std::vector<NamedPath> DocumentInput::inputs() const {
  std::vector<NamedPath> paths;
  for (const fs::path& file : match_paths(files)) paths.push_back({"--input", file});
  return paths;
}

void add_document_options(Command* command, DocumentInput& input) {
  command->heading("Documents");
  command
      ->add_option(
          "--input", input.files,
          "Scans and PDF files: PNG, JPEG, BMP, PNM, WebP, TIFF (all its pages), PDF; directories with such files, or "
          "patterns")
      ->type_name("FILE");
  command
      ->add_option("--images", input.images,
                   "Directory for pictures of pages that have no file of their own: pages of PDF files and of TIFF "
                   "files with several pages, and pages that were turned (default: beside the output, OUTPUT.images)")
      ->type_name("DIR");
  command
      ->add_option("--language", input.language,
                   "Languages of the text, by Tesseract's names: eng, deu, chi_sim; eng+chi_sim for both")
      ->type_name("NAMES")
      ->capture_default_str();
  command
      ->add_option("--tessdata-dir", input.tessdata_dir,
                   "Directory with Tesseract's data, NAME.traineddata (default: where its packages put it)")
      ->type_name("DIR");
  one_of(command->add_option("--page-layout", input.layout,
                             "How text lies on a page: auto (columns are found), block (one column, read line by line, "
                             "as on most receipts), sparse (words anywhere)"),
         {"auto", "block", "sparse"})
      ->type_name("HOW")
      ->capture_default_str();
  one_of(command->add_option("--enlarge", input.enlarge,
                             "Read pages with small print at twice their size, which gets more words right and takes "
                             "twice as long: auto or never"),
         {"auto", "never"})
      ->type_name("WHEN")
      ->capture_default_str();
  number(command->add_option("--min-confidence", input.min_confidence,
                             "Leave out words that were read with less confidence, 0 to 1"),
         0, 1)
      ->capture_default_str();
  command->add_flag("--drop-specks", input.drop_specks,
                    "Leave out words that are only lines and dots, such as _ or ~: what specks on a scan are read as");
  one_of(command->add_option("--word-order", input.word_order,
                             "found (as Tesseract or the PDF file has them) or columns (blocks side by side one after "
                             "the other, tables line by line)"),
         {"found", "columns"})
      ->type_name("HOW")
      ->capture_default_str();
  whole_number(
      command->add_option("--dpi", input.dpi, "Dots per inch at which pages of PDF files are drawn to be read"), 50,
      1200)
      ->capture_default_str();
  command->add_flag("--ignore-pdf-text", input.ignore_pdf_text,
                    "Read the pages of PDF files by OCR, even if they contain text");
  one_of(command->add_option("--pdf-reader", input.pdf_reader,
                             "What reads PDF files: poppler (its programs), pypdfium2 (pip install pypdfium2), auto "
                             "(Poppler where it is installed, else pypdfium2)"),
         {"auto", "poppler", "pypdfium2"})
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--keep-rotation", input.keep_rotation, "Do not turn pages that are sideways or upside down");
}

void tell_idle_document_options(const Command& command, const DocumentInput& input) {
  if (!input.files.empty()) return;
  for (const char* name :
       {"--images", "--language", "--tessdata-dir", "--page-layout", "--enlarge", "--min-confidence", "--drop-specks",
        "--word-order", "--dpi", "--ignore-pdf-text", "--pdf-reader", "--keep-rotation"}) {
    if (command.changed(name)) log_warning(fmt::format("{} changes nothing without --input", name));
  }
}

std::string documents_fingerprint(const DocumentInput& input) {
  Hasher hasher;
  for (const fs::path& file : find_documents(input.files)) {
    std::error_code error;
    hasher.add_text(file.string());
    hasher.add_text(std::to_string(fs::file_size(file, error)));
  }
  return hash_digits(hasher.digest());
}

ReadingBudget reading_budget(const MemoryRequest& memory) {
  return {.bytes = resident_budget(memory), .option = memory.host_budget_bytes > 0 ? "--host-budget" : "--budget"};
}

WrittenPages write_pages(const Invocation& invocation, const DocumentInput& input, const PagesPlace& place) {
  PageBar bar("pages read", invocation.json || !invocation.is_first(), true);
  DocumentOptions options{.files = find_documents(input.files),
                          .reader = {.language = input.language, .tessdata_dir = input.tessdata_dir},
                          .layout = layout_of(input.layout),
                          .threads = place.threads,
                          .budget = place.budget,
                          .shard = place.shard,
                          .whole_documents = place.whole_documents,
                          .pdf_dpi = input.dpi,
                          .pdf_reader = pdf_reader_of(input.pdf_reader),
                          .use_pdf_text = !input.ignore_pdf_text,
                          .turn_pages = !input.keep_rotation,
                          .enlarge = input.enlarge == "auto",
                          .min_confidence = input.min_confidence,
                          .reorder = input.word_order == "columns",
                          .drop_specks = input.drop_specks,
                          .on_progress = [&bar](std::size_t done, std::size_t pages) { bar.draw(done, pages); },
                          .share = page_share(invocation)};
  refuse_other_files(invocation, "--input", options.files, FilesBy::kSizes);
  std::vector<NamedPath> read;
  for (const fs::path& file : options.files) read.push_back({"--input", file});
  refuse_replacing({{"--output", place.output}}, read);
  if (!place.images.empty()) {
    options.images = [&place] {
      if (place.owns_images) {
        make_directory(place.images, "--images");
      } else {
        make_directory_of(place.images, "--images", "ocr");
      }
      return place.images;
    };
  }
  const FastHeap heap(options.threads);
  std::optional<OutputFile> file;
  if (place.every_rank || invocation.is_first()) file.emplace(place.output);
  std::optional<fs::path> missing;
  WrittenPages summary{read_documents(options, [&](const DocumentPage& page) {
    // Another rank may have written it where this one cannot see it.
    if (place.every_rank && invocation.ranks != nullptr && !missing && !fs::exists(page.image)) missing = page.image;
    if (file) file->write(line_of(page, place) + "\n");
  })};
  bar.clear();
  if (missing) {
    throw EnvironmentError({.what = "a page's picture, which another process has written, is not found here",
                            .where = "--images",
                            .found = missing->string(),
                            .allowed = "a directory that all processes see",
                            .remedy = "pass --images DIR on a file system that their machines share"});
  }
  if (summary.pages == 0 && !place.shard) throw DataError(summary.unreadable.front());
  if (file) summary.sum = file->close();
  report_summary(summary);
  return summary;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (temporary_directory() / "plimsoll-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw EnvironmentError({.what = "cannot make a temporary directory",
                            .where = name,
                            .found = std::strerror(errno),
                            .allowed = "a directory that can be written to",
                            .remedy = "name one by the variable TMPDIR"});
  }
  path_ = name;
  remove_when_ended(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace plimsoll
