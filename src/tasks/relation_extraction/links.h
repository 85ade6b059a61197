// Finds the links between a page's entities from the pairs of its windows.
//
//   PageLinks links(config);
//   links.begin_page(7);  links.add_window(batch, sample, logits);
//   for (const ScoredLink& link : links.found(*entities_of(page))) use(link.from, link.to, link.probability);
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "model/task_config.h"
#include "tasks/relation_extraction/entities.h"
#include "tensor/tensor.h"

namespace plimsoll {

// The labels of entities between which there may be links: those of config.link_labels, or any if it names none.
class LinkLabels {
 public:
  explicit LinkLabels(const TaskConfig& config);
  // Labels are given by number.
  bool may_link(std::int32_t from, std::int32_t to) const { return pairs_.empty() || pairs_.contains({from, to}); }

 private:
  std::set<std::pair<std::int32_t, std::int32_t>> pairs_;
};

inline constexpr std::size_t kPairBytes = 200;  // of a pair of entities, while its page is read and scored

struct ScoredLink {
  std::size_t from = 0, to = 0;  // entities of the page
  double probability = 0;

  bool is_link() const { return probability >= 0.5; }
};

class PageLinks {
 public:
  explicit PageLinks(const TaskConfig& config) : labels_(config) {}

  void begin_page(std::uint32_t page);
  // `logits` f32[B E E, 2]. Returns false if a pair's logits are not finite.
  [[nodiscard]] bool add_window(const Batch& batch, std::int64_t sample, const TensorView& logits);
  std::uint32_t page() const { return page_; }
  // Returns the mean cross-entropy of the page's pairs that have a label.
  double loss() const { return loss_terms_ == 0 ? 0 : loss_ / static_cast<double>(loss_terms_); }
  // Returns every pair that a window scored and that may be linked, ascending; if several windows scored it, with the
  // mean of the probabilities.
  std::vector<ScoredLink> scored(const PageEntities& entities) const;
  // Returns the pairs with a probability of at least a half.
  std::vector<ScoredLink> found(const PageEntities& entities) const;

 private:
  // Identifies an entity in windows: the word where it begins, and how many entities that begin at the same word come
  // before it.
  using Key = std::pair<std::int32_t, std::int32_t>;
  struct Sum {
    double probabilities = 0;
    int windows = 0;
  };

  LinkLabels labels_;
  std::uint32_t page_ = 0;
  std::map<std::pair<Key, Key>, Sum> pairs_;
  double loss_ = 0;
  std::int64_t loss_terms_ = 0;
};

}  // namespace plimsoll
