// `plimsoll ocr` and `predict --input`, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <leptonica/allheaders.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/child_process.h"
#include "cli/program_fixture.h"
#include "support/drawn_text.h"
#include "support/text_reader.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Ocr : public ProgramTest {
 protected:
  void SetUp() override { SKIP_WITHOUT_TEXT_READER(); }
  static std::vector<json> lines_of(const std::string& text) {
    std::vector<json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

TEST_F(Ocr, ReadsWithinABudget) {
  fs::create_directories(at("scans"));
  for (const char* name : {"scans/a.png", "scans/b.png"}) draw_text(at(name), {"Greenburg Services", "TOTAL 12.50"});
  const auto read = [this](const Arguments& more) {
    Arguments all = {"ocr", "--input", path("scans"), "--output", path("pages.jsonl"), "--threads", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  ASSERT_EQ(read({}).code, 0);
  const std::string expected = file_bytes(at("pages.jsonl"));
  const Outcome refused = read({"--budget", "30MiB", "--json"});
  EXPECT_EQ(refused.code, 4);
  const json error = json::parse(refused.out).at("error");
  EXPECT_THAT(error.at("found").get<std::string>(), HasSubstr("scans/"));
  const std::uint64_t smallest = error.at("smallest_budget_bytes");
  const Outcome small = read({"--budget", std::to_string(smallest >> 20) + "MiB"});
  ASSERT_EQ(small.code, 0) << small.err;
  EXPECT_THAT(small.err, HasSubstr("reading 1 page at once instead of 2"));
  EXPECT_EQ(file_bytes(at("pages.jsonl")), expected);
}

// A page that cannot be read leaves its place in the document.
TEST_F(Ocr, PagesBehindOneThatIsBrokenKeepTheirNumbers) {
  std::vector<std::size_t> ends;
  for (int page = 0; page < 3; ++page) {
    draw_text(at("page.png"), {"TOTAL 12.5" + std::to_string(page)});
    Pix* pix = pixRead(path("page.png").c_str());
    Pix* gray = pixConvertTo8(pix, 0);
    pixWriteTiff(path("three.tif").c_str(), gray, IFF_TIFF_ZIP, page == 0 ? "w" : "a");
    pixDestroy(&pix);
    pixDestroy(&gray);
    ends.push_back(file_bytes(at("three.tif")).size());
  }
  std::string bytes = file_bytes(at("three.tif"));
  for (std::size_t i = ends[0]; i < ends[0] + 40; ++i) bytes[i] = '\x55';  // the second page's data
  write_bytes(at("three.tif"), bytes);
  draw_pages();
  make_model();
  const Outcome outcome =
      run({"predict", "--model", path("model"), "--input", path("three.tif"), "--output", path("found.jsonl")});
  ASSERT_EQ(outcome.code, 3) << outcome.err;
  const std::vector<json> found = lines_of(file_bytes(at("found.jsonl")));
  ASSERT_EQ(found.size(), 1U);
  const json& pages = found[0].at("pages");
  ASSERT_EQ(pages.size(), 3U) << outcome.err;
  EXPECT_EQ(pages[0].at("id"), "three-1");
  EXPECT_TRUE(pages[1].is_null());
  EXPECT_EQ(pages[2].at("id"), "three-3");
}

TEST_F(Ocr, WritesPagesThatOtherCommandsRead) {
  fs::create_directories(at("scans"));
  draw_text(at("scans/a.png"), {"Greenburg Services", "TOTAL 12.50"});
  draw_text(at("scans/b.png"), {});
  const Outcome outcome = run({"ocr", "--input", path("scans"), "--output", path("found/pages.jsonl")});
  EXPECT_EQ(outcome.code, 5) << "a folder is not made for --output";
  fs::create_directories(at("found"));
  const Outcome read = run({"ocr", "--input", path("scans"), "--output", path("found/pages.jsonl"), "--threads", "2"});
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("2 pages, 4 words"));
  EXPECT_THAT(read.err, HasSubstr("1 page has no words"));
  const std::vector<json> pages = lines_of(file_bytes(at("found/pages.jsonl")));
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages[0].at("words"), json({"Greenburg", "Services", "TOTAL", "12.50"}));
  EXPECT_EQ(pages[0].at("image"), path("scans/a.png")) << "as --input was typed";
  EXPECT_EQ(pages[0].at("width"), 900);
  EXPECT_EQ(pages[0].at("boxes").size(), 4U);
  EXPECT_EQ(pages[0].at("confidences").size(), 4U);
  EXPECT_EQ(pages[1].at("words"), json::array());
  EXPECT_FALSE(fs::exists(at("found/pages.jsonl.images"))) << "no picture had to be written";
  // From elsewhere, the image is named from the output's folder.
  const fs::path here = fs::current_path();
  fs::current_path(at(""));
  const Outcome relative =
      run({"ocr", "--input", "scans", "--output", "found/pages.jsonl", "--word-order", "columns", "--drop-specks"});
  fs::current_path(here);
  ASSERT_EQ(relative.code, 0) << relative.err;
  EXPECT_EQ(lines_of(file_bytes(at("found/pages.jsonl"))).at(0).at("image"), "../scans/a.png");
  const Outcome piped = run({"ocr", "--input", path("scans/a.png"), "--output", "-", "--json"});
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(lines_of(piped.out).at(0).at("words").size(), 4U);
}

TEST_F(Ocr, SaysWhatItCannotRead) {
  draw_text(at("a.png"), {"Greenburg Services"});
  write_bytes(at("b.png"), "no picture");
  const Arguments both = {"ocr", "--input", path("a.png"), path("b.png"), "--output", path("out.jsonl"), "--json"};
  const Outcome outcome = run(both);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("b.png"));
  EXPECT_EQ(json::parse(outcome.out).at("unreadable").size(), 1U);
  EXPECT_EQ(lines_of(file_bytes(at("out.jsonl"))).size(), 1U);
  fs::remove(at("out.jsonl"));
  expect_message(run({"ocr", "--input", path("b.png"), "--output", path("out.jsonl")}), 3, {"b.png"});
  EXPECT_FALSE(fs::exists(at("out.jsonl")));
  expect_message(run({"ocr", "--input", path("none"), "--output", path("out.jsonl")}), 3, {"--input", "none"});
  expect_message(run({"ocr", "--input", path("a.png"), "--output", path("o"), "--language", "qqq"}), 2,
                 {"--language", "qqq", "tesseract-ocr-qqq"});
  expect_message(run({"ocr", "--input", path("a.png"), "--output", path("a.png")}), 2, {"--output", "overwrite"});
  EXPECT_EQ(run({"ocr", "--output", path("o")}).code, 2);
}

