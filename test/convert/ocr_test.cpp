// Results of OCR engines become pages: words, boxes in pixels, one line a page.
#include <fmt/format.h>

#include "convert_fixture.h"

namespace plimsoll::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Ocr : public ConvertTest {};

json boxes(std::initializer_list<std::vector<int>> all) {
  json list = json::array();
  for (const auto& box : all) list.push_back(box);
  return list;
}

TEST_F(Ocr, Hocr) {
  picture("scan-1.pgm", 640, 480);
  const std::vector<json> found = pages(sample("scan.hocr"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0]["words"], (json{"Café", "R&D", "two", "words"}));
  // A line of nine characters without words: its box is divided by their number.
  EXPECT_EQ(found[0]["boxes"], boxes({{20, 30, 90, 50}, {100, 30, 300, 50}, {20, 70, 53, 90}, {64, 70, 120, 90}}));
  EXPECT_EQ(found[0]["width"], 640);
  EXPECT_EQ(found[0]["image"], "scan-1.pgm");
  EXPECT_EQ(found[0]["document"], "scan");
  EXPECT_EQ(found[1]["id"], "scan-2");
  EXPECT_EQ(found[1]["words"], json::array());
  EXPECT_FALSE(found[1].contains("image"));
  EXPECT_THAT(said_, HasSubstr("scan.hocr is read as hocr"));
  EXPECT_THAT(lost(), HasSubstr("1 page has no picture"));
  EXPECT_THAT(lost(), HasSubstr("1 line has no boxes of its words"));
  EXPECT_THAT(lost(), HasSubstr("1 page has no words"));
}

