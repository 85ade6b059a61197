#include "data/label_scheme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;
using Spans = std::vector<WordSpan>;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LabelScheme, FollowsFromTheNames) {
  EXPECT_EQ(label_scheme(Names{"O", "B-A", "I-A"}), LabelScheme::kIob);
  EXPECT_EQ(label_scheme(Names{"O", "I-A"}), LabelScheme::kIob);
  EXPECT_EQ(label_scheme(Names{"O", "B", "I"}), LabelScheme::kIob);
  EXPECT_EQ(label_scheme(Names{"O"}), LabelScheme::kIob);
  EXPECT_EQ(label_scheme(Names{"O", "B-A", "I-A", "E-A", "S-A"}), LabelScheme::kIobes);
  EXPECT_EQ(label_scheme(Names{"O", "I-A", "E-A"}), LabelScheme::kIobes);
  EXPECT_EQ(label_scheme(Names{"O", "B-A", "I-A", "L-A", "U-A"}), LabelScheme::kBilou);
  EXPECT_EQ(label_scheme(Names{"O", "RATE", "DATE"}), LabelScheme::kPlain);
  EXPECT_EQ(label_scheme(Names{"O", "NAME", "E-MAIL"}), LabelScheme::kPlain);
  EXPECT_EQ(label_scheme(Names{"A", "B", "C"}), LabelScheme::kPlain);
  EXPECT_EQ(label_scheme(Names{"O", "B-A", "I-A", "DATE"}), LabelScheme::kMixed);
  EXPECT_EQ(label_scheme(Names{"O", "B-A", "E-A", "U-A"}), LabelScheme::kMixed);
}

TEST(LabelScheme, SaysHowPlainAndMixedNamesAreRead) {
  EXPECT_THAT(scheme_note(Names{"O", "B-A", "I-A"}), IsEmpty());
  EXPECT_THAT(scheme_note(Names{"O", "B-A", "U-A"}), IsEmpty());
  EXPECT_THAT(scheme_note(Names{"O", "RATE"}), HasSubstr("\"RATE\""));
  EXPECT_THAT(scheme_note(Names{"O", "RATE"}), HasSubstr("separate type"));
  EXPECT_THAT(scheme_note(Names{"O", "B-A", "RATE"}), HasSubstr("\"RATE\""));
  EXPECT_THAT(scheme_note(Names{"O", "E-A", "L-A"}), HasSubstr("\"L-A\""));
}

TEST(EntitySpans, FollowIobLabels) {
  const LabelScheme iob = LabelScheme::kIob;
  EXPECT_EQ(entity_spans(Names{"O", "B-A", "I-A", "O", "B-B"}, iob), (Spans{{"A", 1, 3}, {"B", 4, 5}}));
  EXPECT_EQ(entity_spans(Names{"B-A", "B-A", "I-B", "I-B"}, iob), (Spans{{"A", 0, 1}, {"A", 1, 2}, {"B", 2, 4}}));
  EXPECT_EQ(entity_spans(Names{"I-A", "O", "I-A", "B-A"}, iob), (Spans{{"A", 0, 1}, {"A", 2, 3}, {"A", 3, 4}}));
  EXPECT_EQ(entity_spans(Names{}, iob), Spans{});
}

TEST(EntitySpans, FollowBioesLabels) {
  const LabelScheme bioes = LabelScheme::kIobes;
  EXPECT_EQ(entity_spans(Names{"B-A", "I-A", "E-A", "S-A", "S-A", "O"}, bioes),
            (Spans{{"A", 0, 3}, {"A", 3, 4}, {"A", 4, 5}}));
  EXPECT_EQ(entity_spans(Names{"B-A", "O", "E-A"}, bioes), (Spans{{"A", 0, 1}, {"A", 2, 3}}));
}

TEST(EntitySpans, FollowBilouLabelsThatEndProperly) {
  const LabelScheme bilou = LabelScheme::kBilou;
  EXPECT_EQ(entity_spans(Names{"B-A", "I-A", "L-A", "U-A", "U-A"}, bilou),
            (Spans{{"A", 0, 3}, {"A", 3, 4}, {"A", 4, 5}}));
  EXPECT_EQ(entity_spans(Names{"B-A", "I-A", "O", "L-A", "B-A", "L-B"}, bilou), Spans{});
}

TEST(EntitySpans, TakePlainNamesAsWholeTypes) {
  const LabelScheme plain = LabelScheme::kPlain;
  EXPECT_EQ(entity_spans(Names{"RATE", "RATE", "DATE", "O", "RATE", ""}, plain),
            (Spans{{"RATE", 0, 2}, {"DATE", 2, 3}, {"RATE", 4, 5}}));
  EXPECT_EQ(entity_spans(Names{"E-MAIL"}, plain), (Spans{{"E-MAIL", 0, 1}}));
}

TEST(EntitySpans, ReadEachNameOfAMixtureByItself) {
  EXPECT_EQ(entity_spans(Names{"TOTAL", "TOTAL", "", "B-A", "L-A", "U-A"}, LabelScheme::kMixed),
            (Spans{{"TOTAL", 0, 2}, {"A", 3, 5}, {"A", 5, 6}}));
}

}  // namespace
}  // namespace plimsoll
