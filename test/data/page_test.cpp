#include "data/page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/in_quotes.h"
#include "data/page_source.h"
#include "data/pages_fixture.h"

namespace plimsoll {
namespace {

using test::caught;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::HasSubstr;

PageError parse_error(std::string_view json) {
  return caught<PageError>([&] { parse_jsonl_page(json, "dir/a.jsonl", 7, {}); });
}

TEST(Page, ScalesPixelsAsPythonDoes) {
  // The result is int(1000 * x / width).
  EXPECT_EQ(scale_box({12, 40, 457, 1000}, 457, 1000, BoxFormat::kPixel), (Box1000{26, 40, 1000, 1000}));
  EXPECT_EQ(scale_box({0.5, -1, 99.9, 101}, 100, 100, BoxFormat::kPixel), (Box1000{5, -10, 999, 1010}));
  EXPECT_EQ(scale_box({12.9, 40, 457, 1000}, 0, 0, BoxFormat::k1000), (Box1000{12, 40, 457, 1000}));
  EXPECT_FALSE(box_on_page(scale_box({1e300, 0, 0, 0}, 10, 10, BoxFormat::kPixel)));
  EXPECT_FALSE(box_on_page(scale_box({-1e300, 0, 0, 0}, 10, 10, BoxFormat::kPixel)));
  EXPECT_FALSE(box_on_page(scale_box({std::numeric_limits<double>::quiet_NaN(), 0, 0, 0}, 1, 1, BoxFormat::k1000)));
  EXPECT_TRUE(box_on_page({0, 0, 1000, 1000}));
  EXPECT_FALSE(box_on_page({0, 0, 1001, 1000}));
}

TEST(Page, FindsInvalidUtf8) {
  EXPECT_EQ(invalid_utf8_offset("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), std::string_view::npos);
  EXPECT_EQ(invalid_utf8_offset("ab\xFF"), 2U);
  EXPECT_EQ(invalid_utf8_offset("\xC0\x80"), 0U);          // overlong
  EXPECT_EQ(invalid_utf8_offset("x\xED\xA0\x80"), 1U);     // surrogate
  EXPECT_EQ(invalid_utf8_offset("\xF4\x90\x80\x80"), 0U);  // beyond U+10FFFF
  EXPECT_EQ(invalid_utf8_offset("abc\xE2\x82"), 3U);       // cut
}

TEST(Page, QuotesWordsSafely) {
  EXPECT_EQ(in_quotes("TOTAL"), "\"TOTAL\"");
  EXPECT_EQ(in_quotes("a\x1b[2J"), "\"a\\x1b[2J\"");
  EXPECT_EQ(in_quotes(std::string(39, 'a') + "\xC3\xA9 and more"), "\"" + std::string(39, 'a') + "…\"");
}

TEST(PageJson, ReadsEveryKeyUnderItsNames) {
  const Page page = parse_jsonl_page(
      R"({"id": 12, "image": "images/a.png", "width": 100, "height": 200.0, "words": ["A", "B"],
          "boxes": [[1, 2, 3, 4], [5.5, 6, 7, 8]], "labels": ["O", "B-X"]})",
      "dir/a.jsonl", 7, {});
  EXPECT_EQ(page.id, "12");
  EXPECT_EQ(page.image, "dir/images/a.png");
  EXPECT_EQ(page.width, 100);
  EXPECT_EQ(page.height, 200);
  EXPECT_THAT(page.words, ElementsAre("A", "B"));
  EXPECT_THAT(page.labels, ElementsAre("O", "B-X"));
  EXPECT_EQ(page.boxes[1], (Box{5.5, 6, 7, 8}));
  EXPECT_EQ(place(page, 1), "dir/a.jsonl:7, page '12', word 1 (\"B\")");

  const Page other =
      parse_jsonl_page(R"({"image_path": "/abs/a.png", "tokens": ["A"], "bboxes": [[0, 0, 1, 1]], "ner_tags": [1]})",
                       "d/a.jsonl", 1, {.label_names = {"O", "B-X"}});
  EXPECT_EQ(other.image, "/abs/a.png");
  EXPECT_EQ(other.width, 0);
  EXPECT_THAT(other.labels, ElementsAre("B-X"));

  const Page unlabelled =
      parse_jsonl_page(R"({"image": "a", "words": ["A"], "boxes": [[0, 0, 1, 1]], "labels": null})", "a", 1, {});
  EXPECT_TRUE(unlabelled.labels.empty());
  const Page ignored = parse_jsonl_page(R"({"image": "a", "words": ["A"], "boxes": [[0, 0, 1, 1]], "labels": [3, 4]})",
                                        "a", 1, {.ignore_labels = true});
  EXPECT_TRUE(ignored.labels.empty());
}

TEST(PageJson, ReadsATextInPlaceOfWordsWhereThatIsAllowed) {
  const ReadOptions texts{.parts = {.boxes = false, .image = false}, .ignore_labels = true, .texts = true};
  const auto read = [&](const char* json, const ReadOptions& options) {
    return parse_jsonl_page(json, "a", 1, options);
  };
  const Page text = read(R"({"text": "All  of it.", "boxes": [[0, 0, 1, 1]]})", texts);
  EXPECT_TRUE(text.is_text);
  EXPECT_EQ(text.words, std::vector<std::string>{"All  of it."});
  EXPECT_TRUE(text.boxes.empty());
  EXPECT_TRUE(read(R"({"text": ""})", texts).words.empty());
  // Words come first: much data has the whole text beside them.
  const Page words = read(R"({"text": "All of it.", "words": ["All", "of", "it."]})", texts);
  EXPECT_FALSE(words.is_text);
  EXPECT_EQ(words.words.size(), 3U);
  const auto refused = [&](const char* json, const ReadOptions& options) {
    return caught<PageError>([&] { read(json, options); }).kind();
  };
  EXPECT_EQ(refused(R"({"text": ["All"]})", texts), "wrong-type");
  EXPECT_EQ(refused("{\"text\": \"\xff\"}", texts), "not-utf8");
  EXPECT_EQ(refused(R"({"image": "a", "text": "All"})", {}), "missing-key");
  const PageError error = caught<PageError>([&] { read(R"({"image": "a", "text": "All"})", {}); });
  EXPECT_EQ(error.problem().what, "a page has a `text` and no words");
}

TEST(PageJson, SaysWhatIsWrongAndWhere) {
  const auto cut = parse_error(R"({"id": "x", "words": ["A)");
  EXPECT_EQ(cut.kind(), "bad-json");
  EXPECT_EQ(cut.problem().what, "JSON ends too early");
  EXPECT_THAT(cut.problem().where, HasSubstr("dir/a.jsonl:7"));

  EXPECT_EQ(parse_error(R"({"id": "x" "words": []})").problem().what, "not valid JSON");
  EXPECT_EQ(parse_error(R"({"id": "x", "words": [],})").problem().what, "not valid JSON") << "a comma before the end";
  EXPECT_EQ(parse_error("[1, 2]").kind(), "bad-json");
  EXPECT_EQ(parse_error(R"({"id": "x", "words": []},)").problem().what, "a line has a comma behind its object");

  const auto nan = parse_error(R"({"image": "a", "words": ["A"], "boxes": [[NaN, 0, 1, 1]]})");
  EXPECT_EQ(nan.kind(), "not-finite");
  const auto word = parse_error(R"({"image": "a", "words": ["A", NaN], "boxes": [[0, 0, 1, 1], [0, 0, 1, 1]]})");
  EXPECT_EQ(word.kind(), "wrong-type");
  EXPECT_EQ(word.problem().found, "NaN");
  EXPECT_EQ(parse_error(R"({"id": -Infinity, "image": "a", "words": [], "boxes": []})").problem().found, "-Infinity");
  EXPECT_EQ(parse_error(std::string(R"({"image": "a", "words": [], "boxes": []})") + '\0' + "x").kind(), "bad-json");
  EXPECT_EQ(parse_error(R"({"image": "a", "words": ["A"], "boxes": [[1e999, 0, 1, 1]]})").kind(), "not-finite");

  const auto missing = parse_error(R"({"image": "a", "wordz": [], "boxes": []})");
  EXPECT_EQ(missing.kind(), "missing-key");
  EXPECT_EQ(missing.problem().found, "keys boxes, image, wordz");
  EXPECT_EQ(missing.problem().allowed, "words or tokens");

  const auto counts = parse_error(R"({"id": "p", "image": "a", "words": ["A", "B"], "boxes": [[0, 0, 1, 1]]})");
  EXPECT_EQ(counts.kind(), "counts-differ");
  EXPECT_EQ(counts.problem().found, "1 box, 2 words");
  EXPECT_EQ(parse_error(R"({"image": "a", "words": ["A"], "boxes": [[0, 0, 1, 1]], "labels": []})").kind(),
            "counts-differ");

  const auto three = parse_error(R"({"id": "p", "image": "a", "words": ["TOTAL"], "boxes": [[0, 0, 1]]})");
  EXPECT_EQ(three.kind(), "box-shape");
  EXPECT_EQ(three.problem().where, "dir/a.jsonl:7, page 'p', word 0 (\"TOTAL\")");
  EXPECT_EQ(three.problem().found, "[0, 0, 1]");
  EXPECT_EQ(parse_error(R"({"image": "a", "words": ["A"], "boxes": [[0, 0, "1", 1]]})").kind(), "box-shape");

  EXPECT_EQ(parse_error(R"({"image": "a", "words": ["A", 5], "boxes": []})").kind(), "wrong-type");
  EXPECT_EQ(parse_error(R"({"image": "a", "words": "A B", "boxes": []})").kind(), "wrong-type");
  EXPECT_EQ(parse_error(R"({"image": "a", "width": -4, "words": [], "boxes": []})").kind(), "wrong-type");
  EXPECT_EQ(parse_error(R"({"image": 3, "words": [], "boxes": []})").kind(), "wrong-type");
  for (const char* key : {"id", "document"}) {
    for (const char* value : {"[1]", "{}", "true"}) {
      const std::string line = fmt::format(R"({{"{}": {}, "image": "a", "words": [], "boxes": []}})", key, value);
      EXPECT_EQ(parse_error(line).kind(), "wrong-type") << line;
    }
  }
  const auto bytes = parse_error("{\"image\": \"a\", \"words\": [\"A\xFF\"], \"boxes\": []}");
  EXPECT_EQ(bytes.kind(), "not-utf8");
  EXPECT_EQ(bytes.problem().found, "byte 0xff");
}

// Printing such a value in a message would overflow the stack.
TEST(PageJson, RefusesEndlessNesting) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const PageError error = parse_error(R"({"image": "a", "words": [], "boxes": [], "id": )" + deep + "}");
  EXPECT_EQ(error.kind(), "bad-json");
  EXPECT_THAT(error.what(), HasSubstr("too deep"));
}

TEST(PageJson, RefusesFunsdWithoutText) {
  for (const char* text : {"", " \t"}) {
    const PageError error = caught<PageError>([&] { parse_funsd_page(text, "a.json", "a.png", {}); });
    EXPECT_EQ(error.kind(), "bad-json");
    EXPECT_THAT(error.what(), HasSubstr("ends too early"));
  }
}

TEST(PageJson, IntegerLabelsNeedNames) {
  const char* json = R"({"image": "a", "words": ["A"], "boxes": [[0, 0, 1, 1]], "ner_tags": [7]})";
  EXPECT_EQ(parse_error(json).kind(), "label-numbers");
  const auto error = caught<PageError>([&] { parse_jsonl_page(json, "a", 1, {.label_names = {"O", "B-X", "I-X"}}); });
  EXPECT_EQ(error.kind(), "label-unknown");
  EXPECT_EQ(error.problem().found, "7");
  EXPECT_EQ(error.problem().allowed, "0 to 2 (3 labels)");
}

TEST(PageSource, ReadsLinesWhateverTheirEnds) {
  const ScratchFolder folder;
  const std::string a = R"({"id": "a", "image": "a.png", "words": [], "boxes": []})";
  const std::string b = R"({"image": "b.png", "words": [], "boxes": []})";
  // The file has a byte order mark, Windows line ends, blank lines, and no newline at the end.
  const auto path = folder.write("data.jsonl", "\xEF\xBB\xBF" + a + "\r\n\r\n   \n" + b);
  const auto source = open_pages(path, {});
  ASSERT_EQ(source->size(), 2U);
  EXPECT_EQ(source->read(0).id, "a");
  EXPECT_EQ(source->read(1).id, "line 4");
  EXPECT_EQ(source->read(1).line, 4U);
  EXPECT_EQ(source->read(1).image, folder.path() / "b.png");
  EXPECT_GE(source->parsing_bytes(), a.size());
}

TEST(PageSource, FindsLinesAcrossChunks) {
  const ScratchFolder folder;
  std::string text;
  constexpr std::size_t kPages = 3000;  // some 3 MB: several chunks
  for (std::size_t i = 0; i < kPages; ++i) {
    text += R"({"id": ")" + std::to_string(i) + R"(", "image": "a", "words": [")" + std::string(i % 2000, 'x') +
            R"("], "boxes": [[0, 0, 1, 1]]})" + "\n";
  }
  const auto source = open_pages(folder.write("data.jsonl", text), {});
  ASSERT_EQ(source->size(), kPages);
  for (std::size_t i = 0; i < kPages; ++i) {
    const Page page = source->read(i);
    ASSERT_EQ(page.id, std::to_string(i));
    ASSERT_EQ(page.words[0].size(), i % 2000);
    ASSERT_EQ(page.line, i + 1);
  }
}

