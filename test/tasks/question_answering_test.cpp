// Answers: what `questions` may be, what windows are trained towards, the search for spans, scores of texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/check.h"
#include "support/expect_error.h"
#include "tasks/question_answering/questions.h"
#include "tasks/question_answering/results.h"
#include "tasks/question_answering/scores_of_text.h"
#include "tasks/question_answering/spans.h"
#include "tasks/question_answering/targets.h"
#include "tasks/question_answering/task.h"
#include "tasks/task_pages.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;

json answer(int begin, int end) { return {{"start_word", begin}, {"end_word", end}}; }

class Questions : public TaskPages {
 protected:
  std::shared_ptr<const TokenizedPages> open(const std::vector<json>& pages) const {
    return open_with(pages, question_reader());
  }
  Dataset dataset(const std::vector<json>& pages, bool with_answers = true, const WindowOptions& windows = {}) {
    return Dataset(open(pages), ImageProcessor({}),
                   {.parts = kTextAlone, .windows = windows, .targets = answer_targets(with_answers)});
  }
};

json page(const std::vector<std::string>& words, const json& questions) {
  return {{"id", "p"}, {"words", words}, {"questions", questions}};
}

TEST_F(Questions, AreReadWithTheirAnswers) {
  const auto pages =
      open({page({"the", "total", "is", "12"}, {{{"question", "how much?"}, {"answers", {answer(3, 4)}}},
                                                {{"id", 7}, {"question", "who?"}, {"answers", json::array()}},
                                                {{"question", "when?"}}})});
  const Page read = pages->read(0);
  const PageQuestions* const questions = questions_of(read);
  ASSERT_NE(questions, nullptr);
  ASSERT_EQ(questions->questions.size(), 3U);
  EXPECT_EQ(questions->questions[0].id, "p-0");
  EXPECT_EQ(questions->questions[0].answers.at(0).text, "12");  // the words, where the data spells nothing
  EXPECT_EQ(questions->questions[1].id, "7");
  EXPECT_TRUE(questions->questions[1].answered);
  EXPECT_FALSE(questions->questions[2].answered);
}

TEST_F(Questions, ThatAreWrongNameThePageAndTheValue) {
  const std::vector<json> bad = {{{"question", "q"}, {"answers", {answer(2, 2)}}},
                                 {{"question", "q"}, {"answers", {answer(-1, 1)}}},
                                 {{"question", "q"}, {"answers", {answer(1, 3)}}},
                                 {{"question", "q"}, {"answers", {json{{"start_word", 0}}}}},
                                 {{"question", "q"}, {"answers", "yes"}},
                                 {{"question", ""}},
                                 {{"question", " \t"}},
                                 {{"question", "q"}, {"answers", {{{"text", {"a"}}, {"answer_start", {0}}}}}},
                                 {{"question", "q"}, {"answers", {{{"text", 7}, {"start_word", 0}, {"end_word", 1}}}}},
                                 {{"answers", json::array()}},
                                 "q"};
  for (const json& question : bad) {
    SCOPED_TRACE(question.dump());
    const auto pages = open({page({"one", "two"}, json::array({question}))});
    expect_error<PageError>([&] { pages->read(0); }, {"pages.jsonl:1", "question 0"});
    PageFaults faults;
    pages->read(0, &faults);
    EXPECT_EQ(faults.size(), 1U);
  }
  const auto pages = open({page({"one"}, "who?")});
  expect_error<PageError>([&] { pages->read(0); }, {"`questions`"});
}

// DocVQA and SQuAD have texts alone; the first words that say one are its place.
TEST_F(Questions, WhoseAnswersAreTextsFindTheirWords) {
  const std::vector<std::string> words = {"Total:", "$12", ".50", "total", "due", "--", "now", "$12.50"};
  const auto place = [&](const json& answers) {
    const Page read = open({page(words, {{{"question", "q"}, {"answers", answers}}})})->read(0);
    const Answer& first = questions_of(read)->questions.at(0).answers.at(0);
    return std::pair(first.begin, first.end);
  };
  using Range = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(place({"total"}), Range(3, 4)) << "exact words come before those with other punctuation";
  EXPECT_EQ(place({{{"text", "TOTAL  due"}}}), Range(3, 5));
  EXPECT_EQ(place({"12.50"}), Range(1, 3)) << "cut into words in another way";
  EXPECT_EQ(place({{"text", {"Due now"}}, {"answer_start", {3}}}), Range(4, 7));
  EXPECT_EQ(place({"--"}), Range(5, 6));
  EXPECT_EQ(place({"12.5"}), Range(0, 0));
  EXPECT_EQ(place({"now $12.50 and more"}), Range(0, 0));
}

