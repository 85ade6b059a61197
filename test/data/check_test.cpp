#include "data/check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/pages_fixture.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::image_file;
using test::ScratchFolder;
using test::tokenized;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Findings, GroupsByKind) {
  Findings findings;
  for (int i = 0; i < 9; ++i) {
    findings.add(Severity::kWarning, "odd",
                 {.what = "odd", .where = fmt::format("page {}", i), .found = fmt::format("{}", i)});
  }
  findings.add(Severity::kError, "bad", {.what = "bad", .where = "page 3", .allowed = "good", .remedy = "mend"});
  EXPECT_EQ(findings.count(Severity::kWarning), 9U);
  EXPECT_EQ(findings.count("bad"), 1U);
  const auto sorted = findings.sorted();
  ASSERT_EQ(sorted.size(), 2U);
  EXPECT_EQ(sorted[0].kind, "bad");
  ASSERT_EQ(sorted[1].places.size(), 5U);
  EXPECT_EQ(sorted[1].places[4], (Finding::Place{"page 4", "4"}));
  EXPECT_EQ(sorted[1].first.found, "0");
  EXPECT_EQ(findings.to_text(),
            "error [bad] bad\n  where:   page 3\n  allowed: good\n  to do:   mend\n"
            "warning [odd] odd (9 times)\n  where:   page 0: 0\n           page 1: 1\n           page 2: 2\n"
            "           page 3: 3\n           page 4: 4\n           and 4 more\n");
  EXPECT_THAT(findings.to_lines(Severity::kWarning), ElementsAre("[odd] odd (9 times, first at page 0): 0"));
  const auto json = nlohmann::json::parse(findings.to_json());
  EXPECT_EQ(json[0]["severity"], "error");
  EXPECT_EQ(json[1]["count"], 9);
  EXPECT_EQ(json[1]["places"].size(), 5U);
  EXPECT_EQ(json[1]["found_at_places"][3], "3");

  Findings more;
  more.add(Severity::kError, "bad", {.what = "bad", .where = "page 7"});
  more.add(Severity::kInfo, "new", {.what = "new"});
  findings.merge(more);
  EXPECT_EQ(findings.count("bad"), 2U);
  EXPECT_EQ(findings.sorted()[0].places[1].where, "page 7");
  const DataError error = findings.to_error("a.jsonl");
  EXPECT_EQ(error.exit_code(), ExitCode::kData);
  EXPECT_EQ(error.problem().where, "page 3");
  EXPECT_EQ(error.problem().remedy, "mend; 1 more error in a.jsonl: plimsoll check lists all kinds");
}

// What is allowed at one place is not shown for another.
TEST(Findings, AreGroupedByWhatIsWrong) {
  Findings findings;
  findings.add(Severity::kError, "wrong-type", {.what = "not an array", .where = "page 1", .allowed = "an array"});
  findings.add(Severity::kError, "wrong-type", {.what = "not a string", .where = "page 2", .allowed = "a string"});
  findings.add(Severity::kError, "wrong-type", {.what = "not an array", .where = "page 3", .allowed = "an array"});
  ASSERT_EQ(findings.sorted().size(), 2U);
  EXPECT_EQ(findings.sorted()[0].count, 2U);
  EXPECT_EQ(findings.sorted()[1].places[0].where, "page 2");
  EXPECT_EQ(findings.count("wrong-type"), 3U);
  Findings merged;
  merged.merge(findings);
  EXPECT_EQ(merged.to_json(), findings.to_json());
}

class CheckTest : public testing::Test {
 protected:
  // A page with one word, which the caller makes invalid.
  std::string page(std::string_view id, std::string_view box = "[0, 0, 10, 10]", std::string_view label = "O",
                   std::string_view word = "AB", std::string image = image_file("rgb.png")) {
    return fmt::format(R"({{"id": "{}", "image": "{}", "width": 61, "height": 47, "words": ["{}"], )"
                       R"("boxes": [{}], "labels": ["{}"]}})"
                       "\n",
                       id, image, word, box, label);
  }
  CheckReport run(const std::string& text, CheckOptions options = {}) {
    const auto source = tokenized(folder_.write("data.jsonl", text));
    options.labels = &labels_;
    options.tokens = source.get();
    return check_pages(*source, options);
  }

  ScratchFolder folder_;
  LabelSet labels_ = LabelSet::parse("O,B-X");
};