TEST(PageSource, RefusesWhatIsNoDataFile) {
  const ScratchFolder folder;
  EXPECT_THROW(open_pages(folder.path() / "none.jsonl", {}), DataError);
  EXPECT_THROW(open_pages(folder.path(), {}), DataError);
  EXPECT_THROW(open_pages(folder.write("empty.jsonl", "\n \n"), {}), DataError);
  EXPECT_THROW(open_pages(folder.write("zero.jsonl", ""), {}), DataError);
  const auto long_line = folder.write("long.jsonl", std::string(5000, ' ') + "x\n");
  const auto error = caught<DataError>([&] { open_pages(long_line, {.max_page_bytes = 1000}); });
  EXPECT_THAT(error.problem().where, HasSubstr("long.jsonl:1"));
  const auto usage = caught<UsageError>([&] { open_pages(long_line, {.segment_boxes = true}); });
  EXPECT_EQ(usage.exit_code(), ExitCode::kUsage);
}

TEST(PageSource, ReadsSeveralFilesAsOne) {
  const ScratchFolder folder;
  const auto line = [](const std::string& word, const std::string& id = "") {
    return R"({"image": ")" + word + R"(.png", )" + (id.empty() ? "" : R"("id": ")" + id + R"(", )") +
           R"("words": [")" + word + R"("], "boxes": [[1, 2, 3, 4]]})" + "\n";
  };
  const auto a = folder.write("one/a.jsonl", line("a0") + "\n" + line("a1", "x"));
  const auto b = folder.write("two/b.jsonl", line("b0") + line("b1") + R"({"words": 7})" + "\n");
  folder.write("funsd/annotations/c.json",
               R"({"form": [{"label": "x", "words": [{"text": "c", "box": [1, 2, 3, 4]}]}]})");
  const PagePaths paths = {a, b, folder.path() / "funsd"};
  const auto source = open_pages(paths, {});
  ASSERT_EQ(source->size(), 6U);
  EXPECT_THAT(source->paths(), ElementsAre(a, b, folder.path() / "funsd"));
  // Pages follow one another; image paths are relative to the file that names them.
  EXPECT_THAT(source->read(1).words, ElementsAre("a1"));
  EXPECT_THAT(source->read(2).words, ElementsAre("b0"));
  EXPECT_THAT(source->read(5).words, ElementsAre("c"));
  EXPECT_EQ(source->read(3).image, folder.path() / "two/b1.png");
  // Messages and ids name the file.
  EXPECT_EQ(place(source->read(1)), a.string() + ":3, page 'x'");
  EXPECT_EQ(source->read(0).id, a.string() + " line 1");
  EXPECT_EQ(source->read(3).id, b.string() + " line 2");
  EXPECT_EQ(open_pages(b, {})->read(1).id, "line 2");
  const auto error = caught<PageError>([&] { source->read(4); });
  EXPECT_THAT(error.problem().where, HasSubstr("two/b.jsonl:3"));
  EXPECT_THROW(source->read(6), std::out_of_range);
  EXPECT_GE(source->parsing_bytes(), open_pages(b, {})->parsing_bytes());
  EXPECT_GE(source->host_bytes(), open_pages(a, {})->host_bytes() + open_pages(b, {})->host_bytes());
}