// SQuAD counts characters of the context, here of words and single spaces: é is one.
TEST_F(Questions, ThatSayWhereAnAnswerBeginsMeanThatOne) {
  const auto begins = [this](const json& answers) {
    const auto pages =
        open({page({"caf\xC3\xA9", "12", "or", "12", ",", "12"}, {{{"question", "q"}, {"answers", answers}}})});
    return questions_of(pages->read(0))->questions.at(0).answers.at(0).begin;
  };
  EXPECT_EQ(begins({{"text", {"12"}}, {"answer_start", {5}}}), 1U);
  EXPECT_EQ(begins({{"text", {"12"}}, {"answer_start", {11}}}), 3U);
  EXPECT_EQ(begins(json::array({{{"text", "12"}, {"answer_start", 16}}})), 5U);
  EXPECT_EQ(begins({{"text", {"12"}}, {"answer_start", {12}}}), 3U)
      << "the nearest, where the context is cut otherwise";
  EXPECT_EQ(begins({{"text", {"12"}}}), 1U);
}

// What OCR missed is scored, and teaches neither a place nor that there is none.
TEST_F(Questions, WhoseAnswerIsNotOnThePageAreNotLearnt) {
  const json questions = {{{"question", "q"}, {"answers", {"nowhere"}}},
                          {{"question", "q"}, {"answers", {"nowhere", "b"}}}};
  const Dataset data = dataset({page({"a", "b"}, questions)});
  EXPECT_THAT(load(data, 0).targets, ElementsAre(kIgnoredLabel, kIgnoredLabel));
  EXPECT_EQ(load(data, 0).loss_terms, 0);
  EXPECT_EQ(load(data, 1).loss_terms, 2);
  EXPECT_EQ(load(data, 1).targets[0], load(data, 1).targets[1]);
  EXPECT_GT(load(data, 1).targets[0], 0);
}

// <s> q ? </s> </s> a b c d d </s>: the words' tokens begin at row 5.
TEST_F(Questions, StandBeforeThePageAndSayWhereTheAnswerIs) {
  const json questions = {{{"question", "q?"}, {"answers", {answer(1, 3)}}},
                          {{"question", "r"}, {"answers", json::array()}}};
  const Dataset data = dataset({page({"a", "bc", "dd"}, questions)});
  ASSERT_EQ(data.size(), 2U);
  const EncodedExample first = load(data, 0), second = load(data, 1);
  EXPECT_THAT(first.input_ids, ElementsAre(0, 'q', '?', 2, 2, 'a', 'b', 'c', 'd', 'd', 2));
  EXPECT_EQ(first.pair_begin, 5);
  EXPECT_THAT(first.targets, ElementsAre(6, 9));
  EXPECT_THAT(first.predicts, ElementsAre(-1, -1, -1, -1, -1, 0, 1, 1, 2, 2, -1));
  EXPECT_EQ(first.loss_terms, 2);
  EXPECT_EQ(first.bbox.size(), first.input_ids.size());
  EXPECT_THAT(second.input_ids, ElementsAre(0, 'r', 2, 2, 'a', 'b', 'c', 'd', 'd', 2));
  EXPECT_THAT(second.targets, ElementsAre(0, 0));  // no answer: the first token
  EXPECT_EQ(data.examples()[1].item, 1);
  EXPECT_EQ(data.examples()[1].items, 2);
}

// A window of 20 holds 20 - 2 - 3 = 15 letters behind "q" and its separators.
TEST_F(Questions, OfALongPageHaveWindowsOfTheirOwn) {
  const std::string word(9, 'w');
  const Dataset data = dataset({page({word, word, word}, {{{"question", "q"}, {"answers", {answer(1, 2)}}},
                                                          {{"question", "q"}, {"answers", {answer(0, 2)}}}})},
                               true, {.max_length = 20, .stride = 0});
  ASSERT_EQ(data.size(), 6U);  // three windows, one word each, for each question
  EXPECT_THAT(load(data, 0).targets, ElementsAre(0, 0));
  EXPECT_THAT(load(data, 1).targets, ElementsAre(4, 12));
  EXPECT_THAT(load(data, 2).targets, ElementsAre(0, 0));
  for (std::size_t i = 3; i < 6; ++i) EXPECT_THAT(load(data, i).targets, ElementsAre(0, 0));  // no window holds it all
}