TEST_F(Ocr, HocrsElementsWithinALineKeepTheirSpaces) {
  const std::vector<json> found = pages(file("b.hocr", R"(<html><body>
<div class="ocr_page" title="bbox 0 0 400 100">
<span class="ocr_line" title="bbox 0 0 200 20"><b>ab</b> <i>cd</i></span>
<span class="ocr_line" title="bbox 0 40 200 60">x<br/>y</span>
<span class="ocrx_word" title="bbox 0 70 90 90"><em>w</em>ord</span>
</div></body></html>)"));
  EXPECT_EQ(found[0]["words"], (json{"ab", "cd", "x", "y", "word"}));
}

TEST_F(Ocr, HocrsEntitiesAreThoseOfXhtml) {
  const std::vector<json> found = pages(file("e.hocr", R"(<html><body><div class="ocr_page" title="bbox 0 0 400 100">
<span class="ocr_line" title="bbox 0 0 200 20">
<span class="ocrx_word" title="bbox 0 0 90 20">Caf&eacute;&mdash;&thetasym;&#233;&amp;eacute;&unknown;</span>
<span class="ocr_word" title="bbox 95 0 120 20">R&amp;D</span></span>
</div></body></html>)"));
  EXPECT_EQ(found[0]["words"], (json{"Café—ϑé&eacute;&unknown;", "R&D"}));
  EXPECT_THAT(lost(), Not(HasSubstr("outside")));
  pages(file("l.hocr", R"(<html><body><div class="ocr_page" title="bbox 0 0 400 100">
<span class="ocr_line" title="bbox 0 0 200 20"><span class="ocrx_word" title="bbox 0 0 90 20">ab</span> loose</span>
</div></body></html>)"));
  EXPECT_THAT(lost(), HasSubstr("1 page has text outside words and lines"));
}

TEST_F(Ocr, UncertainWordsAreLeftOut) {
  const std::vector<json> found = pages(sample("scan.hocr"), {.least_confidence = 0.5});
  EXPECT_EQ(found[0]["words"], (json{"Café", "two", "words"}));
  EXPECT_THAT(lost(), HasSubstr("1 word is less certain than --min-confidence"));
}

TEST_F(Ocr, SegmentBoxesAreThoseOfLines) {
  const std::vector<json> found = pages(sample("scan.hocr"), {.segment_boxes = true});
  EXPECT_EQ(found[0]["boxes"], boxes({{20, 30, 300, 50}, {20, 30, 300, 50}, {20, 70, 120, 90}, {20, 70, 120, 90}}));
}

TEST_F(Ocr, AltoInTenthsOfMillimetres) {
  picture("images/alto.pgm", 1000, 2000);
  const std::vector<json> found = pages(sample("alto.xml"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["words"], (json{"Rechnung", "Num-", "mer"}));
  EXPECT_EQ(found[0]["boxes"], boxes({{100, 200, 300, 250}, {350, 200, 550, 250}, {100, 300, 300, 350}}));
  EXPECT_EQ(found[0]["image"], "images/alto.pgm");
  // Without a picture, pixels follow from --dpi: the page is 10 inches wide.
  fs::remove(at("images/alto.pgm"));
  const std::vector<json> without = pages(at("alto.xml"), {.dpi = 50});
  EXPECT_EQ(without[0]["width"], 500);
  EXPECT_EQ(without[0]["height"], 1000);
  EXPECT_EQ(without[0]["boxes"][0], (json{50, 100, 150, 125}));
}

TEST_F(Ocr, AltoInOtherUnits) {
  const auto alto = [&](const std::string& unit, const std::string& size) {
    return file("a.xml", "<alto><Description><MeasurementUnit>" + unit +
                             "</MeasurementUnit></Description><Layout><Page " + size +
                             "><TextLine><String CONTENT='w' HPOS='120' VPOS='240' WIDTH='120' HEIGHT='60'/>" +
                             "</TextLine></Page></Layout></alto>");
  };
  EXPECT_EQ(pages(alto("inch1200", "WIDTH='12000' HEIGHT='6000'"), {.dpi = 100})[0]["boxes"],
            boxes({{10, 20, 20, 25}}));
  EXPECT_EQ(pages(alto("pixel", "WIDTH='1000' HEIGHT='500'"))[0]["boxes"], boxes({{120, 240, 240, 300}}));
  EXPECT_THAT(refused(alto("furlong", "WIDTH='1' HEIGHT='1'")).where, HasSubstr("a.xml, line 1, <MeasurementUnit>"));
}

TEST_F(Ocr, PageXmlInItsOrder) {
  const std::vector<json> found = pages(sample("page.xml"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["words"], (json{"foo", "bar", "only", "a", "line", "a", "cell"}));
  EXPECT_EQ(found[0]["boxes"][0], (json{8, 10, 100, 50}));    // around a polygon
  EXPECT_EQ(found[0]["boxes"][1], (json{110, 10, 200, 50}));  // as versions before 2013 have it
  EXPECT_EQ(found[0]["boxes"][4], (json{322, 500, 500, 540}));
  EXPECT_THAT(lost(), HasSubstr("1 line has no boxes of its words"));
  EXPECT_THAT(lost(), HasSubstr("1 region has no lines"));
}

// The order of members is their index, not their place in the file; groups may lie in groups.
TEST_F(Ocr, PageXmlsReadingOrderIsByIndex) {
  const auto region = [](const std::string& id, int y) {
    return fmt::format(R"(<TextRegion id="{0}"><Coords points="0,{1} 90,{1} 90,{2}"/>
      <TextLine id="l{0}"><Coords points="0,{1} 90,{1} 90,{2}"/><TextEquiv><Unicode>{0}</Unicode></TextEquiv>
      </TextLine></TextRegion>)",
                       id, y, y + 9);
  };
  const std::string regions = region("r1", 0) + region("r2", 20) + region("r3", 40) + region("r4", 60);
  const std::vector<json> found = pages(file("order.xml", R"(<PcGts><Page imageWidth="100" imageHeight="100">
    <ReadingOrder><OrderedGroup id="g">
      <RegionRefIndexed index="2" regionRef="r1"/>
      <OrderedGroupIndexed index="1" id="h">
        <RegionRefIndexed index="10" regionRef="r2"/><RegionRefIndexed index="9" regionRef="r3"/>
      </OrderedGroupIndexed>
      <RegionRefIndexed index="0" regionRef="r4"/>
    </OrderedGroup></ReadingOrder>)" + regions + "</Page></PcGts>"));
  EXPECT_EQ(found[0]["words"], (json{"r4", "r3", "r2", "r1"}));
}

TEST_F(Ocr, PageXmlsLinesThatWereTranscribedGiveTheirWordsText) {
  const std::string words = R"(<Word id="a"><Coords points="0,0 40,0 40,9"/></Word>
    <Word id="b"><Coords points="50,0 90,0 90,9"/></Word>)";
  const auto of = [&](const std::string& text) {
    return pages(file("line.xml", fmt::format(R"(<PcGts><Page imageWidth="100" imageHeight="100"><TextRegion id="r">
      <TextLine id="l"><Coords points="0,0 90,0 90,9"/>{}<TextEquiv><Unicode>{}</Unicode></TextEquiv></TextLine>
      </TextRegion></Page></PcGts>)",
                                              words, text)));
  };
  EXPECT_EQ(of("ab cd")[0]["words"], (json{"ab", "cd"}));
  EXPECT_EQ(of("ab cd")[0]["boxes"], boxes({{0, 0, 40, 9}, {50, 0, 90, 9}}));
  EXPECT_EQ(of("ab cd ef")[0]["words"], (json{"ab", "cd", "ef"}));
  EXPECT_THAT(lost(), HasSubstr("1 line has no boxes of its words"));
}

TEST_F(Ocr, TesseractWithCarriageReturns) {
  picture("scans/scan.pgm", 640, 480);
  const std::vector<json> found = pages(sample("scan.tsv"), {.images = at("scans")});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (json{{"id", "scan"},
                            {"image", "scans/scan.pgm"},
                            {"width", 640},
                            {"height", 480},
                            {"words", {"TOTAL", "\"7"}},
                            {"boxes", boxes({{10, 20, 40, 60}, {50, 20, 80, 60}})},
                            {"confidences", {0.965, 0.12}}}));
  EXPECT_THAT(lost(), IsEmpty());
  EXPECT_EQ(pages(at("scan.tsv"), {.images = at("scans"), .least_confidence = 0.5})[0]["words"], json{"TOTAL"});
}

TEST_F(Ocr, TesseractOfSeveralPages) {
  const std::string header = "level\tpage_num\tleft\ttop\twidth\theight\tconf\ttext\n";
  picture("doc.pgm", 10, 10);  // is none of the pages
  picture("doc-02.pgm", 100, 50);
  const std::vector<json> found = pages(
      file("doc.tsv", header + "1\t1\t0\t0\t100\t50\t-1\t\n5\t1\t1\t2\t3\t4\t90\ta\n1\t2\t0\t0\t100\t50\t-1\t\n"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0]["id"], "doc-1");
  EXPECT_FALSE(found[0].contains("image"));
  EXPECT_EQ(found[1]["image"], "doc-02.pgm");
}

TEST_F(Ocr, TextractNeedsAPicture) {
  const Problem problem = refused(sample("textract.json"));
  EXPECT_THAT(problem.where, HasSubstr("textract.json, page 1"));
  EXPECT_THAT(problem.remedy, HasSubstr("--images"));
  picture("textract-1.pgm", 200, 400);
  picture("textract-2.pgm", 200, 400);
  const std::vector<json> found = pages(at("textract.json"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0]["words"], (json{"Name:", "Ana", "stray"}));
  EXPECT_EQ(found[0]["boxes"], boxes({{20, 40, 50, 60}, {60, 40, 100, 60}, {100, 200, 120, 220}}));
  EXPECT_EQ(found[1]["words"], json::array());
  EXPECT_THAT(lost(), HasSubstr("1 block of a form, a table or a query is left out"));
  EXPECT_THAT(lost(), HasSubstr("Blocks[5]"));
}

TEST_F(Ocr, TextractInSeveralResponses) {
  picture("r.pgm", 100, 100);
  const json word = {{"BlockType", "WORD"},
                     {"Text", "w"},
                     {"Geometry", {{"BoundingBox", {{"Left", 0.1}, {"Top", 0.1}, {"Width", 0.1}, {"Height", 0.1}}}}}};
  const json responses = {{{"Blocks", {word}}, {"NextToken", "x"}}, {{"Blocks", {word}}}};
  EXPECT_EQ(pages(file("r.json", responses.dump()))[0]["words"], (json{"w", "w"}));
  EXPECT_TRUE(lost().empty()) << lost();
  // The first response alone is not the whole result; nor is one with fewer pages than its document has.
  for (const char* name : {"p-1.pgm", "p-3.pgm"}) picture(name, 100, 100);
  const json parts[] = {responses[0], {{"Blocks", {word}}, {"DocumentMetadata", {{"Pages", 2}}}}};
  for (const json& part : parts) {
    pages(file(part.contains("NextToken") ? "r.json" : "p.json", part.dump()));
    EXPECT_THAT(lost(), HasSubstr("1 result is a part of its document's: get the rest by NextToken"));
  }
  pages(file("r.json", json{{"Blocks", {word}}, {"JobStatus", "PARTIAL_SUCCESS"}}.dump()));
  EXPECT_THAT(lost(), HasSubstr("1 job was done only in part"));
  json third = word;
  third["Page"] = 3;
  pages(file("p.json", json{{"Blocks", {word, third}}, {"DocumentMetadata", {{"Pages", 3}}}}.dump()));
  EXPECT_THAT(lost(), HasSubstr("1 result is a part of its document's")) << "a page between is missing";
  EXPECT_THAT(refused(file("r.json", R"({"JobStatus": "IN_PROGRESS"})")).what, HasSubstr("has not ended"));
  const Problem failed = refused(file("r.json", R"({"JobStatus": "FAILED", "StatusMessage": "too large"})"));
  EXPECT_EQ(failed.what, "Textract's job failed (too large)");
}

TEST_F(Ocr, TextractOfExpensesHasItsBlocksInDocuments) {
  picture("x.pgm", 100, 100);
  const json word = {{"BlockType", "WORD"},
                     {"Page", 0},  // as identity documents have it
                     {"Text", "w"},
                     {"Geometry", {{"BoundingBox", {{"Left", 0}, {"Top", 0}, {"Width", 0.1}, {"Height", 0.1}}}}}};
  const json expenses = {{"ExpenseDocuments", {{{"ExpenseIndex", 1}, {"Blocks", {word}}}}}};
  EXPECT_EQ(pages(file("x.json", expenses.dump()))[0]["words"], json{"w"});
  EXPECT_THAT(refused(file("x.json", R"({"ExpenseDocuments": [{"SummaryFields": []}]})")).allowed, HasSubstr("Blocks"));
}

TEST_F(Ocr, TextWithoutAPlaceIsCounted) {
  json document = json::parse(text_of(sample("documentai.json")));
  document["pages"][0].erase("tokens");
  EXPECT_EQ(pages(file("documentai.json", document.dump()))[0]["words"], (json{"Größe:", "12"}));
  EXPECT_THAT(lost(), HasSubstr("1 line has no tokens"));
  document["pages"][0].erase("lines");
  document["pages"][0]["layout"] = {{"textAnchor", {{"textSegments", {{{"endIndex", "10"}}}}}}};
  EXPECT_EQ(pages(file("documentai.json", document.dump()))[0]["words"], json::array());
  EXPECT_THAT(lost(), HasSubstr("1 page has text of which neither tokens nor lines say the place"));
  pages(file("loose.hocr", "<html><div class='ocr_page' title='bbox 0 0 9 9'>loose</div></html>"));
  EXPECT_THAT(lost(), HasSubstr("1 page has text outside words and lines"));
}

TEST_F(Ocr, AzureDocumentIntelligenceInInches) {
  picture("azure.pgm", 850, 1100);
  const std::vector<json> found = pages(sample("azure.json"), {.segment_boxes = true});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["words"], (json{"Total", "12", "End"}));
  EXPECT_EQ(found[0]["boxes"], boxes({{100, 100, 250, 120}, {100, 100, 250, 120}, {100, 200, 150, 220}}));
  EXPECT_THAT(lost(), HasSubstr("1 list of tables, fields, paragraphs or marks"));
  EXPECT_EQ(pages(at("azure.json"))[0]["boxes"][0], (json{100, 100, 200, 120}));
}

TEST_F(Ocr, AzureReadAndImageAnalysis) {
  const std::vector<json> read = pages(sample("azure-read.json"));
  EXPECT_EQ(read[0]["words"], (json{"Grand", "total"}));
  EXPECT_EQ(read[0]["boxes"], boxes({{10, 20, 90, 40}, {100, 20, 200, 40}}));
  EXPECT_EQ(read[0]["width"], 600);
  const std::vector<json> image = pages(sample("azure-image.json"));
  EXPECT_EQ(image[0]["boxes"], boxes({{9, 10, 60, 30}}));
  EXPECT_THAT(refused(file("f.json", R"({"status": "failed", "analyzeResult": {"pages": []}})")).what,
              HasSubstr("has not succeeded"));
}

TEST_F(Ocr, GoogleVision) {
  const std::vector<json> found = pages(sample("vision.json"));
  EXPECT_EQ(found[0]["words"], (json{"Total", "12"}));
  EXPECT_EQ(found[0]["boxes"], boxes({{0, 10, 50, 30}, {70, 10, 120, 30}}));
  EXPECT_EQ(pages(at("vision.json"), {.segment_boxes = true})[0]["boxes"][0], (json{0, 10, 120, 30}));
  // A response for a file: a page each, in shares; its size is in points.
  const std::vector<json> file_pages = pages(sample("vision-file.json"));
  ASSERT_EQ(file_pages.size(), 2U);
  EXPECT_EQ(file_pages[0]["words"], json{"é"});
  EXPECT_EQ(file_pages[0]["boxes"], boxes({{153, 396, 306, 594}}));
}

TEST_F(Ocr, GoogleVisionsLinesEndAtTheirBreaks) {
  const auto word = [](const std::string& text, int x, int y, const std::string& end) {
    return fmt::format(R"({{"boundingBox": {{"vertices": [{{"x": {0}, "y": {1}}}, {{"x": {2}, "y": {3}}}]}},
      "symbols": [{{"text": "{4}"{5}}}]}})",
                       x, y, x + 40, y + 20, text,
                       end.empty() ? "" : R"(, "property": {"detectedBreak": {"type": )" + end + "}}");
  };
  const auto page = [&](const std::string& words) {
    return pages(file("gv.json", R"({"fullTextAnnotation": {"pages": [{"width": 200, "height": 100, "blocks": [
      {"paragraphs": [{"boundingBox": {"vertices": [{"x": 0, "y": 0}, {"x": 110, "y": 60}]}, "words": [)" +
                                     words + "]}]}]}]}}"),
                 {.segment_boxes = true});
  };
  for (const std::string end : {"\"LINE_BREAK\"", "\"EOL_SURE_SPACE\"", "5"}) {
    const json found =
        page(word("Hi", 0, 0, "\"SPACE\"") + "," + word("you", 50, 0, end) + "," + word("there", 0, 40, end))[0];
    EXPECT_EQ(found["boxes"], boxes({{0, 0, 90, 20}, {0, 0, 90, 20}, {0, 40, 40, 60}})) << end;
  }
  const json without = page(word("Hi", 0, 0, "") + "," + word("you", 0, 40, ""))[0];
  EXPECT_EQ(without["boxes"], boxes({{0, 0, 110, 60}, {0, 0, 110, 60}}));
}

TEST_F(Ocr, GoogleVisionTextDetection) {
  picture("t.pgm", 100, 100);
  const fs::path result = file("t.json", R"({"textAnnotations": [{"description": "a b"},
    {"description": "a", "boundingPoly": {"vertices": [{"x": 1, "y": 2}, {"x": 11, "y": 12}]}}]})");
  EXPECT_EQ(pages(result)[0]["boxes"], boxes({{1, 2, 11, 12}}));
  EXPECT_THAT(refused(file("e.json", R"({"responses": [{"error": {"code": 3}}]})")).where,
              HasSubstr("e.json, responses[0].error"));
}

