// Damaged and foreign files are refused with their place, and nothing is left of an output.
#include "convert/evidence.h"
#include "convert/json_node.h"
#include "convert/rectangle.h"
#include "convert/xml.h"
#include "convert_fixture.h"

namespace plimsoll::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Refusal : public ConvertTest {};

TEST_F(Refusal, UnknownFiles) {
  EXPECT_THAT(refused(file("a.json", R"({"weights": [1, 2]})")).found, HasSubstr("\"weights\""));
  EXPECT_THAT(refused(file("a.xml", "<svg/>")).found, HasSubstr("<svg>"));
  EXPECT_THAT(refused(file("a.txt", "some text")).allowed, HasSubstr("alto"));
  EXPECT_THAT(refused(file("a.txt", "")).found, HasSubstr("empty"));
  EXPECT_THROW(pages(at("nowhere.json")), DataError);
}

// XML may be in UTF-16, by either order of bytes.
TEST(LookAt, KnowsXmlInUtf16) {
  const ScratchFolder folder;
  for (const bool little : {false, true}) {
    std::string bytes = little ? "\xFF\xFE" : "\xFE\xFF";
    for (const char c : std::string_view("<?xml version='1.0'?><alto/>")) {
      bytes += little ? std::string{c, '\0'} : std::string{'\0', c};
    }
    EXPECT_EQ(look_at(folder.write("a.xml", bytes)).root, "alto");
    EXPECT_EQ(look_at(folder.write("a.xml", bytes.substr(0, bytes.size() - 1))).root, "alto");  // a part of a character
  }
}

TEST_F(Refusal, EverySampleThatIsCut) {
  for (const char* name :
       {"alto.xml", "azure.json", "azure-read.json", "azure-image.json", "cord.json", "documentai.json", "funsd.json",
        "label-studio.json", "page.xml", "scan.hocr", "textract.json", "vision.json", "vision-file.json"}) {
    const std::string whole = text_of(sample(name));
    for (const double share : {0.5, 0.75, 0.95}) {
      const fs::path cut =
          file(name, whole.substr(0, static_cast<std::size_t>(share * static_cast<double>(whole.size()))));
      EXPECT_THAT(refused(cut).where, HasSubstr(name)) << share;
    }
  }
}

TEST_F(Refusal, JsonOfAnotherKindThanFromSays) {
  for (const char* format :
       {"textract", "azure", "google-vision", "document-ai", "cord", "funsd", "xfund", "pages", "label-studio"}) {
    EXPECT_THAT(refused(file("x.json", R"({"a": 1})"), {.from = format}).where, HasSubstr("x.json")) << format;
    EXPECT_THAT(refused(file("x.json", "[[[]]]"), {.from = format}).where, HasSubstr("x.json")) << format;
    EXPECT_THAT(refused(file("x.json", "7"), {.from = format}).where, HasSubstr("x.json")) << format;
  }
  for (const char* format : {"alto", "hocr", "page-xml", "tesseract"}) {
    EXPECT_THAT(refused(file("x.json", R"({"a": 1})"), {.from = format}).where, HasSubstr("x.json")) << format;
    EXPECT_THAT(refused(file("x.xml", "<a/>"), {.from = format}).where, HasSubstr("x.xml")) << format;
  }
  EXPECT_THAT(refused(file("x.json", "{}"), {.from = "word"}).allowed, HasSubstr("textract"));
}

TEST_F(Refusal, TablesThatAreNotTesseracts) {
  const std::string header = "level\tpage_num\tleft\ttop\twidth\theight\tconf\ttext\n";
  EXPECT_THAT(refused(file("a.tsv", "level\tpage_num\ttext\n")).found, HasSubstr("no column left"));
  EXPECT_THAT(refused(file("a.tsv", header + "5\t1\tx\t0\t0\t0\t9\tw\n")).where, HasSubstr("a.tsv:2"));
  EXPECT_THAT(refused(file("a.tsv", header)).found, HasSubstr("header alone"));
  EXPECT_THAT(refused(file("a.tsv", header + "1\t2\t0\t0\t9\t9\t-1\t\n1\t1\t0\t0\t9\t9\t-1\t\n")).what,
              HasSubstr("not in order"));
}

TEST_F(Refusal, TextThatIsNotUtf8) {
  const Problem problem = refused(file(
      "a.hocr",
      "<html><div class='ocr_page' title='bbox 0 0 9 9'><span class='ocrx_word' title='bbox 0 0 9 9'>caf\xE9</span>"
      "</div></html>"));
  EXPECT_THAT(problem.found, HasSubstr("byte 0xe9"));
  // The same byte is right where the file names its encoding.
  EXPECT_EQ(pages(file("b.hocr",
                       "<?xml version='1.0' encoding='ISO-8859-1'?><html><div class='ocr_page' title='bbox 0 0 9 "
                       "9'><span class='ocrx_word' title='bbox 0 0 9 9'>caf\xE9</span></div></html>"))[0]["words"],
            json{"café"});
}

// An entity means the same character in every encoding.
TEST_F(Refusal, EntitiesOfXhtmlInLatin1) {
  for (const char* encoding : {"ISO-8859-1", "UTF-8", "windows-1252"}) {
    const fs::path path = file("e.hocr", std::string("<?xml version='1.0' encoding='") + encoding +
                                             "'?><html><div class='ocr_page' title='bbox 0 0 9 9'><span "
                                             "class='ocrx_word' title='bbox 0 0 9 9'>M&uuml;ller&euro;&amp;</span>"
                                             "</div></html>");
    EXPECT_EQ(pages(path)[0]["words"], json{"Müller€&"}) << encoding;
  }
}