TEST_F(Questions, WithoutAnswersAreAskedButNotTrainedOn) {
  const std::vector<json> pages = {page({"a"}, {{{"question", "q"}}})};
  const Dataset asked = dataset(pages, false);
  EXPECT_TRUE(load(asked, 0).targets.empty());
  EXPECT_EQ(asked.examples()[0].loss_terms, 0);
  expect_error<PageError>([&] { dataset(pages); }, {"a question has no answers", "pages.jsonl:1", "\"p-0\""});
  expect_error<PageError>([&] { dataset({{{"words", {"a"}}}}, false); }, {"a page has no questions", "pages.jsonl:1"});
}

TEST_F(Questions, ThatLeaveNoRoomAreRefused) {
  const std::vector<json> pages = {page({"a"}, {{{"question", std::string(40, 'q')}, {"answers", json::array()}}})};
  expect_error<PageError>([&] { dataset(pages, true, {.max_length = 50, .stride = 4}); },
                          {"leaves no room", "question 0", "42 tokens", "at most 34"});
  EXPECT_EQ(dataset(pages, true, {.max_length = 58, .stride = 4}).size(), 1U);
  expect_error<PageError>([&] { dataset(pages, true, {.max_length = 16, .stride = 4}); },
                          {"windows of more than 16 tokens", "pass a larger --max-length"});
}

TEST_F(Questions, AreChecked) {
  const auto pages = open({page({"a", "b"}, {{{"question", "q"}, {"answers", {answer(0, 1)}}},
                                             {{"question", std::string(600, 'r')}, {"answers", json::array()}},
                                             {{"question", "s"}}}),
                           {{"words", {"a"}}}});
  const CheckReport report = check_pages(*pages, {.parts = kTextAlone,
                                                  .labels_required = true,
                                                  .words_labelled = false,
                                                  .targets = answer_targets(true),
                                                  .tokens = pages.get()});
  for (const char* kind : {"answers-missing", "prompt-too-long", "questions-missing"}) {
    EXPECT_EQ(report.findings.count(kind), 1U) << kind;
  }
  EXPECT_EQ(report.windows, 3U);  // two questions that have room, and a page without
}

// What a fault says is not said again as something that the page lacks.
TEST_F(Questions, WithFaultsHaveOneFindingEach) {
  const auto kinds = [this](const json& object) {
    return kinds_in(checked(open({object}), answer_targets(true)).findings);
  };
  using Kinds = std::map<std::string, std::uint64_t>;
  const auto answered = [](const json& answers) {
    return page({"one", "two"}, {{{"question", "q"}, {"answers", answers}}});
  };
  EXPECT_EQ(kinds(answered({answer(1, 3), answer(2, 2)})), (Kinds{{"answer-outside", 2}}));
  EXPECT_EQ(kinds(answered({7})), (Kinds{{"wrong-type", 1}}));
  // Tables with gaps write 1.0, and null where there is nothing.
  EXPECT_EQ(kinds(answered(json::array({{{"start_word", 1.0}, {"end_word", 2.0}}}))), Kinds{});
  EXPECT_EQ(kinds(answered(json::array({{{"text", "two"}, {"start_word", nullptr}, {"end_word", nullptr}}}))), Kinds{});
  EXPECT_EQ(kinds(answered(json::array({{{"start_word", 0.5}, {"end_word", 2}}}))), (Kinds{{"answer-outside", 1}}));
  EXPECT_EQ(kinds(answered("one")), (Kinds{{"wrong-type", 1}}));
  EXPECT_EQ(kinds(answered({"yes", answer(0, 1)})), Kinds{});
  EXPECT_EQ(kinds(answered({"yes"})).count("answer-not-found"), 1U);
  EXPECT_EQ(kinds(answered({{"text", {"a"}}, {"answer_start", {0}}})).count("answer-not-found"), 1U);
  EXPECT_EQ(kinds(page({"one"}, "What?")), (Kinds{{"wrong-type", 1}}));
  for (const json& id : {json::object(), json::array({1}), json(true)}) {
    EXPECT_EQ(kinds(page({"one"}, {{{"question", "q"}, {"id", id}, {"answers", json::array()}}})),
              (Kinds{{"wrong-type", 1}}))
        << id;
  }
  EXPECT_EQ(kinds(page({"one"}, nullptr)), (Kinds{{"questions-missing", 1}}));
}

