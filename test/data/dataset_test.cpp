#include "data/dataset.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "data/check.h"
#include "data/pages_fixture.h"
#include "harness/paths.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::caught;
using test::image_file;
using test::ScratchFolder;
using test::small_processor;
using test::tokenized;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Three words of 1, 3 and 2 tokens on a page of 100 x 200 pixels.
std::string page_json(const std::string& image, std::string_view labels = R"(["O", "B-X", "I-X"])") {
  return fmt::format(R"({{"id": "p", "image": "{}", "width": 100, "height": 200, "words": ["A", "BCD", "EF"],
      "boxes": [[1, 2, 3, 4], [10, 20, 30, 40], [50, 60, 100, 200]], "labels": {}}})",
                     image, labels);
}

std::string one_line(std::string text) {
  std::erase(text, '\n');
  return text + "\n";
}

Dataset open(const fs::path& path, DatasetOptions options) {
  const ReadOptions reading{.ignore_labels = !options.labels};
  return Dataset(tokenized(path, reading), small_processor(), std::move(options));
}

TEST(Dataset, EncodesAPage) {
  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", one_line(page_json(image_file("rgb.png"))));
  const Dataset data = open(path, {.labels = LabelSet::parse("O,B-X,I-X")});
  ASSERT_EQ(data.size(), 1U);
  EXPECT_EQ(data.examples()[0].tokens, 8);
  EXPECT_EQ(data.examples()[0].loss_terms, 3);
  EXPECT_EQ(data.longest_example(), 8);

  Dataset::Scratch scratch;
  EncodedExample example;
  std::vector<std::uint8_t> pixels(data.image_processor().pixel_count());
  data.load(0, scratch, example, pixels);
  EXPECT_THAT(example.input_ids, ElementsAre(0, 'A', 'B', 'C', 'D', 'E', 'F', 2));
  EXPECT_THAT(example.labels, ElementsAre(-100, 0, 1, -100, -100, 2, -100, -100));
  EXPECT_THAT(example.predicts, ElementsAre(-1, 0, 1, -1, -1, 2, -1, -1));
  EXPECT_THAT(example.bbox, ElementsAre(Box1000{}, Box1000{10, 10, 30, 20}, Box1000{100, 100, 300, 200},
                                        Box1000{100, 100, 300, 200}, Box1000{100, 100, 300, 200},
                                        Box1000{500, 300, 1000, 1000}, Box1000{500, 300, 1000, 1000}, Box1000{}));
  std::vector<std::uint8_t> expected(pixels.size());
  Resampler resampler;
  data.image_processor().load(image_file("rgb.png"), resampler, expected);
  EXPECT_EQ(pixels, expected);
}

TEST(Dataset, WordsWhoseLabelIsNotKnownHaveNoLoss) {
  const ScratchFolder folder;
  const PageParts text{.boxes = false, .image = false};
  const auto path =
      folder.write("a.jsonl", R"({"words": ["A", "BC", "D", "EFGHI", "J"], "labels": [null, "B-X", -100, "O", null]})");
  const Dataset data(tokenized(path, {.parts = text}), small_processor(),
                     {.parts = text,
                      .windows = {.max_length = 10, .stride = 0, .long_pages = LongPages::kTruncate},
                      .labels = LabelSet::parse("O,B-X")});
  ASSERT_EQ(data.size(), 1U);
  EXPECT_EQ(data.examples()[0].loss_terms, 2);
  EXPECT_EQ(data.lost_words(), 1U);
  EXPECT_TRUE(data.missed_words(0).empty()) << "J is cut off, but what it is was not known";
  Dataset::Scratch scratch;
  EncodedExample example;
  data.load(0, scratch, example);
  EXPECT_THAT(example.labels, ElementsAre(-100, -100, 1, -100, -100, 0, -100, -100, -100, -100));
  EXPECT_THAT(example.predicts, ElementsAre(-1, 0, 1, -1, 2, 3, -1, -1, -1, -1)) << "they are predicted";
  EXPECT_EQ(LabelSet::from_pages(data.source()).names(), LabelSet::parse("O,B-X,I-X").names());
}

