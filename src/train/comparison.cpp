#include "train/comparison.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Passes every window to two readers.
class Both final : public WindowReader {
 public:
  Both(WindowReader& first, WindowReader& second) : first_(first), second_(second) {}

  void begin_page(std::uint32_t page) override {
    first_.begin_page(page);
    second_.begin_page(page);
  }
  bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) override {
    const bool finite = first_.add_window(batch, sample, logits);
    return second_.add_window(batch, sample, logits) && finite;
  }
  void end_page() override {
    first_.end_page();
    second_.end_page();
  }

 private:
  WindowReader &first_, &second_;
};

// A line of predictions has what was found under one of these keys (docs/predictions.md); a text's line has none.
bool finds_something(const json& line) {
  return std::ranges::any_of(std::array{"links", "questions", "labels", "label"},
                             [&](const char* key) { return line.contains(key); });
}
std::vector<std::uint64_t> found_in(const json& line) {
  std::vector<std::uint64_t> found;
  const auto add = [&found](const std::string& text) { found.push_back(hash_bytes(std::as_bytes(std::span(text)))); };
  if (line.contains("links")) {
    for (const json& link : line["links"]) add(link.dump());
  } else if (line.contains("questions")) {
    for (const json& question : line["questions"]) {
      const json& answers = question.at("answers");
      add(answers.empty() ? std::string() : answers.front().value("text", ""));
    }
  } else if (line.contains("labels")) {
    for (const json& label : line["labels"]) add(label.dump());
  } else if (line.contains("label")) {
    add(line["label"].dump());
  }
  return found;
}

// Returns the first metric over the pages that were drawn.
double statistic(const PagesRead& read, const std::vector<std::size_t>& drawn) {
  Scores::Quotient sum;
  for (const std::size_t page : drawn) {
    sum.above += read.first[page].above;
    sum.below += read.first[page].below;
  }
  return read.scores.is_exponent ? std::exp(sum.value()) : sum.value();
}

ConfidenceInterval bootstrap(std::size_t pages, const std::function<double(const std::vector<std::size_t>&)>& of) {
  if (pages == 0) return {};
  std::vector<double> values;
  std::vector<std::size_t> drawn(pages);
  for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = 0; i < pages; ++i) {
      const PhiloxOutput random = philox4x32({draw, static_cast<std::uint32_t>(i), 0, 0}, {0, 0});
      drawn[i] = static_cast<std::size_t>((static_cast<std::uint64_t>(random[0]) * pages) >> 32);
    }
    values.push_back(of(drawn));
  }
  std::ranges::sort(values);
  const auto percentile = [&](double share) {
    return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
  };
  return {.low = percentile(0.025), .high = percentile(0.975)};
}

}  // namespace

PagesRead read_pages(const Session& session, const ModelBundle& bundle, const Dataset& dataset,
                     const LoaderOptions& loader, bool keeps) {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<Scorer> scorer = bundle.task().scorer(bundle.config.task, dataset);
  const std::unique_ptr<Predictions> predictions = bundle.task().predictions(bundle.config.task, {});
  Both both(*scorer, *predictions);
  PagesRead read;
  Scores::Quotient before;
  predict_pages(session, bundle.definition(), dataset, loader, both, {}, [&](std::uint32_t page) {
    const Scores::Quotient now = scorer->scores().first, of_page{now.above - before.above, now.below - before.below};
    before = now;
    ++read.pages;
    const json line = predictions->to_json(dataset.source().read(page));
    if (line.contains("value") || !finds_something(line)) read.form = PagesRead::Form::kNumbers;
    if (line.contains("links")) read.form = PagesRead::Form::kSet;
    std::vector<std::uint64_t> found = found_in(line);
    if (!keeps) return;
    found.shrink_to_fit();
    read.first.push_back(of_page);
    read.found.push_back(std::move(found));
  });
  read.scores = scorer->scores();
  read.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return read;
}

ConfidenceInterval interval(const PagesRead& of) {
  return bootstrap(of.first.size(), [&](const auto& drawn) { return statistic(of, drawn); });
}

ConfidenceInterval difference(const PagesRead& a, const PagesRead& b) {
  check(a.first.size() == b.first.size(), "both models have read the same pages");
  return bootstrap(a.first.size(), [&](const auto& drawn) { return statistic(b, drawn) - statistic(a, drawn); });
}

std::optional<double> agreement(const PagesRead& a, const PagesRead& b) {
  check(a.found.size() == b.found.size(), "both models have read the same pages");
  if (a.form != b.form || a.form == PagesRead::Form::kNumbers) return std::nullopt;
  std::size_t equal = 0, all = 0;
  for (std::size_t page = 0; page < a.found.size(); ++page) {
    const std::vector<std::uint64_t>&first = a.found[page], &second = b.found[page];
    if (a.form == PagesRead::Form::kList) {
      check(first.size() == second.size(), "both models answer the same questions");
      for (std::size_t i = 0; i < first.size(); ++i) equal += first[i] == second[i] ? 1U : 0U;
      all += first.size();
      continue;
    }
    std::set<std::uint64_t> either(first.begin(), first.end());
    either.insert(second.begin(), second.end());
    equal += first.size() + second.size() - either.size();
    all += either.size();
  }
  return all == 0 ? 1 : static_cast<double>(equal) / static_cast<double>(all);
}

}  // namespace plimsoll