// Such a question would be learnt as one that the page does not answer.
TEST_F(Questions, WhoseAnswerNoWindowHoldsAreSaid) {
  const std::vector<std::string> words(60, "word");
  const json asked = page(words, {{{"question", "q"}, {"answers", {answer(0, 59)}}}});
  const auto cut = [&](int length) {
    return checked(open({asked}), answer_targets(true), {.max_length = length, .stride = 0})
        .findings.count("answer-cut");
  };
  EXPECT_EQ(cut(32), 1U);
  EXPECT_EQ(cut(512), 0U);
}

// Words are compared as the score compares them; one of the texts has to match.
TEST_F(Questions, WhoseTextsAreNotTheirWordsAreSaid) {
  const auto found = [this](const std::vector<json>& answers) {
    const auto pages = open({page({"The", "Total:", "12.50"}, {{{"question", "q"}, {"answers", answers}}})});
    return checked(pages, answer_targets(true)).findings.count("answer-text");
  };
  const auto spelled = [](const char* text, int begin, int end) {
    json read = answer(begin, end);
    read["text"] = text;
    return read;
  };
  EXPECT_EQ(found({answer(0, 2)}), 0U);
  EXPECT_EQ(found({spelled("total 1250", 0, 3)}), 0U);
  EXPECT_EQ(found({spelled("12.50", 1, 3)}), 1U);
  EXPECT_EQ(found({spelled("13.50", 2, 3)}), 1U);
  EXPECT_EQ(found({spelled("twelve", 2, 3), spelled("12.50", 2, 3)}), 0U);
  EXPECT_EQ(found({spelled("12.50", 2, 3), spelled("12.50", 0, 1)}), 1U);
}

TEST_F(Questions, WithTheSameIdAreSaid) {
  const json question = {{"id", "x"}, {"question", "q"}, {"answers", {answer(0, 1)}}};
  const auto report = checked(open({page({"a"}, {question, question})}), answer_targets(true));
  EXPECT_EQ(report.findings.count("duplicate-question"), 1U);
  EXPECT_EQ(report.findings.count(Severity::kError), 0U);
}

// DocVQA's rows are a page and a question each.
TEST_F(Questions, OfOnePageInSeveralRowsAreNoDuplicates) {
  const auto row = [](const char* id, const char* question) {
    json made =
        page({"one", "two", "three", "four", "five", "six"}, {{{"question", question}, {"answers", {answer(0, 1)}}}});
    made["id"] = id;
    return made;
  };
  const auto found = [this](const std::vector<json>& rows) {
    return checked(open(rows), answer_targets(true)).findings.count("duplicate-page");
  };
  EXPECT_EQ(found({row("a", "first?"), row("b", "second?"), row("c", "third?")}), 0U);
  EXPECT_EQ(found({row("a", "first?"), row("b", "second?"), row("c", "second?")}), 1U);
  json unasked = row("d", "first?"), again = row("e", "first?");
  for (json* const each : {&unasked, &again}) each->erase("questions");
  EXPECT_EQ(found({row("a", "first?"), unasked}), 0U);
  EXPECT_EQ(found({row("a", "first?"), unasked, again}), 1U);
}

TEST_F(Questions, FromWhichNothingCanBeLearnedAreSaid) {
  const json none = {{"question", "q"}, {"answers", json::array()}},
             one = {{"question", "r"}, {"answers", {answer(0, 1)}}};
  const auto found = [this](std::vector<json> pages) {
    for (std::size_t i = 0; i < pages.size(); ++i) pages[i]["id"] = i;
    return checked(open(pages), answer_targets(true)).findings.count("nothing-to-learn");
  };
  EXPECT_EQ(found({page({"a"}, json::array({none})), page({"b"}, {none, none})}), 1U);
  EXPECT_EQ(found({page({"a"}, json::array({none})), page({"b"}, {none, one})}), 0U);
}

