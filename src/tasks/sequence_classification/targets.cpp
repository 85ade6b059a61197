#include "tasks/sequence_classification/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/counted.h"
#include "data/dataset.h"
#include "data/packed.h"
#include "data/page_faults.h"
#include "tasks/sequence_classification/head.h"

namespace plimsoll {
namespace {

constexpr const char* kKey = "label";
constexpr const char* kKinds = "a class's name, a list of names, or a number";

class PageLabelReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const nlohmann::json& json, const Page& page,
                                         PageFaults* faults) const override {
    const auto found = json.find(kKey);
    if (found == json.end() || found->is_null()) return nullptr;
    auto label = std::make_shared<PageLabel>();
    if (read_value(*found, label->value)) return label;
    report(faults, wrong_type(page, "`label`", *found, kKinds));
    return nullptr;
  }
  std::string_view key() const override { return kKey; }

  void pack(const PageTarget& target, Packer& out) const override {
    const auto& value = dynamic_cast<const PageLabel&>(target).value;
    out.count(value.index());
    if (const auto* const name = std::get_if<std::string>(&value)) out.text(*name);
    if (const auto* const number = std::get_if<double>(&value)) out.real(*number);
    if (const auto* const names = std::get_if<std::vector<std::string>>(&value)) {
      out.count(names->size());
      for (const std::string& name : *names) out.text(name);
    }
  }
  std::shared_ptr<const PageTarget> unpack(Unpacker& in) const override {
    auto label = std::make_shared<PageLabel>();
    switch (in.count()) {
      case 0:
        label->value = in.text();
        break;
      case 1: {
        std::vector<std::string> names(in.size());
        for (std::string& name : names) name = in.text();
        label->value = std::move(names);
        break;
      }
      default:
        label->value = in.real();
    }
    return label;
  }

 private:
  static bool read_name(const nlohmann::json& value, std::string& name) {
    if (!value.is_string()) return false;
    name = value.get<std::string>();
    return !name.empty() && invalid_utf8_offset(name) == std::string_view::npos;
  }
  static bool read_value(const nlohmann::json& value, decltype(PageLabel::value)& label) {
    if (value.is_number() && std::isfinite(value.get<double>())) {
      label = value.get<double>();
      return true;
    }
    if (value.is_array()) {
      std::vector<std::string> names(value.size());
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (!read_name(value[i], names[i])) return false;
      }
      std::ranges::sort(names);
      names.erase(std::unique(names.begin(), names.end()), names.end());
      label = std::move(names);
      return true;
    }
    return read_name(value, label.emplace<std::string>());
  }
};

std::optional<std::int64_t> whole(const PageLabel& label) {
  const double* const number = std::get_if<double>(&label.value);
  if (number == nullptr || *number != std::floor(*number) || std::abs(*number) > 1e9) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string shown_label(const PageLabel& label) {
  if (const double* const number = std::get_if<double>(&label.value)) return fmt::format("{}", *number);
  if (const auto* const name = std::get_if<std::string>(&label.value)) return in_quotes(*name);
  return fmt::format("a list of {}", counted(label.names().size(), "name"));
}

Problem other_problem(const Page& page, const PageLabel& label, ClassProblem problem) {
  return {.what = fmt::format("a page's label is not one of {}", class_problem_name(problem)),
          .where = place(page),
          .found = shown_label(label),
          .allowed = problem == ClassProblem::kSingleLabel  ? "a class's name, or its number"
                     : problem == ClassProblem::kMultiLabel ? "a list of classes' names, which may be empty"
                                                            : "a number",
          .remedy =
              "label all pages in one way; --problem-type says which (a name: single_label_classification, a "
              "list: multi_label_classification, a number: regression)"};
}

Problem no_label_problem(const Page& page) {
  const bool words = !page.labels.empty();
  return {.what = "a page has no label",
          .where = place(page),
          .found = words ? "`labels` of its words" : "no `label`",
          .allowed = fmt::format("`label`: {}", kKinds),
          .remedy = words ? "pass --task token-classification, or label the page" : "label the page, or omit it"};
}

class PageLabelTargets final : public Targets {
 public:
  explicit PageLabelTargets(const TaskConfig& config)
      : problem_(class_problem(config)), labels_(config.labels, "the labels") {}

  void encode(const PageWindow& window, EncodedExample& out) const override {
    const PageLabel* const label = label_of(window.page);
    if (label == nullptr) throw PageError("label-missing", no_label_problem(window.page));
    if (problem_ == ClassProblem::kRegression) {
      out.targets.assign(1, std::bit_cast<std::int32_t>(static_cast<float>(number_of(window.page, *label))));
    } else {
      const std::vector<std::int32_t> ids = ids_of(window.page, *label);
      if (problem_ == ClassProblem::kSingleLabel) {
        out.targets.assign(1, ids.front());
      } else {
        out.targets.assign(labels_.size(), std::bit_cast<std::int32_t>(0.0F));
        for (const std::int32_t id : ids) {
          out.targets[static_cast<std::size_t>(id)] = std::bit_cast<std::int32_t>(1.0F);
        }
      }
    }
    out.loss_terms = std::ssize(out.targets);
  }

  void check(const Page& page, bool required, Findings& findings,
             std::map<std::string, std::uint64_t>& labels) const override {
    const PageLabel* const label = label_of(page);
    if (label == nullptr) {
      if (required) findings.add(Severity::kError, "label-missing", no_label_problem(page));
      return;
    }
    try {
      if (problem_ == ClassProblem::kRegression) {
        number_of(page, *label);
        return;
      }
      for (const std::int32_t id : ids_of(page, *label)) ++labels[labels_.name(static_cast<std::size_t>(id))];
    } catch (const PageError& error) {
      findings.add(Severity::kError, error.kind(), error.problem());
    }
  }

 private:
  double number_of(const Page& page, const PageLabel& label) const {
    if (const double* const number = std::get_if<double>(&label.value)) return *number;
    throw PageError("label-kind", other_problem(page, label, problem_));
  }

  // One for a single label.
  std::vector<std::int32_t> ids_of(const Page& page, const PageLabel& label) const {
    const bool single = problem_ == ClassProblem::kSingleLabel;
    if (const std::optional<std::int64_t> number = whole(label); number && single) {
      if (*number >= 0 && *number < static_cast<std::int64_t>(labels_.size())) {
        return {static_cast<std::int32_t>(*number)};
      }
      throw PageError("label-unknown",
                      {.what = "a label's number is not in the label set",
                       .where = place(page),
                       .found = fmt::format("{}", *number),
                       .allowed = fmt::format("0 to {} ({})", labels_.size() - 1, labels_.listed()),
                       .remedy = "correct the data; check, plan and train also take another label set (--labels) for a "
                                 "new head; for numbers that are not classes pass --problem-type regression"});
    }
    const bool is_list = std::holds_alternative<std::vector<std::string>>(label.value);
    if (std::holds_alternative<double>(label.value) || (single && is_list)) {
      throw PageError("label-kind", other_problem(page, label, problem_));
    }
    std::vector<std::int32_t> ids;
    for (const std::string& name : label.names()) {
      const std::optional<std::int32_t> id = labels_.find(name);
      if (!id) throw PageError("label-unknown", unknown_class_problem(page, name, labels_));
      ids.push_back(*id);
    }
    return ids;
  }

  ClassProblem problem_;
  LabelSet labels_;
};

ClassProblem natural_problem(const PageLabel& label) {
  if (std::holds_alternative<double>(label.value)) return ClassProblem::kRegression;
  return std::holds_alternative<std::string>(label.value) ? ClassProblem::kSingleLabel : ClassProblem::kMultiLabel;
}

}  // namespace