// A model of text alone wants neither boxes nor pictures: pages may lack them, and what they have is left alone.
TEST(Dataset, OfTextAloneNeedsWordsAndLabels) {
  const ScratchFolder folder;
  const PageParts text{.boxes = false, .image = false};
  const auto path =
      folder.write("a.jsonl", R"({"words": ["A", "BCD"], "labels": ["O", "B-X"]})"
                              "\n"
                              R"({"words": ["E"], "labels": ["O"], "image": "none.png", "boxes": [[9, 9, 1, 900]]})"
                              "\n");
  const auto error = caught<PageError>([&] { open_pages(path, {})->read(0); });
  EXPECT_EQ(error.kind(), "missing-key");
  const Dataset data(tokenized(path, {.parts = text}), small_processor(),
                     {.parts = text, .labels = LabelSet::parse("O,B-X"), .cache = {.directory = folder.path()}});
  ASSERT_EQ(data.size(), 2U);
  EXPECT_TRUE(data.source().read(0).boxes.empty() && data.source().read(0).image.empty());
  Dataset::Scratch scratch;
  EncodedExample example;
  data.load(0, scratch, example);
  EXPECT_THAT(example.input_ids, ElementsAre(0, 'A', 'B', 'C', 'D', 2));
  EXPECT_THAT(example.labels, ElementsAre(-100, 0, 1, -100, -100, -100));
  EXPECT_THAT(example.bbox, Each(Box1000{}));
  data.load(1, scratch, example);
  EXPECT_THAT(example.input_ids, ElementsAre(0, 'E', 2));
  EXPECT_THAT(example.bbox, Each(Box1000{}));
  const CheckReport report = check_pages(data.source(), {.parts = text});
  EXPECT_EQ(report.findings.count(Severity::kError), 0U) << report.findings.to_text();
}

// A model of text and boxes takes the page's size from the data, or from the header of an image that is there.
TEST(Dataset, OfBoxesAloneNeedsAPagesSize) {
  const ScratchFolder folder;
  const PageParts boxes{.image = false};
  const auto path = folder.write(
      "a.jsonl", fmt::format(R"({{"words": ["A"], "boxes": [[10, 10, 50, 100]], "width": 100, "height": 200}})"
                             "\n"
                             R"({{"words": ["B"], "boxes": [[0, 0, 61, 47]], "image": "{}"}})"
                             "\n",
                             image_file("rgb.png")));
  const Dataset data(tokenized(path, {.parts = boxes}), small_processor(),
                     {.parts = boxes, .separator_box = {1000, 1000, 1000, 1000}});
  ASSERT_EQ(data.size(), 2U);
  Dataset::Scratch scratch;
  EncodedExample example;
  data.load(0, scratch, example);
  const Box1000 separator{1000, 1000, 1000, 1000};
  EXPECT_THAT(example.bbox, ElementsAre(Box1000{}, Box1000{100, 50, 500, 500}, separator));
  data.load(1, scratch, example);
  const ImageInfo info = read_image_info(image_file("rgb.png"));
  EXPECT_THAT(example.bbox, ElementsAre(Box1000{}, Box1000{0, 0, 61000 / info.width, 47000 / info.height}, separator));
  EXPECT_EQ(check_pages(data.source(), {.parts = boxes}).findings.count(Severity::kError), 0U);

  const auto bare = folder.write("b.jsonl", R"({"id": "x", "words": ["A"], "boxes": [[10, 10, 50, 100]]})"
                                            "\n");
  const auto open = [&](BoxFormat format) {
    return Dataset(tokenized(bare, {.parts = boxes}), small_processor(), {.parts = boxes, .box_format = format});
  };
  const auto error = caught<PageError>([&] { open(BoxFormat::kPixel); });
  EXPECT_EQ(error.kind(), "size-unknown");
  EXPECT_THAT(error.what(),
              testing::AllOf(testing::HasSubstr("b.jsonl:1, page 'x'"), testing::HasSubstr("--box-format 1000")));
  const auto source = open_pages(bare, {.parts = boxes});
  EXPECT_EQ(check_pages(*source, {.parts = boxes}).findings.count("size-unknown"), 1U);
  EXPECT_EQ(open(BoxFormat::k1000).size(), 1U);
  EXPECT_EQ(check_pages(*source, {.parts = boxes, .box_format = BoxFormat::k1000}).findings.count(Severity::kError),
            0U);
}

