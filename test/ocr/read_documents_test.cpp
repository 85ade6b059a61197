// Documents become pages: what is read of drawn ones, and what is said of those that cannot be read.
#include "ocr/read_documents.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <leptonica/allheaders.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "base/process.h"
#include "data/image.h"
#include "draw/synth.h"
#include "ocr/find_documents.h"
#include "support/drawn_text.h"
#include "support/expect_error.h"
#include "support/log_capture.h"
#include "support/pdf_readers.h"
#include "support/scratch_folder.h"
#include "support/text_reader.h"

namespace plimsoll {
namespace {

using test::draw_pdf;
using test::draw_text;
using test::expect_error;
using test::Lines;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const Lines kInvoice = {"Invoice number 4711 of Greenburg Services", "Six door handles at 79.95 make 479.70",
                        "Please pay the TOTAL of 479.70 before Friday", "Thank you very much for your order",
                        "Delivery was made on 2023 December 26"};

class Documents : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_TEXT_READER(); }

  std::filesystem::path at(const std::string& name) const { return folder_ / name; }
  std::vector<DocumentPage> read(const std::vector<std::string>& names, const DocumentOptions& like = {}) {
    DocumentOptions options = like;
    std::vector<std::string> given;
    for (const std::string& name : names) given.push_back(at(name).string());
    options.files = find_documents(given);
    if (!without_images_) {
      options.images = [this] {
        std::filesystem::create_directories(at("images"));
        return at("images");
      };
    }
    std::vector<DocumentPage> pages;
    summary_ = read_documents(options, [&pages](const DocumentPage& page) { pages.push_back(page); });
    return pages;
  }
  static std::string text_of(const DocumentPage& page) {
    std::string text;
    for (const std::string& word : page.words) text += (text.empty() ? "" : " ") + word;
    return text;
  }
  static std::string invoice() {
    std::string text;
    for (const std::string& line : kInvoice) text += (text.empty() ? "" : " ") + line;
    return text;
  }
  // Turns a picture clockwise.
  void turn(const std::string& from, const std::string& to, int quarters) const {
    Pix* pix = pixRead(at(from).c_str());
    Pix* turned = pixRotateOrth(pix, quarters);
    pixWrite(at(to).c_str(), turned, to.ends_with("jpg") ? IFF_JFIF_JPEG : IFF_PNG);
    pixDestroy(&pix);
    pixDestroy(&turned);
  }

  test::ScratchFolder folder_;
  DocumentSummary summary_;
  bool without_images_ = false;
};

TEST_F(Documents, WordsAndBoxesAreRead) {
  draw_text(at("a.png"), kInvoice);
  const std::vector<DocumentPage> pages = read({"a.png"});
  ASSERT_EQ(pages.size(), 1U);
  const DocumentPage& page = pages[0];
  EXPECT_EQ(text_of(page), invoice());
  EXPECT_EQ(page.id, "a");
  EXPECT_EQ(page.document, "");
  EXPECT_EQ(page.image, at("a.png"));
  EXPECT_EQ(page.width, 900);
  EXPECT_EQ(page.height, 600);
  ASSERT_EQ(page.boxes.size(), page.words.size());
  ASSERT_EQ(page.confidences.size(), page.words.size());
  EXPECT_GT(page.confidences[0], 0.8);
  // The first line begins at 56, 84 (its baseline) in letters of 28 pixels.
  EXPECT_NEAR(page.boxes[0][0], 58, 6);
  EXPECT_NEAR(page.boxes[0][3], 84, 4);
  EXPECT_NEAR(page.boxes[0][3] - page.boxes[0][1], 21, 5);
  EXPECT_EQ(summary_.words, page.words.size());
}