TEST_F(Ocr, DocumentAiCountsCharacters) {
  const std::vector<json> found = pages(sample("documentai.json"));
  EXPECT_EQ(found[0]["words"], (json{"Größe", ":", "12"}));
  EXPECT_EQ(found[0]["boxes"], boxes({{170, 220, 510, 440}, {510, 220, 544, 440}, {680, 220, 850, 440}}));
  EXPECT_THAT(lost(), HasSubstr("1 list of entities, form fields or tables"));
  json outside = json::parse(text_of(at("documentai.json")));
  outside["pages"][0]["tokens"][2]["layout"]["textAnchor"]["textSegments"][0]["endIndex"] = "11";
  EXPECT_THAT(refused(file("documentai.json", outside.dump())).where, HasSubstr("pages[0].tokens[2].layout"));
}

TEST_F(Ocr, BoxesAreCutAtTheEdgeAndRefusedBeyondIt) {
  const auto hocr = [&](const std::string& box) {
    return file("x.hocr", "<html><div class='ocr_page' title='bbox 0 0 100 50'><span class='ocrx_word' title='bbox " +
                              box + "'>w</span></div></html>");
  };
  EXPECT_EQ(pages(hocr("90 40 103 52"))[0]["boxes"], boxes({{90, 40, 100, 50}}));
  EXPECT_THAT(lost(), HasSubstr("1 box reaches beyond its page"));
  EXPECT_EQ(pages(hocr("10 10 10.2 10.2"))[0]["boxes"], boxes({{10, 10, 11, 11}}));  // keeps a pixel
  EXPECT_THAT(refused(hocr("900 400 950 450")).what, HasSubstr("outside its page"));
  EXPECT_THAT(refused(hocr("50 10 40 20")).what, HasSubstr("not left, top, right, bottom"));
  EXPECT_THAT(refused(hocr("1 2 3")).what, HasSubstr("numbers cannot be read"));
}

