// Annotations become labelled pages; pages become tasks, and come back.
#include <fmt/format.h>

#include <functional>

#include "convert_fixture.h"

namespace plimsoll::test {
namespace {

using testing::HasSubstr;

class Annotations : public ConvertTest {};

TEST_F(Annotations, Cord) {
  const std::vector<json> found = pages(sample("cord.json"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["words"], (json{"Nasi", "Campur", "TOTAL", "75.000"}));
  EXPECT_EQ(found[0]["labels"], (json{"B-MENU.NM", "I-MENU.NM", "O", "B-TOTAL.TOTAL_PRICE"}));
  EXPECT_EQ(found[0]["boxes"][0], (json{99, 200, 180, 230}));
  EXPECT_EQ(found[0]["boxes"][3], (json{700, 300, 864, 330}));
  EXPECT_EQ(pages(at("cord.json"), {.segment_boxes = true})[0]["boxes"][1], (json{99, 200, 310, 230}));
}

TEST_F(Annotations, CordsRowsOfTheHub) {
  picture("images/a.pgm", 864, 1296);
  const json truth = json::parse(text_of(sample("cord.json")));
  const json first = {{"image", {{"path", "a.pgm"}}}, {"ground_truth", truth.dump()}};
  const json second = {{"file_name", "b.png"}, {"ground_truth", truth}};
  const std::vector<json> whole = pages(sample("cord.json"));
  for (const std::string& text :
       {first.dump() + "\n\n" + second.dump() + "\n", json{first, second}.dump(2), json{first, second}.dump()}) {
    const std::vector<json> found = pages(file("rows.json", text));
    ASSERT_EQ(found.size(), 2U);
    EXPECT_THAT(said_, HasSubstr("is read as cord"));
    EXPECT_EQ(found[0]["id"], "rows-1");
    EXPECT_EQ(found[1]["id"], "rows-2");
    EXPECT_EQ(found[0]["image"], "images/a.pgm");
    EXPECT_FALSE(found[1].contains("document"));
    for (const json& page : found) {
      for (const char* member : {"words", "boxes", "labels"}) EXPECT_EQ(page[member], whole[0][member]);
    }
  }
  // Data sets made for Donut have a parse without boxes.
  const std::string parse = json{{"file_name", "a.pgm"}, {"ground_truth", R"({"gt_parse": {"total": "5"}})"}}.dump();
  const Problem problem = refused(file("metadata.jsonl", parse + "\n"));
  EXPECT_THAT(problem.what, HasSubstr("no words with boxes"));
  EXPECT_THAT(problem.where, HasSubstr("metadata.jsonl:1, ground_truth"));
}

TEST_F(Annotations, NumbersGetTheNamesOfLabels) {
  const fs::path given =
      file("ids.jsonl", R"({"id": "a", "words": ["x", "y", "z"], "boxes": [[1, 1, 2, 2], [3, 1, 4, 2], [5, 1, 6, 2]],)"
                        R"( "ner_tags": [1, -100, 0], "width": 10, "height": 10})"
                        "\n");
  EXPECT_EQ(pages(given, {.label_names = {"O", "B-A"}})[0]["ner_tags"], (json{"B-A", -100, "O"}));
}

TEST_F(Annotations, BoxesThatAreNoPixelsAreRefused) {
  const auto page = [&](const std::string& boxes) {
    return file("page.jsonl",
                R"({"id": "a", "words": ["x", "y"], "boxes": )" + boxes + R"(, "width": 100, "height": 100})" + "\n");
  };
  const auto problem_of = [&](const fs::path& input) {
    try {
      text(input, "label-studio");
    } catch (const DataError& error) {
      return error.problem();
    }
    return Problem{};
  };
  EXPECT_THAT(problem_of(page("[[0.1, 0.2, 0.5, 0.3], [0.5, 0.2, 1, 0.3]]")).what, HasSubstr("fractions"));
  EXPECT_THAT(problem_of(page("[[100, 200, 500, 300], [500, 200, 900, 300]]")).remedy, HasSubstr("--box-format 1000"));
  EXPECT_NO_THROW(text(page("[[0, 0, 1, 1], [5, 6, 7.5, 8]]"), "label-studio"));
}

TEST_F(Annotations, FunsdWithItsLinks) {
  picture("forms/images/funsd.pgm", 200, 100);
  fs::create_directories(at("forms/annotations"));
  fs::copy_file(sample("funsd.json"), at("forms/annotations/funsd.json"));
  const PagePaths inputs = convert_inputs({at("forms").string()});
  ASSERT_EQ(inputs.size(), 1U);
  const std::vector<json> found = pages(inputs.front());
  EXPECT_EQ(found[0]["words"], (json{"Date:", "5", "May", "note"}));
  EXPECT_EQ(found[0]["labels"], (json{"B-QUESTION", "B-ANSWER", "I-ANSWER", "O"}));
  EXPECT_EQ(found[0]["links"], (json{{0, 1}}));
  EXPECT_EQ(found[0]["entities"][1], (json{{"label", "answer"}, {"start_word", 1}, {"end_word", 3}}));
  EXPECT_EQ(found[0]["image"], "forms/images/funsd.pgm");
  EXPECT_EQ(pages(inputs.front(), {.segment_boxes = true})[0]["boxes"][1], (json{70, 20, 140, 40}));
}

TEST_F(Annotations, LinksToEntitiesWithoutWordsAreCounted) {
  picture("form.pgm", 200, 100);
  const std::string form = R"({"form": [
    {"id": 0, "text": "A", "box": [1, 2, 6, 4], "label": "question", "linking": [[0, 1]],
     "words": [{"text": "A", "box": [1, 2, 6, 4]}]},
    {"id": 1, "text": "", "box": [7, 2, 9, 4], "label": "answer", "linking": [[0, 1]],
     "words": [{"text": "", "box": [7, 2, 9, 4]}]}]})";
  EXPECT_EQ(pages(file("form.json", form))[0]["words"], json{"A"});
  EXPECT_THAT(lost(), HasSubstr("1 link leads to an entity without words"));
}

