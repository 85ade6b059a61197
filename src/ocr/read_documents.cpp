#include "ocr/read_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/file.h"
#include "base/free_names.h"
#include "base/log.h"
#include "base/process.h"
#include "data/image.h"
#include "data/shared_work.h"
#include "ocr/find_documents.h"
#include "ocr/pdf.h"
#include "ocr/picture.h"
#include "ocr/reading_order.h"
#include "ocr/text_readers.h"
#include "ocr/upright.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// A page of a PDF file that has at most so many words may be a scan with a stamp.
constexpr std::size_t kFewWords = 15;

// Small letters at 300 dots per inch have about 20 pixels; Tesseract reads them best from about 15.
constexpr int kSmallLetters = 14;

enum class Kind { kPicture, kTiffPages, kPdf };

struct Document {
  fs::path file{};
  Kind kind = Kind::kPicture;
  int pages = 1;
  std::shared_ptr<const PdfFile> pdf{};  // only of kPdf
  std::optional<Problem> unreadable{};   // if set, the file has one page, which fails
};

// Finds the programs that read PDF files when the first such file occurs.
class PdfOpener {
 public:
  explicit PdfOpener(PdfReader reader) : reader_(reader) {}
  std::shared_ptr<const PdfFile> open(const fs::path& file) {
    if (!programs_) programs_ = find_pdf_programs(reader_);
    return std::make_shared<const PdfFile>(file, *programs_);
  }

 private:
  PdfReader reader_;
  std::optional<PdfPrograms> programs_;
};

Document open_document(const fs::path& file, PdfOpener& pdf_files) {
  Document document{.file = file};
  try {
    if (is_pdf(file)) {
      document.kind = Kind::kPdf;
      document.pdf = pdf_files.open(file);
      document.pages = document.pdf->pages();
    } else if (read_image_info(file).format == "tiff") {
      document.pages = count_tiff_pages(file);
      if (document.pages > 1) document.kind = Kind::kTiffPages;
    }
  } catch (const DataError& error) {
    document.unreadable = error.problem();
  }
  return document;
}

// Turns a page's id into the name of a file, without its extension.
std::string file_name_of(const std::string& id) {
  std::string name;
  for (const char c : id) name += c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ? '_' : c;
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

// True for what OCR makes of specks, rules and folds: signs that mean nothing alone.
bool is_speck(const std::string& word) {
  static const std::set<std::string, std::less<>> specks = {
      "\xE2\x80\x94", "\xE2\x80\x93", "\xE2\x80\x98", "\xE2\x80\x99", "\xE2\x80\x9C", "\xE2\x80\x9D",
      "\xC2\xA9",     "\xC2\xAE",     "\xC2\xAB",     "\xC2\xBB",     "\xC2\xB0",     "\xC2\xB7"};
  constexpr std::string_view kSigns = "_|~'`^\\.,;=<>[]{}\"!*()";
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t bytes = static_cast<unsigned char>(word[i]) < 0x80   ? 1
                              : static_cast<unsigned char>(word[i]) < 0xE0 ? 2
                              : static_cast<unsigned char>(word[i]) < 0xF0 ? 3
                                                                           : 4;
    const std::string_view sign = std::string_view(word).substr(i, bytes);
    if (bytes == 1 ? kSigns.find(sign) == std::string_view::npos : !specks.contains(sign)) return false;
    i += bytes;
  }
  return true;
}

template <typename Value>
void rearrange(std::vector<Value>& values, const std::vector<std::size_t>& order) {
  std::vector<Value> arranged;
  arranged.reserve(order.size());
  for (const std::size_t i : order) arranged.push_back(std::move(values[i]));
  values = std::move(arranged);
}

void put_in_order(DocumentPage& page) {
  const std::vector<std::size_t> order = reading_order(page.boxes, page.words);
  rearrange(page.words, order);
  rearrange(page.boxes, order);
  rearrange(page.confidences, order);
}

