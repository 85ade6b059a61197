#include "tasks/relation_extraction/links.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/windows.h"
#include "tasks/parts/judgement.h"
#include "tasks/relation_extraction/head.h"

namespace plimsoll {

LinkLabels::LinkLabels(const TaskConfig& config) {
  const auto id = [&](const std::string& name) {
    const auto at = std::ranges::find(config.labels, name);
    return at == config.labels.end() ? -1 : static_cast<std::int32_t>(at - config.labels.begin());
  };
  for (const auto& [from, to] : config.link_labels) pairs_.emplace(id(from), id(to));
}

void PageLinks::begin_page(std::uint32_t page) {
  page_ = page;
  pairs_.clear();
  loss_ = 0;
  loss_terms_ = 0;
}

bool PageLinks::add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) {
  const auto tokens = batch.tensor(kEntityTokens).span<std::int32_t>();
  const auto labels = batch.tensor(kEntityLabels).span<std::int32_t>();
  const auto size = tokens.size() / static_cast<std::size_t>(batch.shape().max_samples);  // E
  const auto first_slot = static_cast<std::size_t>(sample) * size;
  const std::int64_t first_row =
      batch.tensor(input::kSampleOffsets).span<std::int32_t>()[static_cast<std::size_t>(sample)];
  const std::int64_t first_text_row = batch.first_text_row(sample);
  std::vector<Key> keys;  // of the window's entities, which take its first slots
  for (std::size_t slot = 0; slot < size; ++slot) {
    // A slot without an entity names the sample's first row, which predicts nothing.
    const std::int64_t text_row = first_text_row + tokens[first_slot + slot] - first_row;
    const std::int32_t word = batch.predicts()[static_cast<std::size_t>(text_row)];
    if (word == kNoWord) break;
    const bool again = !keys.empty() && std::ranges::find(keys, Key{word, 0}) != keys.end();
    const auto before = again ? std::ranges::count(keys, word, &Key::first) : std::ptrdiff_t{0};
    keys.emplace_back(word, static_cast<std::int32_t>(before));
  }
  const auto gold = batch.tensor(kLinkLabels).span<std::int32_t>();
  const std::span<const float> scores = logits.span<float>();
  for (std::size_t from = 0; from < keys.size(); ++from) {
    for (std::size_t to = 0; to < keys.size(); ++to) {
      const std::size_t at = (first_slot + from) * size + to;
      const std::span<const float> pair = scores.subspan(2 * at, 2);
      if (!std::isfinite(pair[0]) || !std::isfinite(pair[1])) return false;
      if (gold[at] != kIgnoredLabel) {
        loss_ += cross_entropy_of(pair, static_cast<std::size_t>(gold[at]));
        ++loss_terms_;
      }
      if (from == to || !labels_.may_link(labels[first_slot + from], labels[first_slot + to])) continue;
      Sum& sum = pairs_[{keys[from], keys[to]}];
      sum.probabilities += 1 / (1 + std::exp(double{pair[0]} - pair[1]));
      ++sum.windows;
    }
  }
  return true;
}

std::vector<ScoredLink> PageLinks::scored(const PageEntities& entities) const {
  std::map<Key, std::size_t> numbers;
  std::map<std::int32_t, std::int32_t> seen;
  for (std::size_t e = 0; e < entities.entities.size(); ++e) {
    if (entities.entities[e].begin == entities.entities[e].end) continue;
    const auto word = static_cast<std::int32_t>(entities.entities[e].begin);
    numbers.emplace(Key{word, seen[word]++}, e);
  }
  std::vector<ScoredLink> links;
  for (const auto& [pair, sum] : pairs_) {
    links.push_back({.from = numbers.at(pair.first),
                     .to = numbers.at(pair.second),
                     .probability = sum.probabilities / sum.windows});
  }
  std::ranges::sort(links, {}, [](const ScoredLink& link) { return std::pair(link.from, link.to); });
  return links;
}

std::vector<ScoredLink> PageLinks::found(const PageEntities& entities) const {
  std::vector<ScoredLink> links = scored(entities);
  std::erase_if(links, [](const ScoredLink& link) { return !link.is_link(); });
  return links;
}

}  // namespace plimsoll