TEST(Dataset, CutsWindowsAndCountsEachWordOnceForEvaluation) {
  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", one_line(page_json(image_file("rgb.png"))));
  const WindowOptions windows{.max_length = 6, .stride = 3};
  const LabelSet labels = LabelSet::parse("O,B-X,I-X");
  const Dataset train = open(path, {.windows = windows, .labels = labels});
  const Dataset eval = open(path, {.windows = windows, .labels = labels, .label_owned_words_only = true});
  ASSERT_EQ(train.size(), 2U);  // A BCD | (BCD does not fit before EF) EF
  int train_labels = 0, eval_labels = 0;
  std::multiset<std::int32_t> predicted;
  Dataset::Scratch scratch;
  EncodedExample example;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(train.examples()[i].windows, 2);
    train_labels += train.examples()[i].loss_terms;
    eval_labels += eval.examples()[i].loss_terms;
    eval.load(i, scratch, example);
    for (std::size_t t = 0; t < example.labels.size(); ++t) {
      EXPECT_EQ(example.labels[t] != kIgnoredLabel, example.predicts[t] != kNoWord);
      if (example.predicts[t] != kNoWord) predicted.insert(example.predicts[t]);
    }
  }
  EXPECT_GE(train_labels, 3);
  EXPECT_EQ(eval_labels, 3);
  EXPECT_THAT(predicted, ElementsAre(0, 1, 2));
}

TEST(Dataset, AugmentsAPageAnewInEachEpoch) {
  const ScratchFolder folder;
  std::string page = page_json(image_file("rgb.png"));
  const std::string at_the_edge = "[50, 60, 100, 200]";  // augmentation cannot move the page with a box here
  page.replace(page.find(at_the_edge), at_the_edge.size(), "[50, 60, 80, 150]");
  const auto path = folder.write("a.jsonl", one_line(page));
  const Dataset plain = open(path, {}), data = open(path, {.augment = 5});
  const auto load = [](const Dataset& from, std::uint64_t epoch) {
    std::vector<std::uint8_t> pixels(from.image_processor().pixel_count());
    Dataset::Scratch scratch;
    EncodedExample example;
    from.load(0, scratch, example, pixels, epoch);
    return std::tuple(example.bbox, pixels, example.input_ids);
  };
  const auto [boxes, pixels, ids] = load(plain, 0);
  std::set<std::vector<Box1000>> boxes_seen;
  std::set<std::vector<std::uint8_t>> pixels_seen;
  for (std::uint64_t epoch = 0; epoch < 30; ++epoch) {
    const auto augmented = load(data, epoch);
    EXPECT_EQ(augmented, load(data, epoch));
    EXPECT_EQ(std::get<2>(augmented), ids);
    const std::vector<Box1000>& moved = std::get<0>(augmented);
    boxes_seen.insert(moved);
    pixels_seen.insert(std::get<1>(augmented));
    EXPECT_EQ(moved.front(), Box1000{}) << "<s> has no place on the page";
    EXPECT_EQ(moved.back(), Box1000{});
    for (std::size_t i = 1; i + 1 < moved.size(); ++i) {
      EXPECT_TRUE(box_on_page(moved[i]));
      for (std::size_t side = 0; side < 4; ++side) EXPECT_NEAR(moved[i][side], boxes[i][side], 100);
    }
  }
  EXPECT_GT(boxes_seen.size(), 25U);
  EXPECT_EQ(pixels_seen.size(), 30U);
  EXPECT_GT(data.workers_host_bytes(1, 0) - plain.workers_host_bytes(1, 0), 5 * pixels.size());
}