TEST(PageSource, PatternsNameFilesInTheirOrder) {
  const ScratchFolder folder;
  for (const char* name : {"t-10.jsonl", "t-02.jsonl", "t-01.jsonl", "v.jsonl", "odd[1].jsonl"})
    folder.write(name, "{}\n");
  const std::string root = folder.path().string() + "/";
  const auto match = [&](const std::vector<std::string>& given) { return match_paths(given); };
  EXPECT_THAT(match({root + "t-*.jsonl"}), ElementsAre(root + "t-01.jsonl", root + "t-02.jsonl", root + "t-10.jsonl"));
  EXPECT_THAT(match({root + "v.jsonl", root + "t-0?.jsonl"}),
              ElementsAre(root + "v.jsonl", root + "t-01.jsonl", root + "t-02.jsonl"));
  EXPECT_THAT(match({root + "odd[1].jsonl"}), ElementsAre(root + "odd[1].jsonl"));  // a file of exactly this name
  EXPECT_THAT(match({root + "absent.jsonl"}), ElementsAre(root + "absent.jsonl"));  // opening it reports the error
  const auto error = caught<DataError>([&] { match({root + "x-*.jsonl"}); });
  EXPECT_THAT(error.problem().where, HasSubstr("x-*.jsonl"));
  EXPECT_TRUE(match({}).empty());
}