TEST_F(Questions, ThatLeaveNoRoomSayWhatHelps) {
  const std::vector<json> pages = {page({"a"}, {{{"question", std::string(40, 'q')}, {"answers", json::array()}}})};
  const auto remedy = [&](int most) {
    const WindowOptions windows{.max_length = 50, .stride = 4, .most_length = most};
    return caught<PageError>([&] { dataset(pages, true, windows); }).problem().remedy;
  };
  EXPECT_THAT(remedy(0), testing::HasSubstr("--max-length"));
  EXPECT_THAT(remedy(60), testing::HasSubstr("--max-length"));
  EXPECT_EQ(remedy(50), "shorten the question: the model has no longer windows");
}

TEST_F(Questions, ComeFromTheCacheAsFromTheFile) {
  const ScratchFolder cache;
  const std::vector<json> pages = {page({"a", "bc"}, {{{"question", "q"}, {"answers", {answer(1, 2)}}},
                                                      {{"question", "rs"}, {"answers", json::array()}}}),
                                   page({"d"}, {{{"question", "t"}, {"answers", {answer(0, 1)}}}})};
  const auto data = [&](bool cached) {
    return Dataset(open(pages), ImageProcessor({}),
                   {.parts = kTextAlone,
                    .targets = answer_targets(true),
                    .cache = {.directory = cached ? cache.path() : std::filesystem::path()}});
  };
  const Dataset plain = data(false), cached = data(true);
  ASSERT_EQ(cached.size(), 3U);
  for (std::size_t i = 0; i < cached.size(); ++i) {
    const EncodedExample a = load(plain, i), b = load(cached, i);
    EXPECT_EQ(a.input_ids, b.input_ids);
    EXPECT_EQ(a.predicts, b.predicts);
    EXPECT_EQ(a.targets, b.targets);
    EXPECT_EQ(a.pair_begin, b.pair_begin);
    EXPECT_EQ(a.loss_terms, b.loss_terms);
  }
}

// Rows of a window: a special token, then words.
std::vector<float> logits(const std::vector<float>& starts, const std::vector<float>& ends) {
  std::vector<float> both;
  for (std::size_t i = 0; i < starts.size(); ++i) both.insert(both.end(), {starts[i], ends[i]});
  return both;
}

TEST(SpanSearch, FindsTheBestPairThatRunsForward) {
  SpanSearch search;
  search.begin();
  const std::vector<std::int32_t> words = {kNoWord, 0, 1, 1, 2, kNoWord};
  // The largest end lies before the largest start, and the largest of all is no word.
  ASSERT_TRUE(search.add_window(logits({0, 1, 5, 2, 0, 9}, {0, 7, 1, 3, 2, 9}), words));
  const std::vector<SpanCandidate> best = search.best();
  EXPECT_EQ(best[0].begin, 0U);  // 1 + 7
  EXPECT_EQ(best[0].end, 1U);
  EXPECT_EQ(best[0].score, 8);
  EXPECT_EQ(best[1].begin, 1U);  // 5 + 3: equal to it, but later
  EXPECT_EQ(best[1].end, 2U);
  EXPECT_EQ(best[2].begin, 1U);
  EXPECT_EQ(best[2].end, 3U);
  double sum = 0;
  for (const SpanCandidate& span : best) sum += span.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(best[0].probability / best[2].probability, std::exp(1.0), 1e-9);
}

TEST(SpanSearch, TakesTheBestOfAllWindowsAndTheLeastNull) {
  SpanSearch search;
  search.begin();
  ASSERT_TRUE(search.add_window(logits({3, 1}, {3, 1}), std::vector<std::int32_t>{kNoWord, 4}));
  EXPECT_TRUE(search.best().front().is_null());  // 6 against 2
  ASSERT_TRUE(search.add_window(logits({1, 1, 2}, {1, 0, 2}), std::vector<std::int32_t>{kNoWord, 4, 5}));
  const std::vector<SpanCandidate> best = search.best();
  EXPECT_EQ(best[0].begin, 5U);
  EXPECT_EQ(best[0].score, 4);
  const auto null = std::find_if(best.begin(), best.end(), [](const SpanCandidate& span) { return span.is_null(); });
  ASSERT_NE(null, best.end());
  EXPECT_EQ(null->score, 2);
  int fours = 0;
  for (const SpanCandidate& span : best) fours += !span.is_null() && span.begin == 4 && span.end == 5 ? 1 : 0;
  EXPECT_EQ(fours, 1);  // in both windows, listed once
}