TEST_F(Annotations, XfundHasManyForms) {
  picture("images/zh_1.pgm", 200, 100);
  const std::string form = text_of(sample("funsd.json"));
  const std::string fields = form.substr(form.find('['), form.rfind(']') + 1 - form.find('['));
  const auto document = [&](const std::string& id) {
    return fmt::format(R"({{"id": "{0}", "uid": "{0}", "document": {1},
      "img": {{"fname": "{0}.pgm", "width": 200, "height": 100}}}})",
                       id, fields);
  };
  const std::vector<json> found =
      pages(file("zh.val.json", R"({"lang": "zh", "version": "0.1", "split": "val", "documents": [)" +
                                    document("zh_1") + "," + document("zh_2") + "]}"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(said_, HasSubstr("is read as xfund"));
  EXPECT_EQ(found[1]["id"], "zh_2");
  EXPECT_FALSE(found[1].contains("document"));
  EXPECT_EQ(found[0]["image"], "images/zh_1.pgm");
  EXPECT_EQ(found[1]["width"], 200);
  EXPECT_EQ(found[1]["words"], (json{"Date:", "5", "May", "note"}));
  EXPECT_EQ(found[1]["labels"], (json{"B-QUESTION", "B-ANSWER", "I-ANSWER", "O"}));
  EXPECT_EQ(found[1]["links"], (json{{0, 1}}));
}

TEST_F(Annotations, LabelStudiosExport) {
  picture("scans/bill 1.pgm", 1000, 500);
  const std::vector<json> found = pages(sample("label-studio.json"), {.images = at("scans")});
  ASSERT_EQ(found.size(), 1U);
  const json& page = found[0];
  EXPECT_EQ(page["image"], "scans/bill 1.pgm");
  EXPECT_EQ(page["words"], (json{"Acme", "Ltd.", "12,50", "€", "9"}));
  EXPECT_EQ(page["labels"], (json{"B-Vendor Name", "I-Vendor Name", "B-Total", "I-Total", "B-Total"}));
  // Four of nine characters of 200 pixels.
  EXPECT_EQ(page["boxes"][0], (json{100, 100, 189, 150}));
  EXPECT_EQ(page["boxes"][1], (json{211, 100, 300, 150}));
  // Turned by 90 degrees around its corner, 500, 100: text runs downwards, to the corner's left.
  EXPECT_EQ(page["boxes"][2], (json{450, 100, 500, 171}));
  EXPECT_EQ(page["boxes"][3], (json{450, 186, 500, 200}));
  EXPECT_EQ(page["boxes"][4], (json{700, 300, 800, 350}));
  EXPECT_EQ(page["label"], "invoice");
  EXPECT_EQ(page["links"], (json{{0, 1}}));
  for (const char* part : {"1 annotation beside another one", "1 rectangle has no text and no word below it",
                           "1 rectangle has several labels", "1 result is neither a rectangle",
                           "1 relation leads to what is no labelled rectangle",
                           "1 page of a task has neither words nor annotations", "label-studio.json:36, task 2"}) {
    EXPECT_THAT(lost(), HasSubstr(part));
  }
}

TEST_F(Annotations, LabelStudiosMinimalExportIsRefused) {
  const fs::path minimal =
      file("min.json", R"([{"image": "a.png", "id": 1, "label": [], "annotator": 1, "annotation_id": 1}])");
  const Problem problem = refused(minimal);
  EXPECT_THAT(problem.where, HasSubstr("min.json:1, task 1"));
  EXPECT_THAT(problem.remedy, HasSubstr("JSON-MIN"));
}

TEST_F(Annotations, LabelStudioWithoutSizesAsksThePicture) {
  const std::string task =
      R"([{"data": {"image": "a.pgm"}, "annotations": [{"result": [{"id": "r", "type": "rectanglelabels",
    "value": {"x": 10, "y": 10, "width": 10, "height": 10, "rectanglelabels": ["A"]}}, {"id": "r", "type": "textarea",
    "value": {"text": ["w"]}}]}]}])";
  EXPECT_THAT(refused(file("e.json", task)).remedy, HasSubstr("--images"));
  picture("a.pgm", 200, 100);
  EXPECT_EQ(pages(at("e.json"))[0]["boxes"][0], (json{20, 10, 40, 20}));
}

