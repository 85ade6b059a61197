#include "tasks/causal_lm/results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/dataset.h"

namespace plimsoll {
namespace {

// Sums over learned tokens.
struct TokenSums {
  double loss = 0;
  std::uint64_t tokens = 0, right = 0;

  TokenSums& operator+=(const TokenSums& more) {
    loss += more.loss;
    tokens += more.tokens;
    right += more.right;
    return *this;
  }
  double mean_loss() const { return tokens == 0 ? 0 : loss / static_cast<double>(tokens); }
  double accuracy() const { return tokens == 0 ? 0 : static_cast<double>(right) / static_cast<double>(tokens); }

  // Adds a window. `scores` is the head's output, two numbers per row.
  [[nodiscard]] bool add(const Batch& batch, std::int64_t sample, const TensorView& scores) {
    const std::int32_t* const labels = batch.tensor(input::kLabels).data<std::int32_t>();
    for (std::int64_t row = batch.first_text_row(sample); row < batch.first_text_row(sample + 1); ++row) {
      if (labels[row] == kIgnoredLabel) continue;
      const float* const score = scores.data<float>() + 2 * row;
      if (!std::isfinite(score[0])) return false;
      loss += double{score[0]};
      right += score[1] > 0 ? 1U : 0U;
      ++tokens;
    }
    return true;
  }
};

class TokenScorer final : public Scorer {
 public:
  void begin_page(std::uint32_t) override { page_ = {}; }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& scores) override {
    return page_.add(batch, sample, scores);
  }
  void end_page() override { all_ += page_; }
  Scores scores() const override {
    return {.metrics = {{.name = "perplexity", .value = std::exp(all_.mean_loss()), .smaller_is_better = true},
                        {.name = "accuracy", .value = all_.accuracy()}},
            .support = all_.tokens,
            .first = {all_.loss, static_cast<double>(all_.tokens)},
            .is_exponent = true};
  }
  double page_loss() const override { return page_.mean_loss(); }

 private:
  TokenSums page_, all_;
};

class TextPredictions final : public Predictions {
 public:
  void begin_page(std::uint32_t) override { page_ = {}; }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& scores) override {
    return page_.add(batch, sample, scores);
  }
  void end_page() override {}
  nlohmann::json to_json(const Page& page) const override {
    return {{"id", page.id},
            {"tokens", page_.tokens},
            {"loss", page_.mean_loss()},
            {"perplexity", std::exp(page_.mean_loss())},
            {"accuracy", page_.accuracy()}};
  }
  AnnotatedPage drawing(const Page& page, BoxFormat) const override { return {.image = page.image}; }

 private:
  TokenSums page_;
};

}  // namespace

std::unique_ptr<Scorer> token_scorer() { return std::make_unique<TokenScorer>(); }
std::unique_ptr<Predictions> text_predictions() { return std::make_unique<TextPredictions>(); }

}  // namespace plimsoll
