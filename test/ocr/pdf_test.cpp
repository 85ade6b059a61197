// PDF files through Poppler's programs, and the programs that are run for them.
#include "ocr/pdf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>

#include "base/child_process.h"
#include "ocr/picture.h"
#include "support/drawn_text.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using test::expect_error;

// Sets PATH while it lives.
class PathOf {
 public:
  explicit PathOf(const std::string& value) : before_(std::getenv("PATH")) { ::setenv("PATH", value.c_str(), 1); }
  ~PathOf() { ::setenv("PATH", before_.c_str(), 1); }
  PathOf(const PathOf&) = delete;
  PathOf& operator=(const PathOf&) = delete;

 private:
  std::string before_;
};

#define SKIP_WITHOUT_POPPLER()                                                                     \
  for (const char* name : {"pdfinfo", "pdftotext", "pdftoppm"}) {                                  \
    if (!find_program(name)) GTEST_SKIP() << name << " is missing: apt-get install poppler-utils"; \
  }

TEST(ChildProcess, IsLookedForInAbsoluteDirectoriesOfPath) {
  const test::ScratchFolder folder;
  folder.write("tool", "#!/bin/sh\n");
  {
    const PathOf path(folder.path().string());
    EXPECT_EQ(find_program("tool"), std::nullopt) << "it cannot be executed";
    ::chmod((folder / "tool").c_str(), 0755);
    EXPECT_EQ(find_program("tool"), folder / "tool");
  }
  const PathOf path(".:relative");
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

TEST(PdfFile, GivesItsWordsAndAPictureThatFitsThem) {
  SKIP_WITHOUT_POPPLER();
  const test::ScratchFolder folder;
  test::draw_pdf(folder / "-a b.pdf", {{"Invoice 4711", "TOTAL 12.50"}, {"second page"}});
  const PdfFile file(folder / "-a b.pdf");
  ASSERT_EQ(file.pages(), 2);
  const PdfText text = file.read_text(0);
  ASSERT_EQ(text.words.size(), 4U);
  EXPECT_EQ(text.words[0].text, "Invoice");
  EXPECT_EQ(text.words[3].text, "12.50");
  EXPECT_EQ(file.read_text(1).words.at(0).text, "second");
  file.write_picture(0, 72, folder / "a.png");
  const Picture picture = open_picture(folder / "a.png");
  EXPECT_NEAR(picture.width(), text.width, 1);
  EXPECT_NEAR(picture.height(), text.height, 1);
}

TEST(PdfFile, DamagedAndMissingFilesAreNamed) {
  SKIP_WITHOUT_POPPLER();
  const test::ScratchFolder folder;
  folder.write("a.pdf", "%PDF-1.7\nnothing follows");
  expect_error<DataError>([&] { PdfFile(folder / "a.pdf"); }, {"a.pdf", "cannot be read"});
  expect_error<DataError>([&] { PdfFile(folder / "none.pdf"); }, {"none.pdf"});
}

TEST(PdfFile, MissingProgramsAreNamedWithTheirPackage) {
  const test::ScratchFolder folder;
  const PathOf path(folder.path().string());
  expect_error<EnvironmentError>([&] { PdfFile(folder / "a.pdf"); }, {"pdftotext", "poppler-utils"});
  EXPECT_THAT(describe_pdf_reader(), testing::HasSubstr("poppler-utils"));
}

TEST(PdfFile, APasswordIsAskedForInAMessage) {
  const test::ScratchFolder folder;
  for (const char* name : {"pdfinfo", "pdftotext", "pdftoppm"}) {
    folder.write(name, "#!/bin/sh\necho 'Command Line Error: Incorrect password' >&2\nexit 1\n");
    ::chmod((folder / name).c_str(), 0755);
  }
  folder.write("a.pdf", "%PDF-1.7\n");
  const PathOf path(folder.path().string());
  expect_error<DataError>([&] { PdfFile(folder / "a.pdf"); }, {"a.pdf", "encrypted", "qpdf"});
}

}  // namespace
}  // namespace plimsoll