TEST_F(Annotations, ADocumentsPagesAreToldApart) {
  const json export_of = {
      {{"id", 5},
       {"data", {{"pages", {"p1.png", "p2.png"}}}},
       {"annotations",
        {{{"result",
           {{{"id", "x"},
             {"item_index", 1},
             {"original_width", 100},
             {"original_height", 100},
             {"value",
              {{"x", 0}, {"y", 0}, {"width", 50}, {"height", 10}, {"rectanglelabels", {"A"}}, {"text", {"w"}}}}}}}}}}}};
  const std::vector<json> found = pages(file("d.json", export_of.dump()));
  ASSERT_EQ(found.size(), 1U) << lost();
  EXPECT_EQ(found[0]["id"], "p2");
}

class RoundTrip : public ConvertTest {
 protected:
  // Pages to tasks and back; the tasks may be changed in between.
  std::vector<json> there_and_back(const fs::path& input, const std::function<void(json&)>& edit = {}) {
    tasks_ = json::parse(text(input, "label-studio", {.label_config = at("config.xml")}));
    if (edit) edit(tasks_);
    return pages(file("export.json", tasks_.dump(1)));
  }
  json tasks_{};
};

TEST_F(RoundTrip, KeepsWordsBoxesAndLabels) {
  picture("a.png", 640, 480);
  const std::vector<json> before = lines_of(sample("pages.jsonl"));
  const std::vector<json> after = there_and_back(at("pages.jsonl"));
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (const char* key : {"id", "width", "height", "words", "boxes", "labels"}) {
      EXPECT_EQ(after[i].value(key, json::array()), before[i][key]) << key;
    }
  }
  EXPECT_EQ(after[0]["image"], "a.png");
  const json& task = tasks_[0];
  EXPECT_EQ(task["data"]["image"], "/data/local-files/?d=a.png");
  EXPECT_FALSE(task.contains("predictions"));
  const json& result = task["annotations"][0]["result"];
  ASSERT_EQ(result.size(), 6U);  // three entities, each a rectangle and its text
  EXPECT_EQ(result[0]["type"], "rectanglelabels");
  EXPECT_EQ(result[0]["value"]["rectanglelabels"], json{"TOTAL"});
  EXPECT_EQ(result[1]["value"]["text"], json{"12 .50"});
  EXPECT_EQ(result[0]["id"], result[1]["id"]);
  EXPECT_DOUBLE_EQ(result[0]["value"]["x"], 100.0 * 70 / 640);
  EXPECT_DOUBLE_EQ(result[0]["value"]["width"], 100.0 * 50 / 640);
  const std::string config = text_of(at("config.xml"));
  EXPECT_THAT(config, HasSubstr("<Label value=\"CITY\""));
  EXPECT_THAT(config, HasSubstr("<RectangleLabels name=\"label\" toName=\"image\""));
  EXPECT_THAT(config, HasSubstr("value=\"$image\""));
}

