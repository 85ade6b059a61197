#include "tasks/page_pairs/targets.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/in_quotes.h"
#include "data/dataset.h"
#include "data/packed.h"
#include "data/page_faults.h"

namespace plimsoll {
namespace {

constexpr const char* kGroup = "group";

Problem no_label_problem(const Pairs& pairs, std::size_t pair, std::string allowed) {
  return {.what = "a pair has no label",
          .where = pairs.place(pair),
          .found = "no `label`",
          .allowed = std::move(allowed),
          .remedy = "label the pair, or omit it; --task pair-ranking needs no labels: its `a` is the better page"};
}

Problem other_label_problem(const Pairs& pairs, std::size_t pair, std::string allowed) {
  return {.what = "a pair's label is none of the model's",
          .where = pairs.place(pair),
          .found = in_quotes(pairs.label(pair)),
          .allowed = std::move(allowed),
          .remedy = "correct the label, or name all labels in the order of their numbers: --labels NAMES"};
}

// The second page of a pair has no target of its own.
void set_target(int side, std::int32_t target, EncodedExample& out) {
  out.targets.assign(1, side == 0 ? target : kIgnoredLabel);
  out.loss_terms = side == 0 && target != kIgnoredLabel ? 1 : 0;
}

class ClassPairTargets final : public PairTargets {
 public:
  explicit ClassPairTargets(const TaskConfig& config) : labels_(config.labels) {}

  void encode(const Pairs& pairs, std::size_t pair, int side, bool, EncodedExample& out) const override {
    const auto label = pairs.label_in(pair, labels_);
    if (!label && pairs.label(pair).empty()) {
      throw PageError("label-missing", no_label_problem(pairs, pair, allowed()));
    }
    if (!label) throw PageError("label-unknown", other_label_problem(pairs, pair, allowed()));
    set_target(side, *label, out);
  }
  PairOrder order() const override { return PairOrder::kAnother; }
  void check(const Pairs& pairs, Findings& findings, std::map<std::string, std::uint64_t>& labels) const override {
    pairs.check(order(), findings);
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      if (!pairs.is_usable(pair)) continue;
      const auto label = pairs.label_in(pair, labels_);
      if (label) {
        ++labels[labels_[static_cast<std::size_t>(*label)]];
      } else if (pairs.label(pair).empty()) {
        findings.add(Severity::kError, "label-missing", no_label_problem(pairs, pair, allowed()));
      } else {
        findings.add(Severity::kError, "label-unknown", other_label_problem(pairs, pair, allowed()));
      }
    }
    if (findings.count(Severity::kError) > 0 || labels.size() > 1 || labels.empty()) return;
    findings.add(Severity::kWarning, "nothing-to-learn",
                 {.what = "all pairs have the same label",
                  .where = listed(pairs.paths()),
                  .found = fmt::format("{} with label {}", counted(labels.begin()->second, "pair"),
                                       in_quotes(labels.begin()->first)),
                  .allowed = "pairs of two labels at least",
                  .remedy = "add pairs with another label; all that a model can learn here is this one"});
  }

 private:
  std::string allowed() const {
    std::string names;
    for (const std::string& name : labels_) names += (names.empty() ? "" : ", ") + name;
    return fmt::format("0 to {}, or a name: {}", labels_.size() - 1, names);
  }

  std::vector<std::string> labels_;
};

// The target is that the first page is the better one.
class PreferenceTargets final : public PairTargets {
 public:
  void encode(const Pairs&, std::size_t, int side, bool, EncodedExample& out) const override {
    set_target(side, 0, out);
  }
  PairOrder order() const override { return PairOrder::kContradicts; }
  void check(const Pairs& pairs, Findings& findings, std::map<std::string, std::uint64_t>&) const override {
    pairs.check(order(), findings);
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      if (pairs.label(pair).empty()) continue;
      findings.add(Severity::kWarning, "label-not-read",
                   {.what = "a ranking does not read labels",
                    .where = pairs.place(pair),
                    .found = "label " + in_quotes(pairs.label(pair)),
                    .allowed = "pairs whose `a` is the better page, without a label",
                    .remedy = "see that `a` is the better one of each pair; for pairs with labels: --task "
                              "pair-classification"});
    }
  }
};