TEST(SpanSearch, SaysLogitsThatAreNotFinite) {
  SpanSearch search;
  search.begin();
  EXPECT_FALSE(search.add_window(logits({0, NAN}, {0, 0}), std::vector<std::int32_t>{kNoWord, 0}));
  search.begin();
  EXPECT_TRUE(search.best().empty());
}

// Against every pair of rows, on windows of random sizes.
TEST(SpanSearch, EqualsASearchOfAllPairs) {
  std::uint32_t state = 1;
  const auto random = [&state](std::uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % below;
  };
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t rows = 1 + random(SpanSearch::kBest);
    std::vector<std::int32_t> words = {kNoWord};
    std::vector<float> starts = {0}, ends = {0};
    for (std::size_t row = 0; row < rows; ++row) {
      words.push_back(static_cast<std::int32_t>(row / 2));
      starts.push_back(static_cast<float>(random(1000)) / 100 + 1);
      ends.push_back(static_cast<float>(random(1000)) / 100 + 1);
    }
    SpanSearch search;
    search.begin();
    ASSERT_TRUE(search.add_window(logits(starts, ends), words));
    double most = -1;
    for (std::size_t a = 1; a <= rows; ++a) {
      for (std::size_t b = a; b <= rows; ++b) most = std::max(most, double{starts[a]} + ends[b]);
    }
    EXPECT_EQ(search.best().front().score, most);
  }
}

// SQuAD's evaluate-v1.1.py gives these.
TEST(ScoresOfText, NormaliseAsSquadDoes) {
  EXPECT_EQ(normalized_answer("The  Total, of a Shop!"), "total of shop");
  EXPECT_EQ(normalized_answer("RM 12.50"), "rm 1250");
  EXPECT_TRUE(is_exact_match("the Cat.", "cat"));
  EXPECT_FALSE(is_exact_match("cat", "cats"));
  EXPECT_TRUE(is_exact_match("", "a"));  // articles alone are nothing
  EXPECT_DOUBLE_EQ(word_f1("a b c d", "b c e"), 2 * (2.0 / 3) * (2.0 / 3) / (2.0 / 3 + 2.0 / 3));
  EXPECT_DOUBLE_EQ(word_f1("x x", "x"), 2 * 0.5 / 1.5);
  EXPECT_EQ(word_f1("", ""), 1);
  EXPECT_EQ(word_f1("", "x"), 0);
  // Python's str.lower, str.split and \b know more than ASCII.
  EXPECT_TRUE(is_exact_match("\u039F\u0394\u039F\u03A3 \u03A3", "\u03BF\u03B4\u03BF\u03C2 \u03C3"));
  EXPECT_TRUE(is_exact_match("12\u00A0EUR\u3000", "12 eur"));
  EXPECT_EQ(normalized_answer("\u00C9T\u00C9\u2003\x1F!"), "\u00E9t\u00E9");
  EXPECT_EQ(normalized_answer("\u20ACa b\u2013the\u2013c \u00E0 an1"), "\u20AC b\u2013 \u2013c \u00E0 an1");
}

TEST(ScoresOfText, AnswersThatNormaliseToNothingAreNotCompared) {
  using testing::ElementsAre;
  EXPECT_THAT(compared_answers({"!!", "cash", "the"}), ElementsAre("cash"));
  EXPECT_THAT(compared_answers({"the"}), ElementsAre(""));
  EXPECT_THAT(compared_answers({}), ElementsAre(""));
}

TEST(ScoresOfText, SimilarityIsOfCharacters) {
  EXPECT_DOUBLE_EQ(levenshtein_similarity("Kitten", "sitting"), 1 - 3.0 / 7);
  EXPECT_EQ(levenshtein_similarity("abcd", "wxyz"), 0);
  EXPECT_EQ(levenshtein_similarity("abcd", "abxyz"), 0);  // below a half
  EXPECT_DOUBLE_EQ(levenshtein_similarity("caf\xC3\xA9", "cafe"), 0.75);
  EXPECT_EQ(levenshtein_similarity(" x ", "X"), 1);
  EXPECT_EQ(levenshtein_similarity("a \t b", "A\u00A0B\n"), 1);
  EXPECT_DOUBLE_EQ(levenshtein_similarity("\u00C9t\u00E9", "\u00E9te"), 1 - 1.0 / 3);
  EXPECT_EQ(levenshtein_similarity("", ""), 1);
}