TEST_F(RoundTrip, AWordIsLabelledByDrawingARectangle) {
  const std::vector<json> after = there_and_back(sample("pages.jsonl"), [](json& tasks) {
    json& result = tasks[0]["annotations"][0]["result"];
    // The labeller draws around the first word and types nothing, and corrects one text.
    json drawn = result[0];
    drawn["id"] = "new";
    drawn["value"] = {{"x", 1}, {"y", 3}, {"width", 9}, {"height", 6}, {"rotation", 0}, {"rectanglelabels", {"KEY"}}};
    result.push_back(drawn);
    result[1]["value"]["text"] = {"13 .75"};
  });
  EXPECT_EQ(after[0]["words"], (json{"TOTAL", "13", ".75", "Zürich AG", "Bern"}));
  EXPECT_EQ(after[0]["labels"], (json{"B-KEY", "B-TOTAL", "I-TOTAL", "B-CITY", "B-CITY"}));
  EXPECT_EQ(after[0]["boxes"][0], (json{10, 20, 60, 40}));
}

TEST_F(RoundTrip, AnotherNumberOfWordsDividesTheRectangle) {
  const std::vector<json> after = there_and_back(
      sample("pages.jsonl"), [](json& tasks) { tasks[0]["annotations"][0]["result"][1]["value"]["text"] = {"12.50"}; });
  EXPECT_EQ(after[0]["words"], (json{"TOTAL", "12.50", "Zürich AG", "Bern"}));
  EXPECT_EQ(after[0]["boxes"][1], (json{70, 20, 120, 40}));
  EXPECT_EQ(after[0]["labels"], (json{"O", "B-TOTAL", "B-CITY", "B-CITY"}));
  EXPECT_THAT(lost(), HasSubstr("1 rectangle was typed with another number of words"));
}

TEST_F(RoundTrip, OverlappingRectanglesShareNoWord) {
  const std::vector<json> after = there_and_back(sample("pages.jsonl"), [](json& tasks) {
    json& result = tasks[0]["annotations"][0]["result"];
    json wide = result[0];
    wide["id"] = "wide";
    wide["value"] = {{"x", 0},       {"y", 0},        {"width", 100},
                     {"height", 10}, {"rotation", 0}, {"rectanglelabels", {"LINE"}}};
    result.push_back(wide);
    for (const int i : {0, 1}) result[i]["value"]["height"] = 5;  // it was moved, so what it covers counts
  });
  // Both cover the words of TOTAL wholly: the smaller one has them.
  EXPECT_EQ(after[0]["labels"], (json{"B-LINE", "B-TOTAL", "I-TOTAL", "B-CITY", "B-CITY"}));
  EXPECT_THAT(lost(), HasSubstr("2 words lie in several rectangles"));
}

// An address of two lines, and another column's word between them: its box lies within the address's rectangle.
TEST_F(RoundTrip, ARectangleThatNobodyMovedKeepsItsWords) {
  const fs::path input =
      file("p.jsonl", R"({"id": "p", "width": 100, "height": 100, "words": ["12", "other", "Road", "Town"], "boxes": )"
                      R"([[0, 0, 20, 10], [50, 0, 60, 10], [30, 20, 90, 30], [0, 20, 20, 30]], )"
                      R"("labels": ["B-A", "O", "B-A", "I-A"]})");
  const std::vector<json> after = there_and_back(input);
  EXPECT_EQ(after[0]["labels"], (json{"B-A", "O", "B-A", "I-A"}));
  EXPECT_EQ(after[0]["words"], (json{"12", "other", "Road", "Town"}));
  const fs::path wide =
      file("w.jsonl", R"({"id": "w", "width": 100, "height": 100, "words": ["12", "Road", "other"], "boxes": )"
                      R"([[0, 0, 20, 10], [50, 20, 90, 30], [60, 2, 70, 8]], "labels": ["B-A", "I-A", "O"]})");
  EXPECT_EQ(there_and_back(wide)[0]["labels"], (json{"B-A", "I-A", "O"}));
  // Once it is moved, what it covers counts.
  const std::vector<json> moved = there_and_back(wide, [](json& tasks) {
    for (json& result : tasks[0]["annotations"][0]["result"]) result["value"]["width"] = 95;
    tasks[0]["annotations"][0]["result"].erase(1);
  });
  EXPECT_EQ(moved[0]["labels"], (json{"B-A", "I-A", "I-A"}));
}

