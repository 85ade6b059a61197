#include "request/class_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"

namespace plimsoll {
namespace {

constexpr const char* kOption = "--class-weights";

std::vector<float> balanced_weights(const LabelSet& labels, const std::map<std::string, std::uint64_t>& counts) {
  std::vector<double> occurrences(static_cast<std::size_t>(labels.size()));
  double all = 0, classes = 0;
  for (const auto& [name, count] : counts) {
    const auto id = labels.find(name);
    if (!id) continue;
    classes += occurrences[static_cast<std::size_t>(*id)] == 0 ? 1 : 0;
    occurrences[static_cast<std::size_t>(*id)] += static_cast<double>(count);
    all += static_cast<double>(count);
  }
  std::vector<float> weights;
  for (const double count : occurrences) weights.push_back(count > 0 ? static_cast<float>(all / (classes * count)) : 1);
  return weights;
}

std::vector<float> named_weights(const LabelSet& labels, const std::vector<std::pair<std::string, double>>& named) {
  std::vector<float> weights(static_cast<std::size_t>(labels.size()), 1);
  for (const auto& [name, weight] : named) {
    const auto id = labels.find(name);
    if (!id) {
      const std::string meant = nearest(name, labels.names());
      throw UsageError({.what = "a class weight is for a label that the model does not have",
                        .where = kOption,
                        .found = name,
                        .allowed = fmt::format("{}", fmt::join(labels.names(), ", ")),
                        .remedy = meant.empty() ? "correct the name" : fmt::format("did you mean {}?", meant)});
    }
    if (!(weight >= 0) || !std::isfinite(static_cast<float>(weight))) {
      throw UsageError({.what = "a class weight is invalid",
                        .where = kOption,
                        .found = fmt::format("{}={}", name, weight),
                        .allowed = "a finite number of 0 or more"});
    }
    weights[static_cast<std::size_t>(*id)] = static_cast<float>(weight);
  }
  return weights;
}

}  // namespace

void check_class_weights(const ModelBundle& bundle, const ClassWeightRequest& request) {
  if (!request.asked() || bundle.task().weighs_classes(bundle.config.task)) return;
  const std::string problem_type = bundle.config.task.problem_type;
  throw UsageError(
      {.what = "the loss is not over labels, one of which is right",
       .where = kOption,
       .found = fmt::format("{}{}{}", bundle.task().name(), problem_type.empty() ? "" : ", ", problem_type),
       .allowed = "token-classification, pair-classification, or sequence-classification with one class a page",
       .remedy = "omit the option"});
}

void set_class_weights(ModelBundle& bundle, const ClassWeightRequest& request,
                       const std::map<std::string, std::uint64_t>& counts) {
  if (!request.asked()) return;
  check_class_weights(bundle, request);
  const LabelSet labels(bundle.config.task.labels, "the model's labels");
  std::vector<float>& weights = bundle.config.task.loss.class_weights;
  weights = request.balanced ? balanced_weights(labels, counts) : named_weights(labels, request.named);
  const bool any = std::ranges::any_of(counts, [&](const auto& label) {
    const auto id = labels.find(label.first);
    return id && weights[static_cast<std::size_t>(*id)] > 0;
  });
  if (any) return;
  throw UsageError({.what = "every label of the data has weight 0: there is nothing to learn",
                    .where = kOption,
                    .found = class_weights_text(bundle.config.task),
                    .allowed = "a weight above 0 for at least one label that the data has"});
}

std::string class_weights_text(const TaskConfig& config) {
  std::string text;
  for (std::size_t label = 0; label < config.loss.class_weights.size(); ++label) {
    text +=
        fmt::format("{}{} {:.4g}", label == 0 ? "" : ", ", config.labels.at(label), config.loss.class_weights[label]);
  }
  return text;
}

}  // namespace plimsoll