std::vector<std::string> PageLabel::names() const {
  if (const auto* const name = std::get_if<std::string>(&value)) return {*name};
  if (const auto* const names = std::get_if<std::vector<std::string>>(&value)) return *names;
  return {};
}

const PageLabel* label_of(const Page& page) { return dynamic_cast<const PageLabel*>(page.target.get()); }

const TargetReader& page_label_reader() {
  static const PageLabelReader reader;
  return reader;
}

std::shared_ptr<const Targets> page_label_targets(const TaskConfig& config) {
  return std::make_shared<PageLabelTargets>(config);
}

Problem unknown_class_problem(const Page& page, const std::string& name, const LabelSet& labels) {
  return {.what = "a page's label is not in the label set",
          .where = place(page),
          .found = in_quotes(name),
          .allowed = labels.listed(),
          .remedy = "correct the data; check, plan and train also take another label set (--labels) for a new head"};
}

TaskConfig page_labels_in(const PageSource& pages, const TaskConfig& config) {
  std::optional<ClassProblem> problem;
  if (!config.problem_type.empty()) problem = class_problem(config);
  std::set<std::string> names;
  std::int64_t largest = -1;
  bool any = false;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const Page page = pages.read(i);
    const PageLabel* const label = label_of(page);
    if (label == nullptr) continue;
    any = true;
    if (!problem) problem = natural_problem(*label);
    const bool is_number = std::holds_alternative<double>(label->value);
    const bool is_list = std::holds_alternative<std::vector<std::string>>(label->value);
    const bool fits = *problem == ClassProblem::kRegression ? is_number
                      : *problem == ClassProblem::kMultiLabel
                          ? !is_number
                          : !is_list && (!is_number || whole(*label).value_or(-1) >= 0);
    if (!fits) throw PageError("label-kind", other_problem(page, *label, *problem));
    names.merge([](const std::vector<std::string>& each) {
      return std::set<std::string>(each.begin(), each.end());
    }(label->names()));
    if (is_number) largest = std::max(largest, whole(*label).value_or(-1));
  }
  if (!any) {
    Problem none = pages.size() > 0 ? no_label_problem(pages.read(0)) : Problem{.where = listed(pages.paths())};
    none.what = "no page has a label";
    none.found = fmt::format("{}, this one first: {}", counted(pages.size(), "page"), none.found);
    throw DataError(std::move(none));
  }
  TaskConfig seen = config;
  seen.problem_type = class_problem_name(*problem);
  seen.labels.assign(names.begin(), names.end());
  if (*problem == ClassProblem::kRegression) seen.labels = {"LABEL_0"};
  if (*problem == ClassProblem::kSingleLabel && names.empty()) {
    constexpr std::int64_t kMostClasses = 100'000;
    for (std::int64_t i = 0; i <= std::min(largest, kMostClasses); ++i)
      seen.labels.push_back(fmt::format("LABEL_{}", i));
  }
  if (seen.labels.empty()) seen.labels = {"LABEL_0"};  // every list is empty
  return seen;
}

}  // namespace plimsoll