// The rectangle's text is what `convert` wrote, not what somebody typed.
TEST_F(RoundTrip, ARectangleThatIsMovedSaysNothingOfItsWords) {
  const fs::path input = file("p.jsonl", R"({"id": "p", "width": 800, "height": 100, "words": )"
                                         R"(["Date:", "12", "May", "2024"], "boxes": )"
                                         R"([[10, 10, 20, 20], [30, 10, 40, 20], [50, 10, 60, 20], [70, 10, 80, 20]], )"
                                         R"("labels": ["B-DATE", "I-DATE", "O", "O"]})");
  const auto moved = [&](double left, double right) {
    return there_and_back(input, [&](json& tasks) {
      for (json& result : tasks[0]["annotations"][0]["result"]) {
        result["value"]["x"] = left / 8;
        result["value"]["width"] = (right - left) / 8;
      }
    })[0];
  };
  const std::pair<std::pair<double, double>, json> places[] = {{{30, 60}, {"O", "B-DATE", "I-DATE", "O"}},
                                                               {{10, 80}, {"B-DATE", "I-DATE", "I-DATE", "I-DATE"}},
                                                               {{10, 20}, {"B-DATE", "O", "O", "O"}},
                                                               {{500, 530}, {"O", "O", "O", "O"}}};
  for (const auto& [place, labels] : places) {
    const json page = moved(place.first, place.second);
    EXPECT_EQ(page["words"], (json{"Date:", "12", "May", "2024"}));
    EXPECT_EQ(page["labels"], labels);
  }
  EXPECT_THAT(lost(), HasSubstr("1 rectangle has no text and no word below it"));
}

// What somebody types is a correction, even if another rectangle had that text.
TEST_F(RoundTrip, ACorrectionMayBeAnotherRectanglesText) {
  const fs::path input =
      file("p.jsonl", R"({"id": "p", "width": 800, "height": 100, "words": ["5.00", "S.00"], "boxes": )"
                      R"([[10, 10, 20, 20], [30, 10, 40, 20]], "labels": ["B-A", "B-B"]})");
  const json corrected = there_and_back(input, [](json& tasks) {
    json& result = tasks[0]["annotations"][0]["result"];
    result.erase(0);
    result.erase(0);
    result[1]["value"]["text"] = {"5.00"};
  })[0];
  EXPECT_EQ(corrected["words"], (json{"5.00", "5.00"}));
  const json drawn = there_and_back(input, [](json& tasks) {
    json& result = tasks[0]["annotations"][0]["result"];
    for (json& each : result) each["id"] = "r4nd0m" + each["id"].get<std::string>();
    for (const int i : {0, 1}) result[i]["value"]["x"] = 50;  // where OCR found nothing
  })[0];
  EXPECT_EQ(drawn["words"], (json{"5.00", "S.00", "5.00"}));
}

// The page's boxes may refer to other pixels than the picture has, which is what Label Studio measures.
TEST_F(RoundTrip, PicturesOfAnotherSize) {
  const auto twice = [](json& tasks) {
    for (json& result : tasks[0]["annotations"][0]["result"]) {
      result["original_width"] = 1280;
      result["original_height"] = 960;
    }
  };
  const std::vector<json> after = there_and_back(sample("pages.jsonl"), twice);
  EXPECT_EQ(after[0]["width"], 640);
  EXPECT_EQ(after[0]["labels"], (json{"O", "B-TOTAL", "I-TOTAL", "B-CITY", "B-CITY"}));
  EXPECT_THROW(there_and_back(at("pages.jsonl"),
                              [](json& tasks) { tasks[0]["annotations"][0]["result"][0]["original_width"] = 480; }),
               DataError);
}