TEST(PageSource, ReadsFunsd) {
  const ScratchFolder folder;
  folder.write("annotations/b.json", R"({"form": []})");
  folder.write("annotations/a.json", R"({"form": [
    {"box": [10, 20, 90, 40], "label": "question", "id": 0, "linking": [], "text": "Ship date:",
     "words": [{"box": [10, 20, 40, 40], "text": "Ship"}, {"box": [45, 20, 90, 40], "text": "date:"}]},
    {"box": [1, 2, 3, 4], "label": "other", "words": [{"box": [1, 2, 3, 4], "text": "x"}, {"box": [1, 2, 3, 4], "text": " "}]},
    {"box": [1, 2, 3, 4], "label": "answer", "words": [{"box": [1, 2, 3, 4], "text": ""}, {"box": [5, 6, 7, 8], "text": "y"}]}
  ]})");
  folder.write("images/a.jpg", "");
  const auto source = open_pages(folder.path(), {});
  ASSERT_EQ(source->size(), 2U);
  const Page page = source->read(0);
  EXPECT_EQ(page.id, "a");
  EXPECT_EQ(page.image, folder.path() / "images/a.jpg");
  EXPECT_THAT(page.words, ElementsAre("Ship", "date:", "x", "y"));
  EXPECT_THAT(page.labels, ElementsAre("B-QUESTION", "I-QUESTION", "O", "B-ANSWER"));
  EXPECT_EQ(page.boxes[1], (Box{45, 20, 90, 40}));

  const Page segments = open_pages(folder.path(), {.segment_boxes = true})->read(0);
  EXPECT_EQ(segments.boxes[0], (Box{10, 20, 90, 40}));
  EXPECT_EQ(segments.boxes[1], (Box{10, 20, 90, 40}));

  folder.write("annotations/c.json", R"({"form": [{"label": "x", "words": [{"text": "TOTAL"}]}]})");
  const auto error = caught<PageError>([&] { open_pages(folder.path(), {})->read(2); });
  EXPECT_EQ(error.kind(), "missing-key");
  EXPECT_THAT(error.problem().where, HasSubstr("annotations/c.json, page 'c'"));
}

}  // namespace
}  // namespace plimsoll