// A cache is not used if anything that it depends on changes: an image, labels, windows, the encoder.
TEST(Dataset, ACacheIsOfNoUseForOtherData) {
  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", one_line(page_json("page.img")));
  const auto put = [&](const char* image) {
    fs::copy_file(image_file(image), folder / "page.img", fs::copy_options::overwrite_existing);
  };
  put("rgb.png");
  const auto load = [&](DatasetOptions options) {
    const Dataset data = open(path, std::move(options));
    std::vector<std::uint8_t> pixels(data.image_processor().pixel_count());
    Dataset::Scratch scratch;
    EncodedExample example;
    data.load(0, scratch, example, pixels);
    return std::tuple(example.input_ids, example.bbox, example.labels, example.predicts, pixels);
  };
  const auto same = [&](DatasetOptions options) {
    const auto plain = load(options);
    options.cache.directory = folder / "cache";
    EXPECT_EQ(load(options), plain);
    EXPECT_EQ(load(options), plain);
  };
  same({.labels = LabelSet::parse("O,B-X,I-X")});
  put("tall.png");
  same({.labels = LabelSet::parse("O,B-X,I-X")});
  same({.labels = LabelSet::parse("B-X,O,I-X")});
  same({.windows = {.max_length = 6, .stride = 3}, .labels = LabelSet::parse("B-X,O,I-X")});
  same({.labels = LabelSet::parse("O,B-X,I-X"), .label_owned_words_only = true});
  same({});
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "cache")) {
    files += entry.path().extension() == ".pages" ? 1U : 0U;
  }
  EXPECT_EQ(files, 3U) << "one for training, evaluation and prediction each";
}

TEST(Dataset, CountsWordsThatTruncationLoses) {
  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", one_line(page_json(image_file("rgb.png"))));
  const Dataset cut = open(path, {.windows = {.max_length = 5, .stride = 0, .long_pages = LongPages::kTruncate}});
  EXPECT_EQ(cut.size(), 1U);
  EXPECT_EQ(cut.lost_words(), 1U);
  const auto error = caught<PageError>(
      [&] { open(path, {.windows = {.max_length = 5, .stride = 0, .long_pages = LongPages::kRefuse}}); });
  EXPECT_EQ(error.kind(), "page-too-long");
  EXPECT_EQ(error.problem().found, "6 tokens");
}

TEST(Dataset, NeedsNoLabelsToPredict) {
  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", one_line(page_json(image_file("rgb.png"), "[7, 8, 9]")));
  const Dataset data = open(path, {});
  Dataset::Scratch scratch;
  EncodedExample example;
  data.load(0, scratch, example);
  EXPECT_THAT(example.labels, Each(kIgnoredLabel));
  EXPECT_THAT(example.predicts, ElementsAre(-1, 0, 1, -1, -1, 2, -1, -1));
}

TEST(Dataset, TakesThePageSizeFromTheImage) {
  const ScratchFolder folder;
  const auto path = folder.write(
      "a.jsonl", fmt::format(R"({{"image": "{}", "words": ["A"], "boxes": [[0, 0, 61, 47]]}})", image_file("rgb.png")));
  const Dataset data = open(path, {});
  Dataset::Scratch scratch;
  EncodedExample example;
  data.load(0, scratch, example);
  EXPECT_EQ(example.bbox[1], (Box1000{0, 0, 1000, 1000}));
}