TEST_F(CheckTest, SaysHowLabelsAreRead) {
  // A page of five words.
  const auto with_labels = [&](std::string_view id, const std::string& labels) {
    const std::string box = "[0, 0, 10, 10]";
    return fmt::format(
        R"({{"id": "{0}", "image": "{1}", "width": 61, "height": 47, "words": ["A", "B", "C", "D", "E"], )"
        R"("boxes": [{2}, {2}, {2}, {2}, {2}], "labels": [{3}]}})"
        "\n",
        id, image_file("rgb.png"), box, labels);
  };
  const auto orders = [&](const std::string& names, const std::string& labels) {
    labels_ = LabelSet::parse(names);
    const Findings found = run(with_labels("a", labels)).findings;
    for (const Finding& finding : found.sorted()) {
      if (finding.kind == "tag-order") return finding.places;
    }
    return std::vector<Finding::Place>();
  };
  const auto infos = [&](const std::string& names, const std::string& labels) {
    labels_ = LabelSet::parse(names);
    std::string what;
    for (const Finding& finding : run(with_labels("a", labels)).findings.sorted()) {
      if (finding.kind == "label-scheme" && finding.severity == Severity::kInfo) what += finding.first.what;
    }
    return what;
  };

  // In IOB1, I- begins, and B- only occurs where two entities of a type touch. A B- elsewhere means IOB2 with faults.
  EXPECT_THAT(orders("O,B-X,I-X", R"("I-X", "B-X", "I-X", "O", "I-X")"), testing::IsEmpty());
  EXPECT_THAT(infos("O,B-X,I-X", R"("I-X", "B-X", "I-X", "O", "I-X")"), testing::HasSubstr("IOB1"));
  EXPECT_EQ(orders("O,B-X,I-X", R"("I-X", "B-X", "O", "B-X", "I-X")").size(), 1U);
  EXPECT_EQ(infos("O,B-X,I-X", R"("I-X", "B-X", "O", "B-X", "I-X")"), "");
  EXPECT_THAT(infos("O,X", R"("X", "X", "X", "O", "O")"), testing::HasSubstr("separate type"));

  const std::string bioes = "O,B-X,I-X,E-X,S-X,B-Y,I-Y,E-Y,S-Y", bilou = "O,B-X,I-X,L-X,U-X";
  EXPECT_THAT(orders(bioes, R"("B-X", "I-X", "E-X", "S-Y", "S-X")"), testing::IsEmpty());
  EXPECT_THAT(orders(bilou, R"("B-X", "L-X", "U-X", "U-X", "O")"), testing::IsEmpty());
  const auto found = [](const std::vector<Finding::Place>& places) {
    std::vector<std::string> all;
    for (const Finding::Place& place : places) all.push_back(place.found);
    return all;
  };
  EXPECT_THAT(found(orders(bioes, R"("B-X", "O", "E-X", "B-Y", "E-X")")),
              testing::ElementsAre("O after B-X", "E-X after O", "E-X after B-Y"));
  EXPECT_THAT(found(orders(bilou, R"("I-X", "L-X", "B-X", "U-X", "B-X")")),
              testing::ElementsAre("I-X after the beginning", "U-X after B-X", "the page's end after B-X"));
  EXPECT_THAT(found(orders("O,I-X,E-X", R"("E-X", "I-X", "E-X", "E-X", "O")")), testing::IsEmpty());  // IOE
}

// Two tags of BIOES among a hundred of IOB are the mistake, not the hundred.
TEST_F(CheckTest, AFewTagsOfAnotherSchemeAreNamed) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    const bool odd = i == 7;
    text += page(fmt::format("p{}", i), "[0, 0, 10, 10]", odd ? "S-X" : "B-X") + page(fmt::format("q{}", i));
  }
  labels_ = LabelSet::parse("O,B-X,I-X,S-X");
  const Findings findings = run(text).findings;
  EXPECT_EQ(findings.count("tag-order"), 0U);
  ASSERT_EQ(findings.count("label-scheme"), 1U);
  EXPECT_THAT(findings.to_text(), HasSubstr("page 'p7', word 0"));
}

// BIOES of long entities has few ends beside the words within, but as many as beginnings.
TEST_F(CheckTest, EndsOfLongEntitiesAreNoMistakes) {
  labels_ = LabelSet::parse("O,B-X,I-X,E-X,S-X");
  std::string text;
  for (int i = 0; i < 4; ++i) {
    std::string words, boxes, labels;
    for (int w = 0; w < 80; ++w) {
      const bool wrong = i == 2 && w == 40;
      words += fmt::format("{}\"w{}\"", w == 0 ? "" : ", ", w);
      boxes += fmt::format("{}[0, 0, 10, 10]", w == 0 ? "" : ", ");
      labels += fmt::format("{}\"{}-X\"", w == 0 ? "" : ", ", w == 0 ? 'B' : w == 79 ? 'E' : wrong ? 'S' : 'I');
    }
    text += fmt::format(R"({{"id": "p{}", "image": "{}", "width": 61, "height": 47, "words": [{}], "boxes": [{}], )"
                        R"("labels": [{}]}})"
                        "\n",
                        i, image_file("rgb.png"), words, boxes, labels);
  }
  const Findings findings = run(text).findings;
  EXPECT_EQ(findings.count("label-scheme"), 0U);
  EXPECT_GT(findings.count("tag-order"), 0U);
}