TEST_F(Ocr, AnotherShapeOfThePictureIsSaid) {
  picture("scan.pgm", 480, 640);
  pages(sample("scan.tsv"));
  EXPECT_THAT(lost(), HasSubstr("1 page has another shape than its picture"));
}

TEST_F(Ocr, PagesOfOneNameInTwoFoldersAreToldApart) {
  const std::string page = R"(<html><body><div class="ocr_page" title="bbox 0 0 9 9"></div></body></html>)";
  fs::create_directories(at("a"));
  fs::create_directories(at("b"));
  for (const char* name : {"a/scan.hocr", "b/scan.hocr"}) file(name, page);
  convert({.inputs = {at("a/scan.hocr"), at("b/scan.hocr")}, .output = at("both.jsonl")});
  const std::vector<json> found = lines_of(at("both.jsonl"));
  EXPECT_EQ(found[0]["id"], "scan");
  EXPECT_EQ(found[1]["id"], "scan-2");
  // So are the documents of files with several pages.
  const std::string both = R"(<html><body><div class="ocr_page" title="bbox 0 0 9 9"></div>)"
                           R"(<div class="ocr_page" title="bbox 0 0 9 9"></div></body></html>)";
  for (const char* name : {"a/scan.hocr", "b/scan.hocr"}) file(name, both);
  convert({.inputs = {at("a/scan.hocr"), at("b/scan.hocr")}, .output = at("both.jsonl")});
  std::vector<std::string> documents, ids;
  for (const json& each : lines_of(at("both.jsonl"))) {
    documents.push_back(each["document"]);
    ids.push_back(each["id"]);
  }
  EXPECT_THAT(documents, ElementsAre("scan", "scan", "scan-2", "scan-2"));
  EXPECT_THAT(ids, ElementsAre("scan-1", "scan-2", "scan-1-2", "scan-2-2"));
}

