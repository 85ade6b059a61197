// PDF files through Poppler's programs and pypdfium2, and the programs that are run for them.
#include "ocr/pdf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>

#include "base/child_process.h"
#include "base/file.h"
#include "ocr/picture.h"
#include "support/drawn_text.h"
#include "support/expect_error.h"
#include "support/pdf_readers.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using test::expect_error;
using test::PdfPython;
using test::Variable;

TEST(ChildProcess, IsLookedForInAbsoluteDirectoriesOfPath) {
  const test::ScratchFolder folder;
  folder.write("tool", "#!/bin/sh\n");
  {
    const Variable path("PATH", folder.path().string());
    EXPECT_EQ(find_program("tool"), std::nullopt) << "it cannot be executed";
    ::chmod((folder / "tool").c_str(), 0755);
    EXPECT_EQ(find_program("tool"), folder / "tool");
  }
  const Variable path("PATH", ".:relative");
  EXPECT_EQ(find_program("tool"), std::nullopt);
}

TEST(PdfText, IsReadWithItsEntities) {
  const PdfText text = parse_pdf_text(
      "<html><doc><page width=\"595.0\" height=\"842.0\">\n"
      "<word xMin=\"10.5\" yMin=\"20\" xMax=\"30\" yMax=\"25.25\">A&amp;B&#x41;&lt;&quot;</word>\n"
      "<word xMin=\"1\" yMin=\"2\" xMax=\"x\" yMax=\"4\">broken</word>\n"
      "<word xMin=\"1\" yMin=\"2\" xMax=\"3\" yMax=\"4\"> </word></page></doc></html>");
  EXPECT_EQ(text.width, 595);
  EXPECT_EQ(text.height, 842);
  ASSERT_EQ(text.words.size(), 1U);
  EXPECT_EQ(text.words[0].text, "A&BA<\"");
  EXPECT_EQ(text.words[0].box, (Box{10.5, 20, 30, 25.25}));
  EXPECT_FALSE(text.is_garbled);
  EXPECT_TRUE(parse_pdf_text("nothing of the kind").words.empty());
}

TEST(PdfText, LettersWithoutMeaningAreNoText) {
  std::string page = "<page width=\"1\" height=\"1\">";
  for (int i = 0; i < 9; ++i) {
    page += "<word xMin=\"0\" yMin=\"0\" xMax=\"1\" yMax=\"1\">\xEF\x80\xA5\xEF\xBF\xBD</word>";
  }
  EXPECT_TRUE(parse_pdf_text(page).is_garbled);
}

// A PDF file that needs a password: the keys in it are of no password at all.
std::string encrypted_pdf() {
  const std::string key = "<" + std::string(64, '5') + ">";
  return "%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n"
         "2 0 obj\n<</Type/Pages/Kids[3 0 R]/Count 1>>\nendobj\n"
         "3 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 100 100]>>\nendobj\n"
         "4 0 obj\n<</Filter/Standard/V 1/R 2/P -4/O " +
         key + "/U " + key +
         ">>\nendobj\n"
         "trailer\n<</Size 5/Root 1 0 R/Encrypt 4 0 R/ID[<00><00>]>>\n%%EOF\n";
}

class PdfFiles : public testing::TestWithParam<PdfReader> {
 protected:
  void SetUp() override { SKIP_WITHOUT_PDF_READER(GetParam()); }
  PdfFile open(const std::string& name) const { return PdfFile(folder_ / name, find_pdf_programs(GetParam())); }

