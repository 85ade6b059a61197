#include "train/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

namespace plimsoll::test {
namespace {

std::int32_t next(const SamplingOptions& options, std::vector<float> logits,
                  const std::vector<std::int32_t>& tokens = {0}, std::uint32_t text = 0) {
  return TokenSampler(options, std::ssize(logits)).next(logits, tokens, text);
}

// How often each token comes, of so many draws at different places of a text.
std::map<std::int32_t, double> shares(const SamplingOptions& options, const std::vector<float>& logits) {
  constexpr int kDraws = 4000;
  TokenSampler sampler(options, std::ssize(logits));
  std::map<std::int32_t, double> found;
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < kDraws; ++i) {
    tokens.push_back(0);
    std::vector<float> copy = logits;
    found[sampler.next(copy, tokens, 3)] += 1.0 / kDraws;
  }
  return found;
}

TEST(TokenSampler, TakesTheFirstOfTheLikeliest) {
  EXPECT_EQ(next({}, {0, 2, 2, 1}), 1);
  EXPECT_EQ(next({.temperature = 9, .top_k = 1}, {-3, -1, -2}), 1);
}

// As transformers' RepetitionPenaltyLogitsProcessor: 3 / 2 is below 2, and -1 * 2 below -1.5.
TEST(TokenSampler, PenalisesWhatTheTextHas) {
  EXPECT_EQ(next({.repetition_penalty = 2}, {3, 2, 1}, {0, 0}), 1);
  EXPECT_EQ(next({.repetition_penalty = 2}, {-1, -1.5F}, {0}), 1);
  EXPECT_EQ(next({.repetition_penalty = 1.2}, {3, 2, 1}, {0}), 0);
}

TEST(TokenSampler, DrawsByProbability) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  const double limit = 5 * std::sqrt(0.25 / 4000);  // five standard errors
  std::map<std::int32_t, double> found = shares({.do_sample = true, .top_k = 0}, logits);
  const std::array<double, 4> expected = {0.5, 0.3, 0.15, 0.05};
  for (std::int32_t id = 0; id < 4; ++id) EXPECT_NEAR(found[id], expected[static_cast<std::size_t>(id)], limit);
  // Squared and scaled to a sum of 1.
  found = shares({.do_sample = true, .temperature = 0.5, .top_k = 0}, logits);
  EXPECT_NEAR(found[0], 0.25 / 0.365, limit);
  found = shares({.do_sample = true, .top_k = 2}, logits);
  EXPECT_NEAR(found[0], 0.5 / 0.8, limit);
  EXPECT_EQ(found.size(), 2U);
  // The token that reaches the share is taken, too.
  EXPECT_EQ(shares({.do_sample = true, .top_k = 0, .top_p = 0.49}, logits).size(), 1U);
  EXPECT_EQ(shares({.do_sample = true, .top_k = 0, .top_p = 0.6}, logits).size(), 2U);
  EXPECT_EQ(shares({.do_sample = true, .top_k = 0, .top_p = 0.81}, logits).size(), 3U);
}

TEST(TokenSampler, ADrawDependsOnSeedTextAndPlace) {
  const std::vector<float> logits(1000, 1.0F);
  const SamplingOptions options{.do_sample = true, .top_k = 0};
  const std::int32_t found = next(options, logits, {1, 2}, 4);
  EXPECT_EQ(next(options, logits, {5, 6}, 4), found);
  EXPECT_NE(next(options, logits, {1, 2, 3}, 4), found);
  EXPECT_NE(next(options, logits, {1, 2}, 5), found);
  SamplingOptions other = options;
  other.seed = 43;
  EXPECT_NE(next(other, logits, {1, 2}, 4), found);
}

}  // namespace
}  // namespace plimsoll::test