class DocumentReader {
 public:
  DocumentReader(const DocumentOptions& options, std::vector<Document> documents)
      : options_(options), documents_(std::move(documents)) {
    // Documents are named by their files' names, or by their whole paths if two have the same name.
    std::map<std::string, int> count;
    for (const Document& document : documents_) ++count[document.file.stem().string()];
    FreeNames names, ids, pictures;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      const std::string stem = documents_[i].file.stem().string();
      const std::string name = names.take(count[stem] == 1 ? stem : documents_[i].file.lexically_normal().string());
      const bool is_alone = documents_[i].pages == 1;
      for (int page = 0; page < documents_[i].pages; ++page) {
        const std::string id = ids.take(is_alone ? name : fmt::format("{}-{}", name, page + 1));
        pages_.push_back({.document = i,
                          .page = page,
                          .id = id,
                          .document_name = is_alone ? "" : name,
                          .picture = pictures.take(file_name_of(id)) + ".png"});
      }
    }
  }

  std::size_t pages() const { return pages_.size(); }

  // Returns how many threads may read the pages of a range at once; their pages then share the budget.
  int share_budget(const PageRange& range) {
    if (options_.budget.bytes == 0) return options_.threads;
    const std::size_t held = resident_bytes();  // a reader is open already
    const auto plan_with = [&](bool asks_pdf) {
      PageNeed largest;
      const std::size_t sum = measure(range, asks_pdf, largest);
      return plan_reading(options_.budget, held, text_reader_bytes(options_.reader), largest,
                          sum / std::max<std::size_t>(range.size(), 1), options_.threads);
    };
    ReadingPlan plan;
    try {
      plan = plan_with(false);
    } catch (const BudgetTooSmall&) {
      // Pages of PDF files with a text of their own are not read by OCR; finding out takes time.
      plan = plan_with(true);
    }
    share_.set_limit(plan.page_bytes);
    const int wanted =
        static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(options_.threads), range.size()));
    if (plan.threads < wanted) {
      log_info(fmt::format("reading {} at once instead of {}: more do not fit {} {}", counted(plan.threads, "page"),
                           wanted, options_.budget.option, format_bytes(options_.budget.bytes)));
    }
    return plan.threads;
  }

  struct Result {
    std::optional<DocumentPage> page{};  // without it `problem` says why
    Problem problem{};
    bool turned = false, own_text = false;
    std::string fault{};  // why a page without words may lack them
    std::size_t unsure_words = 0;
  };

  const std::string& id(std::size_t index) const { return pages_[index].id; }
  // Returns the page's number in its file, from 0.
  int page_of_document(std::size_t index) const { return pages_[index].page; }
  // Returns whether the page belongs to the file of the previous page.
  bool continues_document(std::size_t index) const {
    return index > 0 && pages_[index].document == pages_[index - 1].document;
  }

  // Reads a page; called by many threads.
  Result read(std::size_t index) {
    const PageOf& place = pages_[index];
    const Document& document = documents_[place.document];
    Result result;
    try {
      if (document.unreadable) throw DataError(*document.unreadable);
      DocumentPage page{.id = place.id, .document = place.document_name};
      if (document.kind == Kind::kPdf) {
        read_pdf_page(document, place, page, result);
      } else if (document.kind == Kind::kPicture) {
        const MemoryShare::Part part = share_.take(place.bytes);
        // A model then sees what was read: on white paper.
        const bool anew = options_.images && is_transparent(document.file);
        read_picture(open_picture(document.file), anew ? fs::path() : document.file, place, page, result);
      } else {
        const MemoryShare::Part part = share_.take(place.bytes);
        read_picture(open_tiff_page(document.file, place.page), {}, place, page, result);
      }
      if (options_.reorder) put_in_order(page);
      result.page = std::move(page);
    } catch (const DataError& error) {
      result.problem = error.problem();
      if (document.pages > 1) result.problem.where += fmt::format(", page {}", place.page + 1);
    }
    return result;
  }

 private:
  struct PageOf {
    std::size_t document = 0;
    int page = 0;
    std::string id{}, document_name{};
    std::string picture{};  // the name of its picture, if one is written
    std::size_t bytes = 0;  // what reading it takes, if there is a budget
  };

  // Sets what the pages of a range take and returns the sum. PDF files are only asked for text if `asks_pdf`.
  std::size_t measure(const PageRange& range, bool asks_pdf, PageNeed& largest) {
    std::size_t sum = 0;
    largest = {};
    for (std::size_t i = range.begin; i < range.end; ++i) {
      PageOf& place = pages_[i];
      const std::optional<PictureForm> form = form_of(place, asks_pdf);
      place.bytes = form ? budgeted(*form) : 0;
      sum += place.bytes;
      if (!form || place.bytes <= largest.bytes) continue;
      const Document& document = documents_[place.document];
      largest = {.name = document.file.string(), .form = *form, .bytes = place.bytes};
      if (document.pages > 1) largest.name += fmt::format(", page {}", place.page + 1);
    }
    return sum;
  }

  // Returns what reading a picture takes, if there is a budget.
  std::size_t budgeted(const PictureForm& form) const {
    const ReadingSteps steps{.enlarges = options_.enlarge, .turns = options_.turn_pages && options_.images};
    return options_.budget.bytes == 0 ? 0 : reading_bytes(form, steps);
  }

  // Returns nothing for a page that is not read by OCR, or cannot be opened, which is said when it is its turn.
  std::optional<PictureForm> form_of(const PageOf& place, bool asks_pdf) const {
    const Document& document = documents_[place.document];
    if (document.unreadable) return std::nullopt;
    try {
      if (document.kind == Kind::kPicture) return picture_form(document.file);
      if (document.kind == Kind::kTiffPages) return tiff_page_form(document.file, place.page);
      if (asks_pdf && is_not_read(document.pdf->read_text(place.page))) return std::nullopt;
    } catch (const DataError&) {
      return std::nullopt;
    }
    const PdfSize size = document.pdf->size(place.page);
    return drawn_form(size.width, size.height);
  }

  // Returns the form of a page of a PDF file that is drawn for OCR.
  PictureForm drawn_form(double width, double height) const {
    if (width <= 0 || height <= 0) return {.pixels = kMostPixels};
    const double pixels = drawing_dpi(width, height, options_.pdf_dpi) / 72.0;
    return {.pixels = static_cast<std::int64_t>(width * pixels * height * pixels)};
  }

  // A scan may have a few words of its own.
  bool is_not_read(const PdfText& text) const { return has_own_text(text) && text.words.size() > kFewWords; }

  bool has_own_text(const PdfText& text) const {
    return options_.use_pdf_text && !text.words.empty() && !text.is_garbled;
  }

  // A drawing of several metres gets fewer dots per inch. The sides are in points.
  static int drawing_dpi(double width, double height, double wanted) {
    const double inches = width * height / (72.0 * 72.0), longest = std::max(width, height) / 72.0;
    if (inches > 0) {
      wanted = std::min({wanted, std::sqrt(static_cast<double>(kMostPixels) / inches), kLongestSide / longest});
    }
    return std::max(1, static_cast<int>(wanted));
  }

  fs::path picture_path(const PageOf& place) {
    const std::lock_guard lock(mutex_);
    if (images_.empty()) images_ = options_.images();
    return images_ / place.picture;
  }

  // Reads a page whose picture is in the file `own`, or has no file yet.
  void read_picture(Picture picture, const fs::path& own, const PageOf& place, DocumentPage& page, Result& result) {
    UprightText upright = read_upright(picture);
    take_picture(std::move(picture), upright, own, place, page, result);
  }

  void take_picture(Picture picture, const UprightText& upright, const fs::path& own, const PageOf& place,
                    DocumentPage& page, Result& result) {
    if (upright.turned != 0) picture = picture.turned(upright.turned);
    result.turned = upright.turned != 0;
    page.image = own;
    if (own.empty() || result.turned || (options_.images && is_transparent(own))) {
      // A model then sees what was read, upright and on white paper. A picture that was shrunk for reading is written
      // in that size: the image and its boxes have the same pixels.
      page.image = picture_path(place);
      picture.write_png(page.image);
      page.width = picture.width(), page.height = picture.height();
      take_words(upright.text, 1, page, result);
      return;
    }
    page.width = picture.file_width(), page.height = picture.file_height();
    take_words(upright.text, picture.scale(), page, result);
  }

  // Reads a scan that has a few words of its own, such as a page number or a stamp, which cover little of its ink.
  // Returns false for another page: one that has all of its text, or beside its text only drawings. The page's picture,
  // of `dpi`, stays what it is then.
  bool read_stamped_scan(const Document& document, const PdfText& text, int dpi, const fs::path& image,
                         const PageOf& place, DocumentPage& page, Result& result) {
    constexpr double kMostInk = 0.3, kRead = 0.5;
    if (text.words.size() > kFewWords) return false;
    const int scan_dpi = drawing_dpi(text.width, text.height, options_.pdf_dpi);
    const MemoryShare::Part part = share_.take(std::max(place.bytes, budgeted(drawn_form(text.width, text.height))));
    if (open_picture(image).ink_within(boxes_of(text, dpi)) > kMostInk) return false;
    if (scan_dpi != dpi) document.pdf->write_picture(place.page, scan_dpi, image);
    Picture picture = open_picture(image);
    const UprightText upright = read_upright(picture);
    std::size_t own = 0;
    for (const PdfWord& word : text.words) own += word.text.size();
    if (count_letters(upright.text) >= 2 * own + kFewLetters && mean_confidence(upright.text) >= kRead) {
      take_picture(std::move(picture), upright, image, place, page, result);
      return true;
    }
    if (scan_dpi != dpi) document.pdf->write_picture(place.page, dpi, image);
    return false;
  }

  // Returns the words' boxes in pixels of a page drawn with so many dots per inch.
  static std::vector<Box> boxes_of(const PdfText& text, int dpi) {
    const double pixels = dpi / 72.0;
    std::vector<Box> boxes;
    for (const PdfWord& word : text.words) {
      boxes.push_back({std::floor(word.box[0] * pixels), std::floor(word.box[1] * pixels),
                       std::ceil(word.box[2] * pixels), std::ceil(word.box[3] * pixels)});
    }
    return boxes;
  }

  void read_pdf_page(const Document& document, const PageOf& place, DocumentPage& page, Result& result) {
    const PdfText text = document.pdf->read_text(place.page);
    const bool has_text = has_own_text(text);
    const int dpi =
        drawing_dpi(text.width, text.height, has_text ? std::min(options_.pdf_dpi, kTextPageDpi) : options_.pdf_dpi);
    const fs::path image = picture_path(place);
    document.pdf->write_picture(place.page, dpi, image);
    if (!has_text) {
      const MemoryShare::Part part = share_.take(std::max(place.bytes, budgeted(picture_form(image))));
      read_picture(open_picture(image), image, place, page, result);
      if (page.words.empty()) result.fault = text.fault;
      return;
    }
    if (read_stamped_scan(document, text, dpi, image, place, page, result)) return;
    const std::vector<Box> boxes = boxes_of(text, dpi);
    const ImageInfo info = read_image_info(image);
    page.image = image;
    page.width = info.width, page.height = info.height;
    result.own_text = true;
    for (std::size_t i = 0; i < boxes.size(); ++i) add_word(text.words[i].text, boxes[i], 1, page);
  }

  // Reads a page, and again if it lies on a side or upside down.
  UprightText read_upright(const Picture& page) {
    // Tesseract packs every line as a PNG file and unpacks it again, which takes a third of the time in gray. Colours
    // are kept if there are some, because light print in a colour is dark in only one of the three channels.
    return page.is_gray_in_colours() ? read_at_size(page.gray()) : read_at_size(page);
  }

  UprightText read_at_size(const Picture& page) {
    const bool enlarges = options_.enlarge && std::int64_t{page.width()} * page.height() <= kMostPixels / 4 &&
                          page.letter_height() > 0 && page.letter_height() < kSmallLetters;
    if (!enlarges) return read_in_place(page);
    UprightText text = read_in_place(page.enlarged());
    for (ReadWord& word : text.text.words) {
      for (double& side : word.box) side /= 2;
    }
    return text;
  }

  UprightText read_in_place(const Picture& picture) {
    std::unique_ptr<TextReader> reader = readers_.take();
    UprightText best{.text = reader->read(picture, options_.layout)};
    // Sometimes a whole page is mistaken for a photograph.
    if (best.text.words.empty()) best.text = reader->read(picture, TextLayout::kBlock);
    if (options_.turn_pages && options_.images) turn_upright(*reader, picture, options_.layout, best);
    readers_.give_back(std::move(reader));
    return best;
  }

  void take_words(const PageText& text, double scale, DocumentPage& page, Result& result) const {
    for (const ReadWord& word : text.words) {
      if (word.confidence < options_.min_confidence || (options_.drop_specks && is_speck(word.text))) {
        ++result.unsure_words;
        continue;
      }
      add_word(word.text,
               {std::floor(word.box[0] * scale), std::floor(word.box[1] * scale), std::ceil(word.box[2] * scale),
                std::ceil(word.box[3] * scale)},
               word.confidence, page);
    }
  }

  // Adds a word, with its box clipped to the page. A word outside the page is left out, because it is invisible.
  static void add_word(const std::string& text, const Box& box, double confidence, DocumentPage& page) {
    const double wide = page.width, high = page.height;
    const Box cut = {std::clamp(box[0], 0.0, wide), std::clamp(box[1], 0.0, high), std::clamp(box[2], 0.0, wide),
                     std::clamp(box[3], 0.0, high)};
    if (cut[2] <= cut[0] || cut[3] <= cut[1]) return;
    page.words.push_back(text);
    page.boxes.push_back(cut);
    page.confidences.push_back(confidence);
  }

  const DocumentOptions& options_;
  std::vector<Document> documents_;
  std::vector<PageOf> pages_;
  TextReaders readers_{options_.reader};
  MemoryShare share_;
  std::mutex mutex_;
  fs::path images_;
};