// A label is data: it neither ends a line of a message nor moves a terminal's cursor.
TEST_F(CheckTest, LabelsAreShownWithoutControlCharacters) {
  labels_ = LabelSet::parse("O,B-X,I-X");
  const std::string text =
      page("a", "[0, 0, 10, 10]", "B-X") + page("b", "[0, 0, 10, 10]", "I-A\\n  to do:   send \\u001b[31mmoney");
  EXPECT_EQ(run(text).findings.to_text().find("\x1B"), std::string::npos);
  EXPECT_EQ(run(text).findings.to_text().find("\n  to do:   send"), std::string::npos);
}

// In a new head a misspelt label would be a class of its own.
TEST_F(CheckTest, SaysThatARareLabelMayBeMisspelt) {
  const auto misspelt = [this](const std::string& rare, const std::string& usual, int times) {
    labels_ = LabelSet::parse("O,B-" + rare + ",B-" + usual);
    std::string text;
    for (int i = 0; i < 120; ++i) {
      text += page("page" + std::to_string(i), "[0, 0, 10, 10]", "B-" + (i < times ? rare : usual));
    }
    return run(text).findings.count("label-misspelt");
  };
  EXPECT_EQ(misspelt("TOTLA", "TOTAL", 1), 1U);
  EXPECT_EQ(misspelt("COMPNAY", "COMPANY", 5), 1U);
  EXPECT_EQ(misspelt("TOTLA", "TOTAL", 6), 0U);  // as often as that, it is meant
  EXPECT_EQ(misspelt("DATE", "RATE", 1), 0U);    // short words are often alike
  for (const char* rare : {"DAET", "DAT", "DTE"}) EXPECT_EQ(misspelt(rare, "DATE", 1), 1U) << rare;
  EXPECT_EQ(misspelt("DAT", "DATE", 4), 0U);
  EXPECT_EQ(misspelt("LINE12", "LINE13", 1), 0U);  // a number tells them apart
  EXPECT_EQ(misspelt("ADDRESS", "COMPANY", 1), 0U);
  for (const char* other : {"Total", "total"}) EXPECT_EQ(misspelt(other, "TOTAL", 1), 1U) << other;
  EXPECT_EQ(misspelt("Inv", "INV", 60), 1U) << "short and frequent, but the same in small letters";
  // That needs no statistics.
  labels_ = LabelSet::parse("O,B-Total,B-TOTAL");
  const std::string two = page("a", "[0, 0, 10, 10]", "B-Total") + page("b", "[0, 0, 10, 10]", "B-TOTAL");
  EXPECT_EQ(run(two).findings.count("label-misspelt"), 1U);
}

TEST_F(CheckTest, OfWordsThatAreAllOutsideNothingIsLearnt) {
  const auto found = [this](const std::string& label) {
    return run(page("a", "[0, 0, 10, 10]", label), {.labels_required = true}).findings.count("nothing-to-learn");
  };
  EXPECT_EQ(found("O"), 1U);
  EXPECT_EQ(found("B-X"), 0U);
}

// Where the file tells segments, all pages may have words' boxes.
TEST_F(CheckTest, WordBoxesAreSaidAsTheyAre) {
  std::string text;
  for (int p = 0; p < 3; ++p) {
    nlohmann::json line = {{"id", p}, {"image", image_file("rgb.png")}, {"width", 61}, {"height", 47}};
    for (int w = 0; w < 10; ++w) {
      line["words"].push_back(fmt::format("W{}", w));
      line["boxes"].push_back({5 * w, p, 5 * w + 4, 10});
      line["labels"].push_back("O");
    }
    text += line.dump() + "\n";
  }
  const auto what = [&](bool segments_known) {
    const Findings findings = run(text, {.segments_known = segments_known}).findings;
    for (const Finding& finding : findings.sorted()) {
      if (finding.kind == "word-boxes") return finding.first.what;
    }
    return std::string();
  };
  EXPECT_EQ(what(true), "a page has word boxes, though its file says which words form a segment");
  EXPECT_EQ(what(false), "every word has a box of its own");
}