TEST_F(Ocr, HocrWordsInWords) {
  const std::vector<json> found = pages(file("w.hocr", R"(<html><body><div class="ocr_page" title="bbox 0 0 400 100">
<span class="ocr_word" title="bbox 0 0 90 20"><span class="ocrx_word" title="x_wconf 30">sure</span></span>
<span class="ocr_word" title="bbox 0 60 90 80"><span class="xocr_word" title="x_wconf -3">third</span></span>
<span class="ocr_word" title="bbox 0 30 90 50"><span class="ocrx_word" title="bbox 0 30 40 50">a</span>&nbsp;<span
class="ocrx_word" title="bbox 50 30 90 50">b</span></span>
</div></body></html>)"),
                                        {.least_confidence = 0.5});
  EXPECT_EQ(found[0]["words"], (json{"third", "a", "b"}));
  EXPECT_THAT(lost(), HasSubstr("1 word is less certain"));
  EXPECT_THAT(lost(), Not(HasSubstr("outside words")));
}

TEST_F(Ocr, FoldersAndPatternsAreConvertedInOrder) {
  file("many/b.hocr", "<html><div class='ocr_page' title='bbox 0 0 9 9'></div></html>");
  file("many/a.json", text_of(sample("azure-read.json")));
  file("many/notes.txt", "not converted");
  const PagePaths found = convert_inputs({at("many").string()});
  EXPECT_THAT(found, ElementsAre(at("many/a.json"), at("many/b.hocr")));
  ConvertOptions options{.inputs = found, .output = at("all.jsonl")};
  EXPECT_EQ(convert(options).pages, 2U);
  fs::create_directories(at("empty"));
  EXPECT_THROW(convert_inputs({at("empty").string()}), DataError);
}

}  // namespace
}  // namespace plimsoll::test
