// TaskConfig: what config.json says about the task that a model is trained for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

// Options of a loss over classes, or of one over similarities; not part of config.json. Smoothing and a focal loss
// exclude each other.
struct LossOptions {
  double label_smoothing = 0;  // label_smoothing_factor of `transformers`
  double focal_gamma = 0;      // Lin et al. 2017; 0: plain cross-entropy
  // By label; empty: 1 each. An update's loss is divided by the sum of the weights of its labels, as
  // torch.nn.CrossEntropyLoss(weight=...) divides.
  std::vector<float> class_weights{};
  // Divides the similarities that a contrastive loss compares; the default is that of Gao et al. 2021.
  double temperature = 0.05;

  bool is_plain() const { return label_smoothing == 0 && focal_gamma == 0 && class_weights.empty(); }
};

struct TaskConfig {
  // The part of `architectures` after "For", which names the head; empty: the model has no head.
  std::string architecture{};
  std::vector<std::string> labels{};  // by id, from id2label
  // Of classes of whole pages: "single_label_classification", "multi_label_classification" or "regression"; empty
  // if the config does not say.
  std::string problem_type{};

  // The labels of entities, from and to, that links may join; empty: any.
  std::vector<std::pair<std::string, std::string>> link_labels{};
  // A window has at most this many entities; memory for pairs of them grows with the square.
  std::int64_t max_entities = kMaxEntities;

  LossOptions loss{};

  static constexpr std::int64_t kMaxEntities = 256;
  std::int64_t num_labels() const { return static_cast<std::int64_t>(labels.size()); }  // C
};

}  // namespace plimsoll