// Pages that follow one another and name the same document make it up.
TEST_F(CheckTest, MeasuresPagesAndDocuments) {
  const auto pages = [](std::initializer_list<std::pair<int, const char*>> all) {
    std::string text;
    for (const auto& [words, document] : all) {
      nlohmann::json page = {{"image", image_file("rgb.png")},
                             {"words", std::vector<std::string>(static_cast<std::size_t>(words), "AB")},
                             {"boxes", std::vector<std::vector<int>>(static_cast<std::size_t>(words), {0, 0, 10, 10})},
                             {"width", 61},
                             {"height", 47}};
      if (*document != 0) page["document"] = document;
      text += page.dump() + "\n";
    }
    return text;
  };
  const PageSizes sizes = run(pages({{3, ""}, {2, "a"}, {4, "a"}, {5, "b"}, {1, "a"}, {3, "a"}, {9, ""}})).sizes;
  EXPECT_EQ(sizes.page.words, 9U);
  EXPECT_EQ(sizes.document.words, 6U);
  EXPECT_EQ(sizes.all.words, 27U);
}

TEST_F(CheckTest, NullIsNoImage) {
  const Findings findings = run(R"({"image": null, "words": ["a"], "boxes": [[0, 0, 1, 1]]})"
                                "\n")
                                .findings;
  ASSERT_EQ(findings.count("missing-key"), 1U);
  EXPECT_EQ(findings.sorted()[0].first.found, "keys boxes, image (null), words");
}

TEST_F(CheckTest, GoodPagesHaveNoFindings) {
  const CheckReport report = run(page("a") + page("b", "[0, 0, 61, 47]", "B-X", "ABC"));
  EXPECT_TRUE(report.findings.empty()) << report.findings.to_text();
  EXPECT_EQ(report.pages, 2U);
  EXPECT_EQ(report.words, 2U);
  EXPECT_EQ(report.labelled_words, 1U);
  EXPECT_EQ(report.tokens, 5U);
  EXPECT_EQ(report.windows, 2U);
  EXPECT_EQ(report.longest_page_tokens, 3U);
}

// The tokenizer makes one token per byte of these words, as for a language that it has never seen.
TEST_F(CheckTest, WarnsOfWordsThatBecomeManyTokens) {
  const auto found = [&](const std::string& word, int pages) {
    std::string text;
    for (int i = 0; i < pages; ++i) text += page(fmt::format("p{}", i), "[0, 0, 10, 10]", "O", word);
    return run(text).findings;
  };
  EXPECT_EQ(found("abcdefgh", 120).count("words-shattered"), 1U);
  EXPECT_THAT(found("abcdefgh", 120).to_text(), HasSubstr("8.0 tokens per word"));
  EXPECT_EQ(found("abcdef", 120).count("words-shattered"), 0U);
  EXPECT_EQ(found("abcdefgh", 50).count("words-shattered"), 0U) << "a few words prove nothing";
}

// There is nothing to learn from an empty scan, but it has a prediction.
TEST_F(CheckTest, EmptyPagesAreFaultsWhereLabelsAreNeeded) {
  const std::string text = page("a") + R"({"id": "j", "image": "none.png", "words": [], "boxes": []})"
                                       "\n";
  const Findings needed = run(text, {.labels_required = true}).findings, not_needed = run(text).findings;
  EXPECT_EQ(needed.count("empty-page"), 1U);
  EXPECT_EQ(not_needed.count("empty-page"), 0U);
  EXPECT_EQ(not_needed.count("image-missing"), 1U) << "the page goes on";
  EXPECT_EQ(needed.count("image-missing"), 1U);
}