// Packs a result as bytes, for the other ranks. CBOR keeps every bit of numbers, and strings with any content.
std::string pack(const DocumentReader::Result& result) {
  nlohmann::json object = {{"turned", result.turned},
                           {"own_text", result.own_text},
                           {"fault", result.fault},
                           {"unsure", result.unsure_words}};
  if (result.page) {
    const DocumentPage& page = *result.page;
    object["page"] = {{"id", page.id},       {"document", page.document},      {"image", page.image.string()},
                      {"width", page.width}, {"height", page.height},          {"words", page.words},
                      {"boxes", page.boxes}, {"confidences", page.confidences}};
  } else {
    const Problem& problem = result.problem;
    object["problem"] = {problem.what, problem.where, problem.found, problem.allowed, problem.remedy};
  }
  std::string packed;
  nlohmann::json::to_cbor(object, packed);
  return packed;
}

DocumentReader::Result unpack(std::string_view packed) {
  const nlohmann::json object = nlohmann::json::from_cbor(packed);
  DocumentReader::Result result{.turned = object.at("turned"),
                                .own_text = object.at("own_text"),
                                .fault = object.at("fault"),
                                .unsure_words = object.at("unsure")};
  if (const auto problem = object.find("problem"); problem != object.end()) {
    result.problem = {.what = problem->at(0),
                      .where = problem->at(1),
                      .found = problem->at(2),
                      .allowed = problem->at(3),
                      .remedy = problem->at(4)};
    return result;
  }
  const nlohmann::json& page = object.at("page");
  result.page = DocumentPage{.id = page.at("id"),
                             .document = page.at("document"),
                             .image = page.at("image").get<std::string>(),
                             .width = page.at("width"),
                             .height = page.at("height"),
                             .words = page.at("words"),
                             .boxes = page.at("boxes"),
                             .confidences = page.at("confidences")};
  return result;
}

}  // namespace