  PdfPython python_;
  test::ScratchFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(, PdfFiles, testing::Values(PdfReader::kPoppler, PdfReader::kPypdfium2), test::name_of_reader);

TEST_P(PdfFiles, GiveTheirWordsAndAPictureThatFitsThem) {
  test::draw_pdf(folder_ / "-a b.pdf", {{"Invoice <4711> & Co", "TOTAL 12.50 \u20AC"}, {"second page"}});
  const PdfFile file = open("-a b.pdf");
  ASSERT_EQ(file.pages(), 2);
  const PdfText text = file.read_text(0);
  std::vector<std::string> words;
  for (const PdfWord& word : text.words) words.push_back(word.text);
  EXPECT_THAT(words, testing::ElementsAre("Invoice", "<4711>", "&", "Co", "TOTAL", "12.50", "\u20AC"));
  EXPECT_FALSE(text.is_garbled);
  EXPECT_NEAR(text.width, 595, 1);
  EXPECT_NEAR(text.height, 842, 1);
  // Letters of 14 points begin at 28 points, on the baselines 42 and 70.
  const Box first = text.words.at(0).box, total = text.words.at(4).box;
  EXPECT_NEAR(first[0], 28, 3);
  EXPECT_NEAR(first[3], 44, 3);
  EXPECT_NEAR(first[3] - first[1], 15, 4);
  EXPECT_NEAR(total[0], 28, 3);
  EXPECT_NEAR(total[3], 72, 3);
  EXPECT_EQ(file.read_text(1).words.at(0).text, "second");
  file.write_picture(0, 144, folder_ / "a.png");
  const Picture picture = open_picture(folder_ / "a.png");
  EXPECT_NEAR(picture.width(), 2 * text.width, 2);
  EXPECT_NEAR(picture.height(), 2 * text.height, 2);
  EXPECT_NEAR(picture.dpi(), 144, 1);
}

TEST_P(PdfFiles, ThatAreDamagedOrMissingAreNamed) {
  folder_.write("a.pdf", "%PDF-1.7\nnothing follows");
  expect_error<DataError>([&] { open("a.pdf"); }, {"a.pdf", "cannot be read"});
  expect_error<DataError>([&] { open("none.pdf"); }, {"none.pdf"});
}

TEST_P(PdfFiles, WithAPasswordAreNamed) {
  folder_.write("a.pdf", encrypted_pdf());
  expect_error<DataError>([&] { open("a.pdf"); }, {"a.pdf", "encrypted", "qpdf"});
}

// Words lie where the page shows them, not where it was written.
TEST(PdfFile, MayBeTurnedAndCroppedForPypdfium2) {
  const PdfPython python;
  SKIP_WITHOUT_PDF_READER(PdfReader::kPypdfium2);
  const test::ScratchFolder folder;
  test::draw_pdf(folder / "a.pdf", {{"Invoice 4711"}});
  std::string bytes = read_text_file(folder / "a.pdf");
  const std::size_t at = bytes.find("/MediaBox");
  ASSERT_NE(at, std::string::npos);
  bytes.insert(at, "/Rotate 90 /CropBox [ 20 700 320 842 ] ");
  folder.write("b.pdf", bytes);
  const PdfFile file(folder / "b.pdf", find_pdf_programs(PdfReader::kPypdfium2));
  file.write_picture(0, 72, folder / "b.png");
  const Picture picture = open_picture(folder / "b.png");
  EXPECT_NEAR(picture.width(), 142, 1);
  EXPECT_NEAR(picture.height(), 300, 1);
  // The line runs from top to bottom now, at the right edge, with its baseline 42 points from it.
  const PdfText text = file.read_text(0);
  EXPECT_NEAR(text.width, 142, 1);
  const Box box = text.words.at(0).box;
  EXPECT_GT(box[3] - box[1], box[2] - box[0]);
  EXPECT_NEAR(box[1], 28 - 20, 3);
  EXPECT_NEAR(box[0], 142 - 44, 3);
}

// What is outside the crop box is not shown, and not read.
TEST_P(PdfFiles, AreCroppedAsTheyAreShown) {
  test::draw_pdf(folder_ / "a.pdf", {{"Invoice 4711", "below"}});
  std::string bytes = read_text_file(folder_ / "a.pdf");
  const std::size_t at = bytes.find("/MediaBox");
  ASSERT_NE(at, std::string::npos);
  bytes.insert(at, "/CropBox [ 20 790 320 842 ] ");
  folder_.write("b.pdf", bytes);
  const PdfFile file = open("b.pdf");
  const PdfText text = file.read_text(0);
  EXPECT_NEAR(text.width, 300, 1);
  EXPECT_NEAR(text.height, 52, 1);
  EXPECT_NEAR(text.words.at(0).box[0], 28 - 20, 3);
  std::size_t shown = 0;
  for (const PdfWord& word : text.words) shown += word.box[1] < text.height ? 1 : 0;
  EXPECT_EQ(shown, 2U);
  file.write_picture(0, 72, folder_ / "b.png");
  EXPECT_NEAR(open_picture(folder_ / "b.png").width(), 300, 1);
}

TEST(PdfPrograms, AreNamedWithTheirPackagesWhereTheyAreMissing) {
  const test::ScratchFolder folder;
  const Variable path("PATH", folder.path().string());
  const Variable python("PLIMSOLL_PDF_PYTHON", "");
  const auto find = [](PdfReader reader) { return [reader] { find_pdf_programs(reader); }; };
  expect_error<EnvironmentError>(find(PdfReader::kAuto),
                                 {"pdfinfo", "python3", "apt-get install poppler-utils", "pip install pypdfium2"});
  expect_error<EnvironmentError>(find(PdfReader::kPoppler), {"pdfinfo", "apt-get install poppler-utils"});
  expect_error<EnvironmentError>(find(PdfReader::kPypdfium2), {"python3", "pip install pypdfium2"});
  EXPECT_THAT(describe_pdf_reader(), testing::AllOf(testing::HasSubstr("poppler-utils"), testing::HasSubstr("pip")));
  // A Python without the package says so itself.
  folder.write("python3", "#!/bin/sh\necho Traceback >&2\necho 'ModuleNotFoundError: plimsoll' >&2\nexit 1\n");
  ::chmod((folder / "python3").c_str(), 0755);
  expect_error<EnvironmentError>(find(PdfReader::kAuto), {"pdfinfo", "ModuleNotFoundError: plimsoll"});
}

TEST(PdfPrograms, PopplersComeFirstAndPypdfium2TakesTheirPlace) {
  const PdfPython python;
  SKIP_WITHOUT_PDF_READER(PdfReader::kPypdfium2);
  const test::ScratchFolder folder;
  const Variable path("PATH", folder.path().string());
  for (const char* name : {"pdfinfo", "pdftotext", "pdftoppm"}) {
    EXPECT_THAT(find_pdf_programs(PdfReader::kAuto).description(), testing::StartsWith("pypdfium2 ")) << name;
    folder.write(name, "#!/bin/sh\nexit 0\n");
    ::chmod((folder / name).c_str(), 0755);
  }
  EXPECT_THAT(find_pdf_programs(PdfReader::kAuto).description(), testing::HasSubstr("Poppler"));
  EXPECT_THAT(find_pdf_programs(PdfReader::kPypdfium2).description(), testing::StartsWith("pypdfium2 "));
}

// A module of the same name in the folder where the user happens to be is not run.
TEST(PdfPrograms, TakeNoModuleFromTheCurrentFolder) {
  const PdfPython python;
  SKIP_WITHOUT_PDF_READER(PdfReader::kPypdfium2);
  const test::ScratchFolder folder;
  folder.write("pypdfium2.py", "raise SystemExit('the wrong module')\n");
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_NO_THROW(find_pdf_programs(PdfReader::kPypdfium2));
  std::filesystem::current_path(here);
}

TEST(PdfSizes, AreThoseOfWhatIsDrawn) {
  const std::string info =
      "Title: Page 2 size: 1 x 1 pts\nPages:           3\nPage    1 size:  595.276 x 841.89 pts (A4)\n"
      "Page    1 rot:   0\nPage    2 size:  72 x 72 pts\n"
      "Page    2 MediaBox:     0.00     10.00   595.00   852.00\n"
      "Page    2 CropBox:      0.00     0.00   72.00   72.00\nPage    9 size: 5 x 5 pts\n";
  const std::vector<PdfSize> sizes = parse_pdf_sizes(info, 3);
  ASSERT_EQ(sizes.size(), 3U);
  EXPECT_EQ(sizes[0].width, 595.276);
  EXPECT_EQ(sizes[0].height, 841.89);
  EXPECT_EQ(sizes[1].width, 595);
  EXPECT_EQ(sizes[1].height, 842);
  EXPECT_EQ(sizes[2].width, 0);
}

}  // namespace
}  // namespace plimsoll