TEST_F(RoundTrip, PredictionsBecomePredictionsAndAreNotTakenForLabels) {
  const fs::path found =
      file("found.jsonl", R"({"id": "p", "width": 100, "height": 100, "words": ["a", "b"], "boxes": [[0, 0, 10, 10], )"
                          R"([10, 0, 20, 10]], "labels": ["B-X", "I-X"], "probabilities": [0.9, 0.6], )"
                          R"("fields": [{"label": "X", "start_word": 0, "end_word": 2, "confidence": 0.6}]})");
  const std::vector<json> after = there_and_back(found);
  ASSERT_TRUE(tasks_[0].contains("predictions"));
  EXPECT_FALSE(tasks_[0].contains("annotations"));
  EXPECT_EQ(tasks_[0]["predictions"][0]["model_version"], "plimsoll");
  EXPECT_DOUBLE_EQ(tasks_[0]["predictions"][0]["score"], 0.6);
  EXPECT_DOUBLE_EQ(tasks_[0]["predictions"][0]["result"][0]["score"], 0.6);
  EXPECT_EQ(after[0]["words"], (json{"a", "b"}));
  EXPECT_FALSE(after[0].contains("labels"));
  EXPECT_THAT(lost(), HasSubstr("1 task has no annotation"));
}

TEST_F(RoundTrip, LinksAndFunsdsNames) {
  picture("funsd.pgm", 200, 100);
  const std::vector<json> after = there_and_back(sample("funsd.json"));
  EXPECT_EQ(after[0]["labels"], (json{"B-QUESTION", "B-ANSWER", "I-ANSWER", "O"}));
  EXPECT_EQ(after[0]["links"], (json{{0, 1}}));
  EXPECT_EQ(after[0]["entities"].size(), 3U);
  EXPECT_EQ(after[0]["boxes"][2], (json{90, 20, 140, 40}));
}

TEST_F(RoundTrip, BoxesInThousandthsBecomePixels) {
  const fs::path input = file("t.jsonl", R"({"id": "t", "width": 500, "height": 200, "words": ["w"], )"
                                         R"("boxes": [[100, 500, 200, 1000]], "labels": ["B-X"]})");
  const json tasks = json::parse(
      text(input, "label-studio",
           {.box_format = BoxFormat::k1000, .label_names = {"B-NEW", "I-NEW"}, .label_config = at("c.xml")}));
  EXPECT_EQ(tasks[0]["data"]["page"]["boxes"][0], (json{50, 100, 100, 200}));
  EXPECT_DOUBLE_EQ(tasks[0]["annotations"][0]["result"][0]["value"]["height"], 50);
  EXPECT_THAT(text_of(at("c.xml")), HasSubstr("<Label value=\"NEW\""));
  EXPECT_THAT(text_of(at("c.xml")), HasSubstr("<Label value=\"X\""));
  const json page = json::parse(text(input, "pages", {.box_format = BoxFormat::k1000}));
  EXPECT_EQ(page["boxes"], (json{{50, 100, 100, 200}}));
  EXPECT_EQ(page["labels"], (json{"B-X"}));
}

TEST_F(RoundTrip, ClassesOfPages) {
  const std::vector<json> after = there_and_back(
      file("c.jsonl", R"({"id": "c", "width": 10, "height": 10, "words": [], "boxes": [], "label": "taxi & bus"})"));
  EXPECT_EQ(after[0]["label"], "taxi & bus");
  EXPECT_THAT(text_of(at("config.xml")), HasSubstr("<Choice value=\"taxi &amp; bus\"/>"));
  // In a project of classes alone no word is said to be outside.
  const std::vector<json> words = there_and_back(file(
      "c.jsonl", R"({"id": "c", "width": 9, "height": 9, "words": ["a"], "boxes": [[1, 1, 2, 2]], "label": "taxi"})"));
  EXPECT_EQ(words[0]["words"], json{"a"});
  EXPECT_FALSE(words[0].contains("labels")) << words[0];
}

