// What --fix repairs is valid afterwards; what it cannot repair, and what was valid, stays byte for byte.
#include "data/fixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "data/planted_faults.h"

namespace plimsoll {
namespace {

using namespace test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_text_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

class FixTest : public testing::Test {
 protected:
  FixTest() { folder_.write("page.ppm", page_picture()); }
  Findings check(const fs::path& path) { return check_pages(*open_pages(path, {}), {.places_kept = 1000}).findings; }
  ScratchFolder folder_;
};

TEST_F(FixTest, MendsWhatNeedsNoGuess) {
  Places places("fix");
  std::vector<Json> pages = clean_pages(places);
  const Json clean = pages[3];
  pages[0]["boxes"][5] = {60, 30, 10, 44};                // corners swapped
  pages[1]["boxes"][7] = {300, 76, kPageWidth + 1, 90};   // a pixel too far
  pages[1]["boxes"][8] = {-0.7, 76, 30, 90};              // less than a pixel too far
  pages[2]["boxes"][9] = {kPageWidth + 30, 76, 300, 90};  // too far for a certain repair
  for (Json& box : pages[3]["boxes"]) {
    for (std::size_t i = 0; i < 4; ++i) box[i] = box[i].get<double>() / (i % 2 == 0 ? kPageWidth : kPageHeight);
  }
  pages[4]["boxes"][0] = {50, kPageHeight + 1, 10, 570};  // two faults in one
  for (Json& box : pages[5]["boxes"])
    box = {box[0], box[1], box[2].get<int>() - box[0].get<int>(), 14};  // another order
  std::string text = "\n";
  for (std::size_t p = 0; p < 8; ++p) text += pages[p].dump() + (p == 6 ? "\r\n\n" : "\n");
  text += "{\"id\": \"cut";
  const fs::path data = folder_.write("data.jsonl", text), out = folder_.path() / "fixed.jsonl";
  const auto source = open_pages(data, {});
  const FixReport report = write_fixed(*source, BoxFormat::kPixel, out);

  EXPECT_EQ(report.pages, 4U);
  EXPECT_EQ(report.boxes, 4U + clean["boxes"].size());
  EXPECT_EQ(report.paths, 0U);
  const std::vector<std::string> before = lines_of(data), after = lines_of(out);
  ASSERT_EQ(after.size(), before.size());
  for (const std::size_t same : {0, 3, 6, 7, 8, 9, 10}) EXPECT_EQ(after[same], before[same]);
  EXPECT_EQ(read_text_file(out).back(), read_text_file(data).back());
  EXPECT_EQ(Json::parse(after[1])["boxes"][5], (Json{10, 30, 60, 44}));
  EXPECT_EQ(Json::parse(after[2])["boxes"][7], (Json{300, 76, kPageWidth, 90}));
  EXPECT_EQ(Json::parse(after[2])["boxes"][8], (Json{0, 76, 30, 90}));
  EXPECT_EQ(Json::parse(after[4]), clean);
  EXPECT_EQ(Json::parse(after[5])["boxes"][0], (Json{10, 570, 50, kPageHeight}));
  pages[0]["boxes"][5] = {10, 30, 60, 44};
  EXPECT_EQ(Json::parse(after[1]), pages[0]) << "nothing else changes";

  const std::vector<std::string> list = lines_of(report.list);
  EXPECT_EQ(list.size(), report.boxes);
  const Json first = Json::parse(list[0]);
  EXPECT_EQ(first["line"], 2);
  EXPECT_EQ(first["word"], 5);
  EXPECT_EQ(first["from"], (Json{60, 30, 10, 44}));
  EXPECT_EQ(first["to"], (Json{10, 30, 60, 44}));
  EXPECT_EQ(Json::parse(list.back())["kinds"], "box-inverted, box-outside");

  const Findings left = check(out);
  EXPECT_EQ(left.count("box-inverted"), 0U) << left.to_text();
  EXPECT_EQ(left.count("box-fractions"), 0U);
  EXPECT_EQ(left.count("box-outside"), 1U);
  EXPECT_EQ(left.count("box-order"), 1U);
  EXPECT_EQ(left.count("bad-json"), 1U);
}

TEST_F(FixTest, FindsPicturesFromAnotherFolder) {
  Places places("elsewhere");
  std::vector<Json> pages = clean_pages(places);
  std::string text = pages[0].dump() + "\n";
  const std::size_t at = text.find("\"height\":600");
  text.insert(at, "\"confidence\":NaN,");
  const auto source = open_pages(folder_.write("data.jsonl", text), {});
  fs::create_directories(folder_.path() / "a");
  const FixReport report = write_fixed(*source, BoxFormat::kPixel, folder_.path() / "a" / "fixed.jsonl");
  EXPECT_EQ(report.paths, 1U);
  EXPECT_EQ(report.boxes, 0U);
  EXPECT_EQ(check(folder_.path() / "a" / "fixed.jsonl").count(Severity::kError), 0U);
  EXPECT_THROW(write_fixed(*source, BoxFormat::kPixel, folder_.path() / "data.jsonl"), UsageError);
}

TEST_F(FixTest, MendsFunsdFolders) {
  const auto word = [](const char* text, Json box) { return Json{{"text", text}, {"box", std::move(box)}}; };
  const Json page = {{"form",
                      {{{"label", "header"},
                        {"box", {1, 2, 300, 20}},
                        {"words", {word("A", {1, 2, 40, 20}), word(" ", {0, 0, 0, 0}), word("B", {90, 2, 50, 20})}}}}}};
  folder_.write("funsd/annotations/p.json", page.dump());
  folder_.write("funsd/images/p.ppm", "");
  const std::string png = read_text_file(image_file("rgb.png"));
  folder_.write("funsd/images/p.png", png);
  Json large = page;
  large["form"][0]["words"][2]["box"] = {40, 2, 30, 20};
  folder_.write("funsd/annotations/p.json", large.dump());
  const auto source = open_pages(folder_.path() / "funsd", {});
  const FixReport report = write_fixed(*source, BoxFormat::kPixel, folder_.path() / "mended");
  EXPECT_EQ(report.boxes, 1U);
  const auto mended = open_pages(folder_.path() / "mended", {});
  EXPECT_EQ(mended->read(0).boxes[1], (Box{30, 2, 40, 20}));
  EXPECT_EQ(check(folder_.path() / "mended").count(Severity::kError), 0U);
}

}  // namespace
}  // namespace plimsoll