TEST(Dataset, NamesWhatCannotBeUsed) {
  const ScratchFolder folder;
  const LabelSet labels = LabelSet::parse("O,B-X");
  const auto label_error = caught<PageError>(
      [&] { open(folder.write("a.jsonl", one_line(page_json(image_file("rgb.png")))), {.labels = labels}); });
  EXPECT_EQ(label_error.kind(), "label-unknown");
  EXPECT_THAT(label_error.problem().where, HasSubstr("a.jsonl:1, page 'p', word 2 (\"EF\")"));
  EXPECT_EQ(label_error.problem().found, "\"I-X\"");
  EXPECT_EQ(label_error.problem().allowed, "O, B-X");

  const auto box_error = caught<PageError>([&] {
    open(folder.write("b.jsonl", one_line(page_json(image_file("rgb.png")))),
         {.box_format = BoxFormat::kPixel, .windows = {.max_length = 512, .stride = 1}})
        .size();
    open(folder.write("c.jsonl", fmt::format(R"({{"image": "{}", "words": ["A"], "boxes": [[0, 0, 1001, 9]]}})",
                                             image_file("rgb.png"))),
         {.box_format = BoxFormat::k1000});
  });
  EXPECT_EQ(box_error.kind(), "box-outside");
  EXPECT_EQ(box_error.problem().found, "[0, 0, 1001, 9]");

  const auto image_error =
      caught<ImageError>([&] { open(folder.write("d.jsonl", one_line(page_json("none.png"))), {}); });
  EXPECT_EQ(image_error.kind(), "image-missing");
  EXPECT_THAT(image_error.problem().where, HasSubstr("d.jsonl:1, page 'p', image "));
}

TEST(Dataset, NoticesFilesThatChange) {
  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", one_line(page_json("page.png")));
  fs::copy_file(image_file("same_size.png"), folder.path() / "page.png");
  const Dataset data = open(path, {});
  Dataset::Scratch scratch;
  EncodedExample example;
  std::vector<std::uint8_t> pixels(data.image_processor().pixel_count());
  EXPECT_NO_THROW(data.load(0, scratch, example, pixels));
  // This image is larger than any that the memory plan knew of.
  fs::copy_file(image_file("rgb.png"), folder.path() / "page.png", fs::copy_options::overwrite_existing);
  EXPECT_EQ(caught<PageError>([&] { data.load(0, scratch, example, pixels); }).kind(), "page-changed");
}

// Memory has only the rows of the data's tokens (request/word_rows.h), so a page may not get others later.
TEST(Dataset, KnowsItsTokens) {
  const ScratchFolder folder;
  const auto path = folder.write("a.jsonl", one_line(page_json(image_file("same_size.png"))));
  const Dataset data = open(path, {});
  Dataset::Scratch scratch;
  EncodedExample example;
  data.load(0, scratch, example);
  std::set<std::int32_t> ids(example.input_ids.begin(), example.input_ids.end());
  EXPECT_EQ(data.token_ids(), std::vector<std::int32_t>(ids.begin(), ids.end()));
}

TEST(Dataset, ReadsRealReceipts) {
  const fs::path path = shared_dir() / "data/sroie/validation.jsonl";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto source = tokenized(path);
  const LabelSet labels = LabelSet::from_pages(*source);
  EXPECT_THAT(labels.names(), ElementsAre("O", "B-ADDRESS", "I-ADDRESS", "B-COMPANY", "I-COMPANY", "B-DATE", "I-DATE",
                                          "B-TOTAL", "I-TOTAL"));
  const Dataset data(source, small_processor(),
                     {.windows = {.max_length = 256, .stride = 64}, .labels = labels, .label_owned_words_only = true});
  std::uint64_t words = 0, labelled = 0;
  for (std::size_t i = 0; i < source->size(); ++i) words += source->read(i).words.size();
  for (const Example& example : data.examples()) labelled += example.loss_terms;
  EXPECT_EQ(source->size(), 100U);
  EXPECT_GT(data.size(), 100U);
  EXPECT_EQ(labelled, words);
  EXPECT_EQ(data.lost_words(), 0U);
}

}  // namespace
}  // namespace plimsoll