// On some pages the lines that are found depend on the resolution.
TEST_F(Documents, APictureThatGivesNoResolutionHas96DotsPerInch) {
  constexpr int kPages = 12;
  synthesize({.output_dir = at("pages"), .count = kPages, .seed = 1});
  const auto words_at = [this](const std::filesystem::path& image, int dpi) {
    Pix* pix = pixRead(image.c_str());
    pixSetResolution(pix, dpi, dpi);
    pixWrite(at("page.png").c_str(), pix, IFF_PNG);
    pixDestroy(&pix);
    return read({"page.png"}).at(0).words;
  };
  for (int page = 0; page < kPages; ++page) {
    const std::filesystem::path image = at(fmt::format("pages/images/{:05}.png", page));
    const std::vector<std::string> at96 = words_at(image, 96);
    if (words_at(image, 70) == at96) continue;
    EXPECT_EQ(words_at(image, 0), at96);
    EXPECT_EQ(words_at(image, 1), at96) << "nobody scans at 1 dot per inch";
    return;
  }
  GTEST_SKIP() << "no page of " << kPages << " shows the difference";
}

// In gray pale yellow is nearly white; it is dark in the blue channel.
TEST_F(Documents, PalePrintInAColourIsRead) {
  draw_text(at("a.png"), kInvoice);
  Pix* pix = pixRead(at("a.png").c_str());
  for (int y = 0; y < pixGetHeight(pix); ++y) {
    for (int x = 0; x < pixGetWidth(pix); ++x) {
      int red = 0, green = 0, blue = 0;
      pixGetRGBPixel(pix, x, y, &red, &green, &blue);
      // The first line stays black.
      if (y > 110) pixSetRGBPixel(pix, x, y, 255, 255, 40 + blue * 215 / 255);
    }
  }
  pixWrite(at("b.png").c_str(), pix, IFF_PNG);
  pixDestroy(&pix);
  EXPECT_EQ(text_of(read({"b.png"}).at(0)), invoice());
}

// One threshold for the page lies between a dark part and all else, so that faint print is taken for paper.
TEST_F(Documents, FaintPrintBesideADarkPartIsRead) {
  draw_text(at("a.png"), kInvoice);
  Pix* drawn = pixRead(at("a.png").c_str());
  const int width = pixGetWidth(drawn), height = pixGetHeight(drawn);
  Pix* gray = pixConvertTo8(drawn, 0);
  Pix* faint = pixCreate(width, 2 * height, 8);  // its lower half is black
  pixSetResolution(faint, pixGetXRes(drawn), pixGetYRes(drawn));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      l_uint32 value = 0;
      pixGetPixel(gray, x, y, &value);
      pixSetPixel(faint, x, y, 205 + 40 * value / 255);
    }
  }
  pixWrite(at("b.png").c_str(), faint, IFF_PNG);
  for (Pix* pix : {drawn, gray, faint}) pixDestroy(&pix);
  EXPECT_THAT(text_of(read({"b.png"}).at(0)), HasSubstr("Please pay the TOTAL of 479.70 before Friday"));
}

TEST_F(Documents, PagesComeInOrderAndAreTheSameWithAnyThreads) {
  for (const char* name : {"c.png", "a.png", "b.png"}) draw_text(at(name), {std::string("This is page ") + name});
  const auto once = read({"."});
  ASSERT_EQ(once.size(), 3U);
  EXPECT_EQ(once[0].id, "a");
  EXPECT_EQ(once[2].id, "c");
  const auto again = read({"."}, {.threads = 3});
  ASSERT_EQ(again.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again[i].words, once[i].words);
    EXPECT_EQ(again[i].boxes, once[i].boxes);
    EXPECT_EQ(again[i].confidences, once[i].confidences);
  }
}

TEST_F(Documents, TurnedPagesAreTurnedUpright) {
  draw_text(at("a.png"), kInvoice);
  for (int quarters = 1; quarters < 4; ++quarters) {
    turn("a.png", "b.png", quarters);
    const auto pages = read({"b.png"});
    ASSERT_EQ(pages.size(), 1U);
    EXPECT_EQ(text_of(pages[0]), invoice()) << quarters;
    EXPECT_EQ(summary_.turned_pages, 1U) << quarters;
    EXPECT_EQ(pages[0].width, 900);
    EXPECT_EQ(pages[0].image, at("images/b.png"));
    const ImageInfo info = read_image_info(pages[0].image);
    EXPECT_EQ(info.width, 900);
    EXPECT_EQ(info.height, 600);
    // Somebody who wants the pages as they lie has them so.
    const auto lying = read({"b.png"}, {.turn_pages = false});
    EXPECT_EQ(lying.at(0).image, at("b.png"));
    EXPECT_EQ(lying.at(0).width, quarters == 2 ? 900 : 600);
  }
}

