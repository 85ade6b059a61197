// Which parameters train at which share of the run's rate.
#include "model/learning_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace plimsoll {
namespace {

using testing::DoubleEq;
using testing::Pair;
using testing::UnorderedElementsAre;
using Part = ParameterSpec::Part;

ParameterSpec spec(const char* name, Part part, std::int64_t layer = -1) {
  ParameterSpec made{.name = name, .shape = {4}, .file_shape = {4}};
  made.part = part;
  made.layer = layer;
  return made;
}

const std::vector<ParameterSpec>& decoder() {
  static const std::vector<ParameterSpec> specs = {spec("embed", Part::kWordEmbedding),
                                                   spec("embed.norm", Part::kOther),
                                                   spec("layers.0.w", Part::kEncoderMatrix, 0),
                                                   spec("layers.1.norm", Part::kOther, 1),
                                                   spec("norm", Part::kOther),
                                                   spec("distances", Part::kAttentionTable),
                                                   spec("lm_head", Part::kLanguageHead),
                                                   spec("score", Part::kHead)};
  return specs;
}

TEST(LearningRates, DecreaseWithTheDistanceFromTheHead) {
  // The norm behind the last layer and both heads have the full rate.
  EXPECT_THAT(rate_factors(decoder(), {.layer_decay = 0.5}, 1),
              UnorderedElementsAre(Pair("embed", DoubleEq(0.125)), Pair("embed.norm", DoubleEq(0.125)),
                                   Pair("layers.0.w", DoubleEq(0.25)), Pair("layers.1.norm", DoubleEq(0.5)),
                                   Pair("distances", DoubleEq(0.125))));
  EXPECT_TRUE(rate_factors(decoder(), {}, 1).empty());
}

TEST(LearningRates, OfPatternsReplaceThem) {
  const auto factors =
      rate_factors(decoder(), {.layer_decay = 0.5, .rates = {{"layers.*", 3e-5}, {"*.norm", 6e-5}}}, 3e-5);
  EXPECT_FALSE(factors.contains("layers.0.w")) << "the run's own";
  EXPECT_DOUBLE_EQ(factors.at("layers.1.norm"), 2);
  EXPECT_THROW(rate_factors(decoder(), {.rates = {{"none.*", 1}}}, 1), UsageError);
}

}  // namespace
}  // namespace plimsoll
