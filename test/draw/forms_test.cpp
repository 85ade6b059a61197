// Forms: entities, links, and whether a reader needs the layout to find them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "draw/form_sheet.h"
#include "draw/synth.h"
#include "support/scratch_folder.h"

namespace plimsoll {
namespace {

using test::ScratchFolder;

const std::vector<SynthPage>& pages() {
  static const std::vector<SynthPage> drawn = [] {
    const PageDrawer drawer(41, SynthLayout::kForms);
    std::vector<SynthPage> each;
    for (std::uint64_t index = 0; index < 60; ++index) each.push_back(drawer.draw(index));
    return each;
  }();
  return drawn;
}

struct LinkCounts {
  int answers = 0, not_next = 0, other_question_nearer = 0;
};

using Corners = std::array<int, 4>;

Corners box_of(const SynthPage& page, const SynthEntity& entity) {
  Corners box = page.words[entity.start_word].box;
  for (std::size_t w = entity.start_word; w < entity.end_word; ++w) {
    const Corners& word = page.words[w].box;
    box = {std::min(box[0], word[0]), std::min(box[1], word[1]), std::max(box[2], word[2]), std::max(box[3], word[3])};
  }
  return box;
}

int squared_distance(const Corners& a, const Corners& b) {
  const int dx = std::max({0, b[0] - a[2], a[0] - b[2]}), dy = std::max({0, b[1] - a[3], a[1] - b[3]});
  return dx * dx + dy * dy;
}

LinkCounts count_links(const SynthPage& page) {
  LinkCounts counts;
  for (const auto& [from, to] : page.links) {
    if (page.entities[from].label != "question") continue;
    ++counts.answers;
    counts.not_next += to == from + 1 ? 0 : 1;
    const Corners answer = box_of(page, page.entities[to]);
    const int own = squared_distance(box_of(page, page.entities[from]), answer);
    bool nearer = false;
    for (const SynthEntity& other : page.entities) {
      if (other.label == "question") nearer = nearer || squared_distance(box_of(page, other), answer) < own;
    }
    counts.other_question_nearer += nearer ? 1 : 0;
  }
  return counts;
}

TEST(Forms, HaveTheSizeOfRealOnes) {
  std::size_t words = 0, entities = 0;
  std::set<int> heights;
  for (const SynthPage& page : pages()) {
    SCOPED_TRACE(page.id);
    EXPECT_GE(page.entities.size(), 20U);
    EXPECT_LE(page.entities.size(), 60U);
    EXPECT_GE(page.words.size(), 45U);
    EXPECT_LE(page.words.size(), 250U);
    EXPECT_GE(page.links.size(), 6U);
    words += page.words.size();
    entities += page.entities.size();
    heights.insert(page.height);
  }
  EXPECT_GT(words, 90 * pages().size());
  EXPECT_GT(entities, 35 * pages().size());
  EXPECT_GT(heights.size(), 2U);
}

TEST(Forms, EveryWordBelongsToOneEntityAndItsLabelSaysWhich) {
  const std::map<std::string, std::string> tags = {
      {"header", "HEADER"}, {"question", "QUESTION"}, {"answer", "ANSWER"}, {"other", ""}};
  std::map<std::string, int> seen;
  for (const SynthPage& page : pages()) {
    SCOPED_TRACE(page.id);
    std::size_t next = 0;
    for (const SynthEntity& entity : page.entities) {
      EXPECT_EQ(entity.start_word, next);
      ASSERT_LT(entity.start_word, entity.end_word);
      ASSERT_LE(entity.end_word, page.words.size());
      next = entity.end_word;
      ASSERT_EQ(tags.count(entity.label), 1U) << entity.label;
      ++seen[entity.label];
      for (std::size_t w = entity.start_word; w < entity.end_word; ++w) {
        const std::string& tag = tags.at(entity.label);
        const std::string label = tag.empty() ? "O" : (w == entity.start_word ? "B-" : "I-") + tag;
        EXPECT_EQ(page.words[w].label, label) << page.words[w].text;
        EXPECT_NE(std::find(kSynthFormLabels.begin(), kSynthFormLabels.end(), label), kSynthFormLabels.end());
      }
    }
    EXPECT_EQ(next, page.words.size());
  }
  for (const auto& [label, tag] : tags) EXPECT_GT(seen[label], 100) << label;
}

TEST(Forms, LinksLeadFromHeadersToQuestionsAndFromQuestionsToAnswers) {
  int unanswered = 0, several = 0, unasked = 0, headed = 0;
  for (const SynthPage& page : pages()) {
    SCOPED_TRACE(page.id);
    std::map<std::size_t, int> sources, answers;
    for (const auto& [from, to] : page.links) {
      ASSERT_LT(from, page.entities.size());
      ASSERT_LT(to, page.entities.size());
      const std::string kinds = page.entities[from].label + " " + page.entities[to].label;
      EXPECT_TRUE(kinds == "header question" || kinds == "question answer") << kinds;
      EXPECT_EQ(++sources[to], 1) << "entity " << to << " is linked twice";
      ++answers[from];
    }
    EXPECT_TRUE(std::is_sorted(page.links.begin(), page.links.end()));
    for (std::size_t e = 0; e < page.entities.size(); ++e) {
      const std::string& label = page.entities[e].label;
      unanswered += label == "question" && answers[e] == 0 ? 1 : 0;
      several += label == "question" && answers[e] > 1 ? 1 : 0;
      unasked += label == "answer" && sources[e] == 0 ? 1 : 0;
      headed += label == "question" && sources[e] == 1 ? 1 : 0;
    }
  }
  EXPECT_GT(unanswered, 60);
  EXPECT_GT(several, 60);
  EXPECT_GT(unasked, 10);
  EXPECT_GT(headed, 300);
}

TEST(Forms, LinksAreNotSeenFromTheOrderOrTheDistanceAlone) {
  LinkCounts all;
  for (const SynthPage& page : pages()) {
    const LinkCounts counts = count_links(page);
    all.answers += counts.answers;
    all.not_next += counts.not_next;
    all.other_question_nearer += counts.other_question_nearer;
  }
  EXPECT_GT(all.answers, 600);
  EXPECT_GT(all.not_next, all.answers / 4);
  EXPECT_GT(all.other_question_nearer, all.answers / 10);
}

TEST(Forms, WordsDoNotLieOnEachOther) {
  for (const SynthPage& page : pages()) {
    SCOPED_TRACE(page.id);
    for (std::size_t a = 0; a < page.words.size(); ++a) {
      for (std::size_t b = a + 1; b < page.words.size(); ++b) {
        const Corners &one = page.words[a].box, &two = page.words[b].box;
        const int width = std::min(one[2], two[2]) - std::max(one[0], two[0]);
        const int height = std::min(one[3], two[3]) - std::max(one[1], two[1]);
        EXPECT_FALSE(width > 3 && height > 3) << page.words[a].text << " and " << page.words[b].text;
      }
    }
  }
}

TEST(Forms, TheSameSeedGivesTheSamePageAndAnotherSeedAnother) {
  const SynthPage& page = pages()[7];
  const SynthPage again = PageDrawer(41, SynthLayout::kForms).draw(7);
  EXPECT_EQ(page.png, again.png);
  EXPECT_EQ(page.links, again.links);
  EXPECT_NE(page.png, PageDrawer(42, SynthLayout::kForms).draw(7).png);
  EXPECT_NE(page.png, PageDrawer(41).draw(7).png);
}

TEST(Forms, AreWrittenWithEntitiesAndLinksAndReceiptsWithout) {
  const ScratchFolder scratch;
  const auto first_line = [&](const char* name, SynthLayout layout) {
    const SynthSummary summary =
        synthesize({.output_dir = scratch / name, .count = 3, .seed = 41, .layout = layout, .threads = 2});
    std::istringstream text(read_text_file(summary.train_file));
    std::string line;
    std::getline(text, line);
    return nlohmann::json::parse(line);
  };
  const nlohmann::json form = first_line("forms", SynthLayout::kForms),
                       receipt = first_line("x", SynthLayout::kReceipts);
  const SynthPage& page = pages()[0];
  ASSERT_EQ(form.at("entities").size(), page.entities.size());
  for (std::size_t e = 0; e < page.entities.size(); ++e) {
    const nlohmann::json expected = {{"label", page.entities[e].label},
                                     {"start_word", page.entities[e].start_word},
                                     {"end_word", page.entities[e].end_word}};
    EXPECT_EQ(form["entities"][e], expected);
  }
  EXPECT_EQ(form.at("links"), nlohmann::json(page.links));
  EXPECT_EQ(form.at("words").size(), page.words.size());
  EXPECT_FALSE(receipt.contains("entities"));
  EXPECT_FALSE(receipt.contains("links"));
}

}  // namespace

namespace draw {
namespace {

// Returns the entities' first words in the order in which they are read.
std::string read(FormSheet&& form) {
  std::string text;
  for (const InkedWord& word : std::move(form).finish(400).sheet.render({}).words) text += word.text + " ";
  return text;
}

TEST(FormSheet, IsReadBlockByBlockAndLineByLine) {
  const FontSet fonts;
  const Style style;
  const auto fill = [&](FormSheet& form) {
    const int left = form.new_block(), right = form.new_block();
    form.put(right, EntityKind::kAnswer, {"d"}, {.left = 300, .right = 380, .y = 60}, style);
    form.put(left, EntityKind::kQuestion, {"b", "B"}, {.left = 40, .right = 100, .y = 61}, style);
    form.put(left, EntityKind::kQuestion, {"a"}, {.left = 40, .right = 100, .y = 20}, style);
    form.put(right, EntityKind::kAnswer, {"c"}, {.left = 300, .right = 380, .y = 20}, style.with_size(11));
  };
  FormSheet apart(fonts, 400), across(fonts, 400);
  fill(apart);
  across.join_blocks(true);
  fill(across);
  EXPECT_EQ(read(std::move(apart)), "a b B c d ");
  EXPECT_EQ(read(std::move(across)), "a c b B d ");
}

TEST(FormSheet, LinksFollowTheirEntities) {
  const FontSet fonts;
  FormSheet form(fonts, 400);
  const int block = form.new_block();
  const Placed answer =
      form.put(block, EntityKind::kAnswer, {"5 Oak Lane"}, {.left = 40, .right = 90, .y = 90}, Style{});
  const Placed question =
      form.put(block, EntityKind::kQuestion, {"Address"}, {.left = 40, .right = 200, .y = 20}, Style{});
  form.link(question, answer);
  EXPECT_GT(answer.bottom, 90 + FormSheet::line_height(Style{})) << "three words do not fit on one line";
  const FilledForm filled = std::move(form).finish(200);
  EXPECT_EQ(filled.entities, (std::vector<EntityKind>{EntityKind::kQuestion, EntityKind::kAnswer}));
  EXPECT_EQ(filled.links, (std::vector<std::array<std::size_t, 2>>{{0, 1}}));
}

}  // namespace
}  // namespace draw
}  // namespace plimsoll