TEST_F(RoundTrip, NumbersAsLabelsOfPagesAreLost) {
  for (const char* label : {"3.5", "[0, 1, 1]", "[true, false]"}) {
    const std::string page =
        fmt::format(R"({{"id": "r", "width": 9, "height": 9, "words": [], "boxes": [], "label": {}}})", label);
    text(file("r.jsonl", page), "label-studio");
    EXPECT_THAT(lost(), HasSubstr("a number as its label")) << label;
  }
}

// Links name entities by their numbers, so that what words' labels add stands behind them.
TEST_F(RoundTrip, LabelsOfWordsStandBesideEntities) {
  const auto page = [](const char* labels) {
    return fmt::format(R"({{"id": "e", "width": 99, "height": 9, "words": ["a", "b", "c", "d"], "boxes": )"
                       R"([[1, 1, 9, 2], [11, 1, 19, 2], [21, 1, 29, 2], [31, 1, 39, 2]], "labels": {}, )"
                       R"("entities": [{{"label": "q", "start_word": 0, "end_word": 1}}]}})",
                       labels);
  };
  const std::vector<json> after = there_and_back(file("e.jsonl", page(R"(["O", "O", "B-D", "I-D"])")));
  EXPECT_EQ(after[0]["labels"], (json{"B-q", "O", "B-D", "I-D"}));
  EXPECT_THAT(lost(), testing::Not(HasSubstr("overlaps")));
  // A task has one of two that overlap.
  text(file("e.jsonl", page(R"(["B-D", "I-D", "O", "O"])")), "label-studio");
  EXPECT_THAT(lost(), HasSubstr("overlaps another of the page's `entities`"));
}

TEST_F(RoundTrip, LabelsThatAreTagsStayTheWordsLabels) {
  const std::vector<json> after = there_and_back(sample("pages.jsonl"), [](json& tasks) {
    json& result = tasks[0]["annotations"][0]["result"];
    result[0]["value"]["rectanglelabels"] = {"B-SUM"};
    result[2]["value"]["rectanglelabels"] = {"I-SUM"};
  });
  EXPECT_EQ(after[0]["labels"], (json{"O", "B-SUM", "I-SUM", "I-SUM", "B-CITY"}));
  // A name that only looks like a tag is a name.
  const std::vector<json> forms = there_and_back(sample("pages.jsonl"), [](json& tasks) {
    tasks[0]["annotations"][0]["result"][0]["value"]["rectanglelabels"] = {"I-94"};
  });
  EXPECT_EQ(forms[0]["labels"], (json{"O", "B-I-94", "I-I-94", "B-CITY", "B-CITY"}));
}

TEST_F(RoundTrip, LabelsThatAreNotKnownAreLostWithAWord) {
  text(file("u.jsonl", R"({"id": "u", "width": 9, "height": 9, "words": ["a", "b"], "boxes": )"
                       R"([[1, 1, 2, 2], [3, 3, 4, 4]], "labels": ["B-T", null]})"),
       "label-studio");
  EXPECT_THAT(lost(), HasSubstr("1 word's label is not known, which a task cannot express"));
}

class Conll : public ConvertTest {};

TEST_F(Conll, AWordAndItsTagALine) {
  EXPECT_EQ(text(sample("pages.jsonl"), "conll"),
            "TOTAL O\n12 B-TOTAL\n.50 I-TOTAL\nZürich_AG B-CITY\nBern B-CITY\n\nx O\n\n");
  EXPECT_THAT(lost(), HasSubstr("1 word or label has white space"));
}

TEST_F(Conll, PlainNamesGetTags) {
  const fs::path plain = file("p.jsonl", R"({"words": ["a", "b", "c"], "boxes": [], "labels": ["X", "X", "O"]})");
  EXPECT_THROW(text(plain, "conll"), DataError);  // another number of boxes than of words
  file("p.jsonl", R"({"words": ["a", "b", "c"], "labels": ["X", "X", "O"]})");
  EXPECT_EQ(text(plain, "conll"), "a B-X\nb I-X\nc O\n\n");
}