TEST_F(CheckTest, FindsEveryFaultAndGoesOn) {
  const ScratchFolder images;
  const CheckReport report =
      run(page("a", "[0, 0, 62, 10]") + page("b", "[-1, 0, 10, 10]") + page("c", "[0, 0, 1]") + "{\"id\": \"cut\n" +
          page("d", "[0, 0, 10, 10]", "B-Y") + page("e", "[0, 0, 10, 10]", "O", "AB", "none.png") +
          page("f", "[0, 0, 10, 10]", "O", "AB", image_file("refused_bomb.png")) +
          page("g", "[0, 0, 10, 10]", "O", "AB", image_file("refused_cut.jpg")) + page("h", "[10, 0, 5, 10]") +
          page("h", "[NaN, 0, 5, 10]") + page("a") + page("i", "[0, 0, 10, 10]", "O", "") +
          R"({"id": "k", "image": "none.png", "words": ["A"], "boxes": []})"
          "\n");
  const Findings& found = report.findings;
  EXPECT_EQ(found.count("box-outside"), 2U);
  EXPECT_EQ(found.count("box-shape"), 1U);
  EXPECT_EQ(found.count("bad-json"), 1U);
  EXPECT_EQ(found.count("label-unknown"), 1U);
  EXPECT_EQ(found.count("image-missing"), 2U) << "a page goes on behind its first fault";
  EXPECT_EQ(found.count("image-too-large"), 1U);
  EXPECT_EQ(found.count("image-unreadable"), 1U);
  EXPECT_EQ(found.count("box-inverted"), 1U);
  EXPECT_EQ(found.count("not-finite"), 1U);
  EXPECT_EQ(found.count("duplicate-id"), 2U);
  EXPECT_EQ(found.count("word-without-tokens"), 1U);
  EXPECT_EQ(found.count("counts-differ"), 1U);
  EXPECT_EQ(found.count(Severity::kError), 11U);
  EXPECT_EQ(found.count(Severity::kWarning), 4U);
  const auto first = found.sorted().front();
  EXPECT_EQ(first.kind, "box-outside");
  EXPECT_EQ(first.first.found, "[0, 0, 62, 10]");
  EXPECT_EQ(first.first.allowed, "x from 0 to 61, y from 0 to 47 (pixels)");
  EXPECT_THAT(first.places[1].where, HasSubstr("data.jsonl:2, page 'b', word 0 (\"AB\")"));
}

TEST_F(CheckTest, KnowsWhatLongPagesWillBecome) {
  const std::string text = page("a", "[0, 0, 1, 1]", "O", "ABCDEFGH") + page("b");
  WindowOptions windows{.max_length = 7, .stride = 1};
  const CheckReport cut = run(text, {.windows = windows});
  EXPECT_EQ(cut.findings.count("long-page"), 1U);
  EXPECT_EQ(cut.findings.count(Severity::kError), 0U);
  EXPECT_EQ(cut.windows, 3U);
  windows.long_pages = LongPages::kRefuse;
  EXPECT_EQ(run(text, {.windows = windows}).findings.count("page-too-long"), 1U);
  windows.long_pages = LongPages::kTruncate;
  EXPECT_EQ(run(text, {.windows = windows}).findings.count("words-lost"), 0U) << "the word is there, though cut";
}

TEST_F(CheckTest, WantsLabelsWhereTheyAreNeeded) {
  const std::string text =
      fmt::format(R"({{"id": "a", "image": "{}", "words": ["A"], "boxes": [[0, 0, 1, 1]]}})", image_file("rgb.png"));
  EXPECT_TRUE(run(text).findings.empty());
  EXPECT_EQ(run(text, {.labels_required = true}).findings.count("labels-missing"), 1U);
}

TEST_F(CheckTest, DecodesImagesWhenAsked) {
  std::string png = read_text_file(image_file("rgb.png"));
  for (std::size_t i = 300; i < 900; ++i) png[i] = '\0';
  folder_.write("broken.png", png);
  const std::string text = page("a", "[0, 0, 10, 10]", "O", "AB", "broken.png");
  EXPECT_TRUE(run(text).findings.empty());
  const CheckReport decoded = run(text, {.decode_images = true});
  EXPECT_EQ(decoded.findings.count("image-unreadable"), 1U);
  EXPECT_THAT(decoded.findings.sorted()[0].places[0].where, HasSubstr("data.jsonl:1, page 'a', image "));
}

TEST(TokenizerSize, MustFitTheEmbedding) {
  const auto severity = [](std::int64_t ids, std::int64_t rows) {
    Findings findings;
    check_tokenizer_size(ids, rows, "tokenizer.json", findings);
    return findings.empty() ? Severity::kInfo : findings.sorted()[0].severity;
  };
  EXPECT_EQ(severity(50265, 50265), Severity::kInfo);
  EXPECT_EQ(severity(50265, 50304), Severity::kInfo) << "rows rounded up";
  EXPECT_EQ(severity(50266, 50265), Severity::kError);
  EXPECT_EQ(severity(8000, 50265), Severity::kWarning);
}

TEST_F(CheckTest, WarnsOfASizeThatIsNotTheImages) {
  const std::string text = fmt::format(
      R"({{"id": "a", "image": "{}", "width": 100, "height": 100, "words": ["A"], "boxes": [[0, 0, 90, 90]]}})",
      image_file("rgb.png"));
  EXPECT_EQ(run(text).findings.count("image-size"), 1U);
  EXPECT_TRUE(run(text, {.box_format = BoxFormat::k1000}).findings.empty());
}

}  // namespace
}  // namespace plimsoll