TEST_F(Ocr, CtrlCLeavesNoHalfFile) {
  fs::create_directories(at("scans"));
  draw_text(at("scans/0.png"), {"Greenburg Services"});
  for (int i = 1; i < 300; ++i) fs::copy_file(at("scans/0.png"), at("scans/" + std::to_string(i) + ".png"));
  Process process({"ocr", "--input", path("scans"), "--output", path("out.jsonl"), "--threads", "1"}, at("ocr"));
  while (!fs::exists(at("out.jsonl.plimsoll.tmp"))) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait().code, 128 + SIGINT);
  EXPECT_FALSE(fs::exists(at("out.jsonl")));
  EXPECT_FALSE(fs::exists(at("out.jsonl.plimsoll.tmp")));
}

TEST_F(Ocr, ScansGoInAndFieldsComeOut) {
  draw_pages();
  make_model();
  const std::string picture = read_pages("validation.jsonl").at(0).at("image");
  const Arguments predict = {"predict", "--model", path("model"), "--budget", "1GiB", "--threads", "1"};
  const auto with = [&predict, this](const Arguments& more) {
    Arguments all = predict;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Outcome lines = with({"--input", path("pages/" + picture)});
  ASSERT_EQ(lines.code, 0) << lines.err;
  const json page = lines_of(lines.out).at(0);
  EXPECT_GT(page.at("words").size(), 5U);
  EXPECT_EQ(page.at("labels").size(), page.at("words").size());
  EXPECT_EQ(page.at("image"), path("pages/" + picture));
  const Outcome list = with({"--input", path("pages/" + picture), "--format", "json", "--output", path("out.json")});
  ASSERT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(json::parse(file_bytes(at("out.json"))).at(0).at("words"), page.at("words"));
  const Outcome table = with({"--input", path("pages/" + picture), "--format", "csv"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, testing::StartsWith("document,id,page,label,text,confidence,x0,y0,x1,y1\n"));
  const auto rows = static_cast<std::size_t>(std::count(table.out.begin(), table.out.end(), '\n')) - 1;
  EXPECT_GE(rows, page.at("fields").size());
  expect_message(with({}), 2, {"--data, --input", "neither"});
  expect_message(with({"--input", path("pages/" + picture), "--data", path("pages/validation.jsonl")}), 2, {"both"});
}

TEST_F(Ocr, ADocumentBecomesOneLineWithItsPictures) {
  for (const char* name : {"pdfinfo", "pdftotext", "pdftoppm"}) {
    if (!find_program(name)) GTEST_SKIP() << name << " is missing: apt-get install poppler-utils";
  }
  make_model();
  draw_pdf(at("contract.pdf"), {{"Greenburg Services", "TOTAL 12.50"}, {"the second page"}});
  const auto predict = [this](const std::string& output) {
    return run({"predict", "--model", path("model"), "--input", path("contract.pdf"), "--output", output});
  };
  const Outcome outcome = predict(path("out.jsonl"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json document = lines_of(file_bytes(at("out.jsonl"))).at(0);
  EXPECT_EQ(document.at("document"), "contract");
  ASSERT_EQ(document.at("pages").size(), 2U);
  EXPECT_EQ(document.at("pages")[0].at("words").size(), 4U);
  EXPECT_EQ(document.at("pages")[0].at("image"), "out.jsonl.images/contract-1.png");
  EXPECT_TRUE(fs::exists(at("out.jsonl.images/contract-2.png")));
  const Outcome piped = predict("-");
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_FALSE(lines_of(piped.out).at(0).at("pages")[0].contains("image")) << "it is gone with the run";
  expect_message(run({"ocr", "--input", path("contract.pdf"), "--output", "-"}), 2, {"--images", "contract.pdf"});
}

TEST(OcrVersion, SaysWhatIsBuiltIn) {
  ScratchFolder folder;
  const Outcome outcome = Process({"--version"}, folder.path() / "log").wait();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::StartsWith("plimsoll "));
  EXPECT_THAT(outcome.out, HasSubstr("\nOCR: "));
  EXPECT_THAT(outcome.out, HasSubstr("\nPDF: "));
}

}  // namespace
}  // namespace plimsoll::test