TEST_F(Refusal, AFileThatIsNamedTwiceIsReadOnce) {
  const fs::path path = sample("azure-read.json");
  const std::size_t once = convert_inputs({path.string()}).size();
  EXPECT_EQ(convert_inputs({path.string(), at("*.json").string(), at(".").string()}).size(), once);
  EXPECT_THAT(said_, HasSubstr("named more than once"));
}

TEST_F(Refusal, NamesOfFilesThatAreNotUtf8) {
  EXPECT_THAT(refused(file("caf\xE9.json", text_of(sample("azure-read.json")))).what, HasSubstr("not UTF-8"));
}

TEST_F(Refusal, XmlOfHostileDepthAndEntities) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<a>";
  for (int i = 0; i < 100000; ++i) deep += "</a>";
  EXPECT_THAT(refused(file("deep.xml", "<alto>" + deep + "</alto>")).what, HasSubstr("deeper"));
  // An entity that the file declares is not resolved, and no other file is read.
  const fs::path secret = file("secret.txt", "SECRET");
  const std::vector<json> found = pages(
      file("e.hocr", "<!DOCTYPE html [<!ENTITY x SYSTEM \"file://" + secret.string() +
                         "\">]><html><div class='ocr_page' "
                         "title='bbox 0 0 9 9'><span class='ocrx_word' title='bbox 0 0 9 9'>&x;</span></div></html>"));
  EXPECT_EQ(found[0]["words"], json{"&x;"});
  EXPECT_THAT(refused(file("deep.json", "{\"Blocks\": " + std::string(1000, '[') + std::string(1000, ']') + "}")).what,
              HasSubstr("nests deeper"));
}

TEST_F(Refusal, AMissingPictureWhereAFolderIsNamed) {
  fs::create_directories(at("scans"));
  EXPECT_THAT(refused(sample("scan.tsv"), {.images = at("scans")}).what, HasSubstr("picture of a page is not found"));
}

TEST_F(Refusal, AnOutputThatIsAPagesPicture) {
  picture("scan.pgm", 640, 480);
  ConvertOptions options{.inputs = {sample("scan.tsv")}, .output = at("scan.pgm")};
  EXPECT_THROW(convert(options), UsageError);
  EXPECT_THAT(text_of(at("scan.pgm")), HasSubstr("P5"));
}

TEST(JsonNodes, NameTheirPlace) {
  const json value = {{"Blocks", {{{"Text", 7}}}}};
  const std::string name = "r.json";
  const JsonNode root(value, name);
  try {
    root.at("Blocks").item(0).at("Text").text();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.problem().where, "r.json, Blocks[0].Text");
    EXPECT_EQ(error.problem().found, "7");
  }
}

TEST(JsonItems, AreTakenOneByOne) {
  const auto texts = [](std::string_view text) {
    std::vector<std::string> found;
    for (const JsonItem& item : list_items(text))
      found.emplace_back(std::to_string(item.line) + std::string(item.text));
    return found;
  };
  EXPECT_THAT(texts("[{\"a\": \"],\"},\n [1, 2] ]"), ElementsAre("1{\"a\": \"],\"}", "2[1, 2]"));
  EXPECT_THAT(texts("{\"a\": 1}"), ElementsAre("1{\"a\": 1}"));
  EXPECT_THAT(texts("[1, {"), ElementsAre("11", "1{"));
  EXPECT_THAT(texts("[1] x"), ElementsAre("11", "1x"));
  EXPECT_THAT(texts("[]"), ElementsAre());
}

TEST(JsonMembers, OfTheFirstValue) {
  EXPECT_THAT(json_members(R"({"a": {"b": [{"c": 1}]}} {"d": 1})"), ElementsAre("a", "a.b", "a.b[].c"));
  EXPECT_THAT(json_members(R"([{"x": 1}, {"y": 2)"), ElementsAre("[].x", "[].y"));
}

TEST(XmlRoots, StandBehindProlog) {
  EXPECT_EQ(xml_root_name("<?xml version='1.0'?><!-- <no> --><!DOCTYPE html><x:alto a='1'>"), "alto");
  EXPECT_EQ(xml_root_name("text"), "");
}

TEST(Divided, TextByLinesAndCharacters) {
  const std::vector<Piece> pieces = divided("ab c\r\n\xC3\xA9\xC2\xA0zz", {.x = 10, .y = 0, .width = 40, .height = 20});
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[0].box, (Box{10, 0, 30, 10}));
  EXPECT_EQ(pieces[1].box, (Box{40, 0, 50, 10}));
  EXPECT_EQ(pieces[2].text, "é");
  EXPECT_EQ(pieces[3].box, (Box{30, 10, 50, 20}));
  EXPECT_EQ(trimmed(" \xC2\xA0 a b\xE3\x80\x80"), "a b");
}

TEST(Enclosing, TurnedRectangles) {
  EXPECT_EQ(enclosing({.x = 100, .y = 50, .width = 20, .height = 10, .degrees = 180}), (Box{80, 40, 100, 50}));
  EXPECT_EQ(enclosing({.x = 100, .y = 50, .width = 20, .height = 10, .degrees = -90}), (Box{100, 30, 110, 50}));
  const Box box = enclosing({.x = 0, .y = 0, .width = 10, .height = 10, .degrees = 45});
  EXPECT_NEAR(box[0], -7.071, 1e-3);
  EXPECT_NEAR(box[3], 14.142, 1e-3);
}

}  // namespace
}  // namespace plimsoll::test