// A batch of one window a question, with chosen logits.
class Answered : public Questions {
 protected:
  void feed(WindowReader& reader, const Dataset& data, const std::vector<std::vector<float>>& starts_and_ends) {
    Batch batch(
        {.max_samples = static_cast<std::int64_t>(data.size()),
         .max_text_rows = 100,
         .inputs = {{.name = "sample_offsets", .type = {DType::kI32, {static_cast<std::int64_t>(data.size()) + 1}}}}});
    batch.begin();
    std::vector<float> logits;
    for (std::size_t i = 0; i < data.size(); ++i) {
      EncodedExample example = load(data, i);
      example.targets.clear();
      const Example& of = data.examples()[i];
      batch.add(example, {.page = of.page, .item = of.item, .items = of.items}, 0);
      logits.insert(logits.end(), starts_and_ends[i].begin(), starts_and_ends[i].end());
      logits.resize(2 * static_cast<std::size_t>(batch.text_rows()), -9);
    }
    batch.finish();
    const TensorView view({DType::kF32, {batch.text_rows(), 2}}, reinterpret_cast<std::byte*>(logits.data()));
    reader.begin_page(0);
    for (std::int64_t i = 0; i < batch.samples(); ++i) ASSERT_TRUE(reader.add_window(batch, i, view));
    reader.end_page();
  }
};

// <s> q </s> </s> one two </s>: "one" is row 4, of one token a letter.
TEST_F(Answered, AreScoredAndWritten) {
  const Dataset data = dataset({page({"x", "y", "z"}, {{{"question", "q"}, {"answers", {answer(1, 3)}}},
                                                       {{"question", "q"}, {"answers", json::array()}},
                                                       {{"question", "q"}, {"answers", {answer(0, 1)}}}})});
  ASSERT_EQ(data.size(), 3U);
  const auto window = [](int start, int end) {
    std::vector<float> both(14, 0);
    both[static_cast<std::size_t>(2 * start)] += 5;
    both[static_cast<std::size_t>(2 * end + 1)] += 5;
    return both;
  };
  // "y z" is right; no answer is right; "y" where "x" is the answer is wrong.
  const std::vector<std::vector<float>> found = {window(5, 6), window(0, 0), window(5, 5)};
  const auto scorer = answer_scorer(data);
  feed(*scorer, data, found);
  const Scores scores = scorer->scores();
  EXPECT_EQ(scores.support, 3U);
  EXPECT_EQ(scores.metrics.front().name, "f1");
  EXPECT_DOUBLE_EQ(scores.metrics.front().value, 2.0 / 3);
  for (const Scores::Metric& metric : scores.metrics) {
    if (metric.name == "f1_with_answer") {
      EXPECT_DOUBLE_EQ(metric.value, 0.5);
    } else if (metric.name == "f1_without_answer") {
      EXPECT_DOUBLE_EQ(metric.value, 1);
    }
  }
  const std::vector<std::string> names = question_answering_task().metrics({});
  ASSERT_EQ(names.size(), scores.metrics.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], scores.metrics[i].name);

  const auto predictions = answer_predictions({});
  feed(*predictions, data, found);
  const json line = predictions->to_json(data.source().read(0));
  ASSERT_EQ(line.at("questions").size(), 3U);
  EXPECT_EQ(line.at("questions")[0].at("answers")[0].at("text"), "y z");
  EXPECT_EQ(line.at("questions")[0].at("answers")[0].at("start_word"), 1);
  EXPECT_EQ(line.at("questions")[0].at("answers")[0].at("end_word"), 3);
  EXPECT_EQ(line.at("questions")[1].at("answers")[0].at("text"), "");
  EXPECT_EQ(line.at("fields").size(), 2U);  // of the questions that have an answer
}

TEST_F(Questions, ThatNoPageHasAreSaid) {
  const auto pages = open({{{"words", {"a"}}}});
  expect_error<DataError>([&] { question_answering_task().seen_in(*pages, {}); },
                          {"no page has questions", "pages.jsonl:1"});
}

}  // namespace
}  // namespace plimsoll::test