// Figures and rules look like figures and rules upside down, too: such pages are read with some confidence.
TEST_F(Documents, UpsideDownTablesAreTurned) {
  Lines table = {"Item  Number  Price  Amount"};
  const char* const names[] = {"NUT", "PIN", "BOLT", "HINGE", "SCREW", "WASHER"};
  for (int i = 0; i < 9; ++i) {
    const int number = 3 + 7 * i % 11, price = 115 + 68 * i;
    table.push_back(fmt::format("{}  {}  {:.2f}  {:.2f}", names[i % 6], number, price / 100.0, number * price / 100.0));
  }
  draw_text(at("a.png"), table);
  const std::string upright = text_of(read({"a.png"}).at(0));
  for (int quarters = 1; quarters < 4; ++quarters) {
    turn("a.png", "b.png", quarters);
    EXPECT_EQ(text_of(read({"b.png"}).at(0)), upright) << quarters;
    EXPECT_EQ(summary_.turned_pages, 1U) << quarters;
  }
}

// A model sees the colours that transparent pixels have, so it gets what was read: letters on white paper.
TEST_F(Documents, TransparentPicturesAreWrittenOnWhite) {
  draw_text(at("a.png"), kInvoice);
  Pix* const drawn = pixRead(at("a.png").c_str());
  Pix* const gray = pixConvertTo8(drawn, 0);
  Pix* const black = pixCreate(pixGetWidth(drawn), pixGetHeight(drawn), 32);
  pixSetSpp(black, 4);
  pixInvert(gray, gray);
  pixSetRGBComponent(black, gray, L_ALPHA_CHANNEL);
  pixWrite(at("b.png").c_str(), black, IFF_PNG);
  for (Pix* each : {drawn, gray, black}) pixDestroy(&each);
  const auto pages = read({"b.png"});
  EXPECT_EQ(text_of(pages.at(0)), invoice());
  EXPECT_EQ(pages[0].image, at("images/b.png"));
  std::vector<std::uint8_t> row(3 * 900);
  open_image(pages[0].image)->next_row(row);
  EXPECT_EQ(row.front(), 255);
  EXPECT_EQ(read({"a.png"}).at(0).image, at("a.png"));
}

TEST_F(Documents, ABlockOfTextIsTurnedToo) {
  draw_text(at("a.png"), kInvoice);
  turn("a.png", "b.png", 3);
  EXPECT_EQ(text_of(read({"b.png"}, {.layout = TextLayout::kBlock}).at(0)), invoice());
  EXPECT_EQ(summary_.turned_pages, 1U);
}