DocumentSummary read_documents(const DocumentOptions& options, const std::function<void(const DocumentPage&)>& use) {
  std::vector<Document> documents;
  PdfOpener pdf_files(options.pdf_reader);
  for (const fs::path& file : options.files) {
    documents.push_back(open_document(file, pdf_files));
    const Document& document = documents.back();
    if (document.kind == Kind::kPicture || document.unreadable || options.images) continue;
    throw UsageError(
        {.what = "a document's pages need a directory for their pictures",
         .where = "--images",
         .found = fmt::format("none, and {} with {}", document.file.string(), counted(document.pages, "page")),
         .allowed = "a directory, because the output names a picture for each page",
         .remedy = "pass --images DIR, or an output file: its pictures then lie beside it"});
  }
  DocumentReader reader(options, std::move(documents));
  DocumentSummary summary{.range = {.begin = 0, .end = reader.pages()}};
  if (options.shard) {
    summary.range = range_of_shard(reader.pages(), *options.shard, [&](std::size_t page) {
      return options.whole_documents && reader.continues_document(page);
    });
  }
  const int threads = reader.share_budget(summary.range);
  for (std::size_t page = 0; page < summary.range.begin; ++page) summary.earlier_ids.push_back(reader.id(page));
  std::size_t done = 0;
  run_shared<DocumentReader::Result>(
      options.share, summary.range.size(), threads, [&](std::size_t i) { return reader.read(summary.range.begin + i); },
      pack, unpack,
      [&](DocumentReader::Result result) {
        ++done;
        if (options.on_progress) options.on_progress(done, summary.range.size());
        if (!result.page) {
          summary.unreadable.push_back(std::move(result.problem));
          return;
        }
        ++summary.pages;
        summary.numbers.push_back(reader.page_of_document(summary.range.begin + done - 1));
        summary.words += result.page->words.size();
        if (result.page->words.empty() && ++summary.pages_without_words <= DocumentSummary::kNamed) {
          const std::string why = result.fault.empty() ? "" : fmt::format(": {}", result.fault);
          summary.without_words.push_back(result.page->id + why);
        }
        summary.turned_pages += result.turned ? 1 : 0;
        summary.pages_with_own_text += result.own_text ? 1 : 0;
        summary.unsure_words += result.unsure_words;
        use(*result.page);
      });
  return summary;
}

}  // namespace plimsoll