TEST_F(Conll, LabelsThatAreNotKnownBecomeO) {
  const fs::path pages = file("p.jsonl", R"({"words": ["a", "b", "c"], "labels": ["B-X", null, -100]})");
  EXPECT_EQ(text(pages, "conll"), "a B-X\nb O\nc O\n\n");
  EXPECT_THAT(lost(), HasSubstr("2 words' labels are not known and become O"));
  EXPECT_EQ(json::parse(text(pages, "pages"))["labels"], json({"B-X", nullptr, -100}));
}

TEST_F(Conll, PredictionsStandBesideTheData) {
  const fs::path found =
      file("found.jsonl", R"({"id": "b", "words": ["x"], "labels": ["B-CITY"], "probabilities": [0.5]})"
                          "\n");
  EXPECT_EQ(text(sample("pages.jsonl"), "conll", {.predictions = found}), "x O B-CITY\n\n");
  EXPECT_THAT(lost(), HasSubstr("2 pages have no prediction and are left out"));
  file("found.jsonl", R"({"id": "other", "words": ["x"], "labels": ["B-CITY"]})");
  EXPECT_THROW(text(at("pages.jsonl"), "conll", {.predictions = found}), DataError);
  file("found.jsonl", R"({"id": "b", "words": ["y"], "labels": ["B-CITY"]})");
  try {
    text(at("pages.jsonl"), "conll", {.predictions = found});
    FAIL() << "the page's word is x";
  } catch (const DataError& error) {
    EXPECT_EQ(error.problem().what, "a prediction has other words than its page");
  }
}

TEST_F(Conll, DocumentsOfPredictAreTheirPages) {
  const fs::path found = file("found.jsonl", R"({"document": "d", "fields": [], "pages": [)"
                                             R"({"id": "1", "words": ["a"], "labels": ["B-X"]},)"
                                             R"({"id": "2", "words": ["b"], "labels": ["O"]}]})");
  EXPECT_EQ(text(found, "conll"), "a B-X\n\nb O\n\n");
}

TEST_F(Conll, PagesWithoutLabelsAreRefused) {
  EXPECT_THROW(text(file("u.jsonl", R"({"id": "u", "words": ["a"]})"), "conll"), DataError);
}

// As `plimsoll ocr` writes them.
TEST_F(Annotations, WordsOfPagesThatAreUncertainAreLeftOut) {
  const fs::path input =
      file("o.jsonl", R"({"id": "o", "width": 9, "height": 9, "words": ["a", "~"], "boxes": )"
                      R"([[1, 1, 2.5, 2], [3, 3, 4, 4]], "confidences": [0.9, 0.2], "lines": [0, 1]})");
  const json page = json::parse(text(input, "pages", {.least_confidence = 0.5}));
  EXPECT_EQ(page["words"], json{"a"});
  EXPECT_EQ(page["boxes"], (json{{1, 1, 2.5, 2}}));
  EXPECT_EQ(page["confidences"], json{0.9});
  EXPECT_EQ(page["lines"], json{0});
  EXPECT_THAT(lost(), HasSubstr("1 word is less certain"));
  EXPECT_EQ(json::parse(text(input, "pages"))["words"], (json{"a", "~"}));
  // Answers count words, so that their pages stay whole.
  const fs::path asked = file("q.jsonl", R"({"id": "q", "width": 9, "height": 9, "words": ["~", "a"], "boxes": )"
                                         R"([[1, 1, 2, 2], [3, 3, 4, 4]], "confidences": [0.1, 0.9], "questions": )"
                                         R"([{"question": "?", "answers": [{"start_word": 1, "end_word": 2}]}]})");
  EXPECT_EQ(json::parse(text(asked, "pages", {.least_confidence = 0.5}))["words"], (json{"~", "a"}));
}

TEST_F(Annotations, PagesStayPagesWithTheirPicturesFound) {
  picture("in/img/a.pgm", 10, 10);
  const fs::path input =
      file("in/p.jsonl", R"({"id": "q", "image": "img/a.pgm", "words": ["w"], )"
                         R"("boxes": [[1.5, 0, 9, 9]], "questions": [{"question": "?", "answers": []}]})");
  const std::vector<json> found = pages(input);
  EXPECT_EQ(found[0]["image"], "in/img/a.pgm");
  EXPECT_EQ(found[0]["boxes"], (json{{1.5, 0, 9, 9}}));
  EXPECT_TRUE(found[0].contains("questions"));
}

}  // namespace
}  // namespace plimsoll::test