// The orientation that a phone writes is followed, and the boxes are those of the picture as shown.
TEST_F(Documents, ExifOrientationIsFollowed) {
  draw_text(at("a.png"), kInvoice);
  turn("a.png", "b.jpg", 3);  // shown after a turn of 90 degrees clockwise: orientation 6
  std::string bytes;
  {
    std::ifstream file(at("b.jpg"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::string exif(
      "\xFF\xE1\0\x22"
      "Exif\0\0"
      "MM\0*\0\0\0\x08"
      "\0\x01"
      "\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"
      "\0\0\0\0",
      36);
  bytes.insert(2, exif);
  folder_.write("b.jpg", bytes);
  const auto pages = read({"b.jpg"});
  EXPECT_EQ(text_of(pages.at(0)), invoice());
  EXPECT_EQ(pages.at(0).width, 900);
  EXPECT_EQ(pages.at(0).image, at("b.jpg"));
  EXPECT_EQ(summary_.turned_pages, 0U);
}

TEST_F(Documents, TiffPagesBecomePicturesOfADocument) {
  for (int page = 0; page < 2; ++page) {
    draw_text(at("page.png"), {"This is page number " + std::to_string(page + 1), "of a scanned letter"});
    Pix* pix = pixRead(at("page.png").c_str());
    Pix* gray = pixConvertTo1(pix, 128);
    pixWriteTiff(at("letter.tif").c_str(), gray, IFF_TIFF_G4, page == 0 ? "w" : "a");
    pixDestroy(&pix);
    pixDestroy(&gray);
  }
  const auto pages = read({"letter.tif"});
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages[1].id, "letter-2");
  EXPECT_EQ(pages[1].document, "letter");
  EXPECT_EQ(pages[1].image, at("images/letter-2.png"));
  EXPECT_THAT(pages[1].words, Contains("2"));
  EXPECT_EQ(read_image_info(pages[1].image).width, 900);
  without_images_ = true;
  expect_error<UsageError>([&] { read({"letter.tif"}); }, {"--images", "letter.tif", "2 pages"});
}

class DocumentsOfPdf : public Documents, public testing::WithParamInterface<PdfReader> {
 protected:
  void SetUp() override {
    Documents::SetUp();
    if (!IsSkipped()) SKIP_WITHOUT_PDF_READER(GetParam());
  }
  test::PdfPython python_;
};

INSTANTIATE_TEST_SUITE_P(, DocumentsOfPdf, testing::Values(PdfReader::kPoppler, PdfReader::kPypdfium2),
                         test::name_of_reader);

// A scan with a page number or a stamp as text is a scan.
TEST_P(DocumentsOfPdf, StampedScansAreRead) {
  draw_pdf(at("scan.pdf"), {kInvoice}, true, "Page 1");
  const auto pages = read({"scan.pdf"}, {.pdf_reader = GetParam()});
  EXPECT_THAT(text_of(pages.at(0)), HasSubstr(invoice()));
  EXPECT_EQ(summary_.pages_with_own_text, 0U);
  // A page that has a few words and no more keeps them.
  draw_pdf(at("text.pdf"), {{"Page 1"}});
  EXPECT_EQ(text_of(read({"text.pdf"}, {.pdf_reader = GetParam()}).at(0)), "Page 1");
  EXPECT_EQ(summary_.pages_with_own_text, 1U);
}

TEST_P(DocumentsOfPdf, TheirTextIsTakenAndScansAreRead) {
  draw_pdf(at("text.pdf"), {kInvoice, {"second page"}});
  draw_pdf(at("scan.pdf"), {kInvoice}, true);
  const auto pages = read({"text.pdf", "scan.pdf"}, {.threads = 2, .pdf_reader = GetParam()});
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(text_of(pages[0]), invoice());
  EXPECT_EQ(pages[0].confidences.at(0), 1);
  EXPECT_EQ(pages[0].id, "text-1");
  EXPECT_EQ(text_of(pages[1]), "second page");
  EXPECT_EQ(pages[2].id, "scan");
  EXPECT_EQ(text_of(pages[2]), invoice());
  EXPECT_LT(pages[2].confidences.at(0), 1);
  EXPECT_EQ(summary_.pages_with_own_text, 2U);
  for (const DocumentPage& page : pages) {
    const ImageInfo info = read_image_info(page.image);
    EXPECT_EQ(info.width, page.width);
    EXPECT_EQ(info.height, page.height);
  }
  // The same words lie in the same places, whoever reads them.
  const auto drawn = read({"text.pdf"}, {.pdf_reader = GetParam(), .use_pdf_text = false});
  EXPECT_EQ(text_of(drawn.at(0)), invoice());
  for (int side = 0; side < 4; ++side) {
    EXPECT_NEAR(drawn[0].boxes[0][static_cast<std::size_t>(side)] / drawn[0].width,
                pages[0].boxes[0][static_cast<std::size_t>(side)] / pages[0].width, 0.01);
  }
}

TEST_F(Documents, AnEmptyPageHasNoWords) {
  draw_text(at("a.png"), {});
  const auto pages = read({"a.png"});
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_TRUE(pages[0].words.empty());
  EXPECT_EQ(summary_.pages_without_words, 1U);
}

TEST_F(Documents, ADamagedFileCostsThatFile) {
  draw_text(at("b.png"), {"a good page"});
  folder_.write("a.png", "\x89PNG\r\n\x1a\n and no more");
  folder_.write("c.png", "no picture at all");
  const auto pages = read({"a.png", "b.png", "c.png"});
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages[0].id, "b");
  ASSERT_EQ(summary_.unreadable.size(), 2U);
  EXPECT_THAT(summary_.unreadable[0].where, HasSubstr("a.png"));
}

TEST_F(Documents, NamesAreUnique) {
  std::filesystem::create_directories(at("x"));
  draw_text(at("a.png"), {"one"});
  draw_text(at("x/a.png"), {"two"});
  std::filesystem::create_directories(at("y"));
  draw_text(at("y/a.png"), {"three"});
  const auto pages = read({"a.png", "x/a.png", "y/a.png"});
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_NE(pages[0].id, pages[1].id);
  EXPECT_NE(pages[0].id, pages[2].id);
  EXPECT_NE(pages[1].id, pages[2].id);
}

TEST_F(Documents, UnsureWordsAreLeftOut) {
  draw_text(at("a.png"), kInvoice);
  EXPECT_TRUE(read({"a.png"}, {.min_confidence = 1}).at(0).words.size() < 10);
  EXPECT_GT(summary_.unsure_words, 10U);
}

TEST_F(Documents, LanguagesThatAreNotInstalledAreNamedWithTheirPackage) {
  expect_error<UsageError>([] { open_text_reader({.language = "eng+qqq_sim"}); },
                           {"eng+qqq_sim", "tesseract-ocr-qqq-sim", "--tessdata-dir", "eng"});
  expect_error<UsageError>([] { open_text_reader({.language = "../eng"}); }, {"../eng"});
  expect_error<UsageError>([] { open_text_reader({.language = ""}); }, {"--language"});
  const test::ScratchFolder empty;
  expect_error<UsageError>([&] { open_text_reader({.tessdata_dir = empty.path()}); }, {"none"});
  empty.write("eng.traineddata", "no data");
  expect_error<EnvironmentError>([&] { open_text_reader({.tessdata_dir = empty.path()}); }, {"eng"});
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// A page is read in one thread: as many pages as cores are read side by side.
TEST_F(Documents, AReaderStartsNoThreads) {
  draw_text(at("a.png"), kInvoice);
  const std::ptrdiff_t before = threads_of_this_process();
  read({"a.png"});
  EXPECT_LE(threads_of_this_process(), before);
}

TEST(FindDocuments, NamesWhatIsNotThere) {
  const test::ScratchFolder folder;
  expect_error<DataError>([&] { find_documents({(folder / "none").string()}); }, {"--input", "none"});
  expect_error<DataError>([&] { find_documents({folder.path().string()}); }, {"no documents", ".pdf"});
  expect_error<DataError>([&] { find_documents({folder.write("pages.jsonl", "{}").string()}); }, {"by --data"});
  for (const char* name : {"b.PNG", "a.jpeg", "c.txt", ".d.png"}) folder.write(name, "x");
  EXPECT_THAT(find_documents({folder.path().string()}), ElementsAre(folder / "a.jpeg", folder / "b.PNG"));
  // Scans in formats that are not read must not be missing without a word.
  folder.write("e.heic", "x");
  folder.write("f.GIF", "x");
  const test::LogCapture log;
  EXPECT_EQ(find_documents({folder.path().string()}).size(), 2U);
  EXPECT_THAT(log.text(), testing::HasSubstr("2 files of kinds that are not read (.gif, .heic) are left out"));
}

TEST(FindDocuments, TakesPatternsAndEachFileOnce) {
  const test::ScratchFolder folder;
  for (const char* name : {"a.png", "b.png", "c.pdf"}) folder.write(name, "x");
  const std::string pattern = (folder / "*.png").string();
  EXPECT_THAT(find_documents({pattern}), ElementsAre(folder / "a.png", folder / "b.png"));
  expect_error<DataError>([&] { find_documents({(folder / "*.jpg").string()}); }, {"no file matches", "*.jpg"});
  const test::LogCapture log;
  EXPECT_THAT(find_documents({(folder / "b.png").string(), folder.path().string(), pattern}),
              ElementsAre(folder / "b.png", folder / "a.png", folder / "c.pdf"));
  EXPECT_THAT(log.text(), testing::HasSubstr("2 files are named more than once"));
}

}  // namespace
}  // namespace plimsoll