class SimilarityTargets final : public PairTargets {
 public:
  bool trains_on(const Pairs& pairs, std::size_t pair) const override { return pairs.label(pair) == "1"; }
  // Which pages a loss of similarities compares depends on how batches are cut, so evaluation has no such loss.
  void encode(const Pairs& pairs, std::size_t pair, int side, bool trains, EncodedExample& out) const override {
    const std::int32_t group = pairs.group(side == 0 ? pairs[pair].a : pairs[pair].b);
    out.targets.assign(1, trains ? group : kIgnoredLabel);
    out.loss_terms = trains && side == 0 ? 1 : 0;
  }
  PairOrder order() const override { return PairOrder::kSame; }
  void check(const Pairs& pairs, Findings& findings, std::map<std::string, std::uint64_t>& labels) const override {
    pairs.check(order(), findings);
    std::set<std::int32_t> groups;  // that training learns to tell apart
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      if (!pairs.is_usable(pair)) continue;
      const std::string_view label = pairs.label(pair);
      if (label == "0" || label == "1") {
        ++labels[std::string(label)];
        if (trains_on(pairs, pair)) groups.insert(pairs.group(pairs[pair].a));
      } else if (label.empty()) {
        findings.add(Severity::kError, "label-missing", no_label_problem(pairs, pair, kAllowed));
      } else {
        findings.add(Severity::kError, "label-unknown", other_label_problem(pairs, pair, kAllowed));
      }
    }
    if (groups.size() == 1 && findings.count(Severity::kError) == 0) {
      findings.add(
          Severity::kWarning, "nothing-to-learn",
          {.what = "all pages that belong together are of one group",
           .where = listed(pairs.paths()),
           .found = counted(labels["1"], "pair") + " with label 1, joined by their pages",
           .allowed = "two groups at least: a loss of similarities tells pages of one from those of the others",
           .remedy = "add pairs with label 1 of other pages"});
    }
    if (labels.contains("1")) return;
    findings.add(Severity::kError, "nothing-to-learn",
                 {.what = "no pair belongs together",
                  .where = listed(pairs.paths()),
                  .found = counted(pairs.size(), "pair") + ", none with label 1",
                  .allowed = "pairs with label 1, which are what similarity is learned from",
                  .remedy = "label pairs of pages that belong together with 1"});
  }

 private:
  static constexpr const char* kAllowed = "1: the pages belong together; 0: they do not";
};

struct PageGroup final : PageTarget {
  std::string name;
};

class PageGroupReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const nlohmann::json& json, const Page& page,
                                         PageFaults* faults) const override {
    const auto found = json.find(kGroup);
    if (found == json.end() || found->is_null()) return nullptr;
    auto group = std::make_shared<PageGroup>();
    if (found->is_string() && !found->get<std::string>().empty()) {
      group->name = found->get<std::string>();
    } else if (found->is_number_integer()) {
      group->name = found->dump();
    } else {
      report(faults, wrong_type(page, "`group`", *found, "a group's name or number, or no such key"));
      return unread_target();
    }
    return group;
  }
  std::string_view key() const override { return kGroup; }
  void pack(const PageTarget& target, Packer& out) const override {
    out.text(dynamic_cast<const PageGroup&>(target).name);
  }
  std::shared_ptr<const PageTarget> unpack(Unpacker& in) const override {
    auto group = std::make_shared<PageGroup>();
    group->name = in.text();
    return group;
  }
};

}  // namespace

std::shared_ptr<const PairTargets> class_pair_targets(const TaskConfig& config) {
  return std::make_shared<ClassPairTargets>(config);
}
std::shared_ptr<const PairTargets> preference_targets() { return std::make_shared<PreferenceTargets>(); }
std::shared_ptr<const PairTargets> similarity_targets() { return std::make_shared<SimilarityTargets>(); }

const TargetReader& page_group_reader() {
  static const PageGroupReader reader;
  return reader;
}

std::string group_of_page(const Page& page) {
  const auto* const group = dynamic_cast<const PageGroup*>(page.target.get());
  return group == nullptr ? std::string() : group->name;
}

}  // namespace plimsoll
