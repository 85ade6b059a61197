#include "tasks/sequence_classification/targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/packed.h"
#include "data/page_faults.h"
#include "tasks/parts/other_task.h"
#include "tasks/sequence_classification/head.h"

namespace plimsoll {
namespace {

constexpr const char* kKey = "label";
constexpr double kLargest = 1e18;  // of labels; the loss is a sum of squared differences, which must stay below 3.4e38
constexpr std::int64_t kMostClasses = 100'000;
constexpr const char* kKinds = "a class's name, a list of names, a list of 0 or 1 for each class, or a number";

class PageLabelReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const nlohmann::json& json, const Page& page,
                                         PageFaults* faults) const override {
    const auto found = json.find(kKey);
    if (found == json.end() || found->is_null()) return nullptr;
    auto label = std::make_shared<PageLabel>();
    if (!read_value(*found, label->value)) {
      report(faults, wrong_type(page, "`label`", *found, kKinds));
      return unread_target();
    }
    const double* const number = std::get_if<double>(&label->value);
    if (number == nullptr || std::abs(*number) <= kLargest) return label;
    report(faults,
           PageError("label-range", {.what = "a page's label is a number too large to train on",
                                     .where = fmt::format("{}, `label`", place(page)),
                                     .found = shown(*found),
                                     .allowed = fmt::format("-{0:g} to {0:g}: their squares fit into floats", kLargest),
                                     .remedy = "correct the number, or scale all of them"}));
    return unread_target();
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
    if (const auto* const hot = std::get_if<MultiHot>(&value)) {
      out.count(hot->has.size());
      for (const bool has : hot->has) out.count(has ? 1 : 0);
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
      case 2:
        label->value = in.real();
        break;
      default: {
        MultiHot hot{std::vector<bool>(in.size())};
        for (std::size_t c = 0; c < hot.has.size(); ++c) hot.has[c] = in.count() != 0;
        label->value = std::move(hot);
      }
    }
    return label;
  }

 private:
  static bool read_name(const nlohmann::json& value, std::string& name) {
    if (!value.is_string()) return false;
    name = value.get<std::string>();
    return name.find_first_not_of(" \t\r\n") != std::string::npos &&
           invalid_utf8_offset(name) == std::string_view::npos;
  }
  static bool read_hot(const nlohmann::json& value, std::vector<bool>& has) {
    for (const nlohmann::json& each : value) {
      if (!each.is_boolean() && each != 0 && each != 1) return false;
      has.push_back(each.is_boolean() ? each.get<bool>() : each == 1);
    }
    return true;
  }
  static bool read_value(const nlohmann::json& value, decltype(PageLabel::value)& label) {
    if (value.is_number() && std::isfinite(value.get<double>())) {
      label = value.get<double>();
      return true;
    }
    if (value.is_array() && !value.empty() && !value.front().is_string()) {
      return read_hot(value, label.emplace<MultiHot>().has);
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

const MultiHot* hot_of(const PageLabel& label) { return std::get_if<MultiHot>(&label.value); }

std::string shown_label(const PageLabel& label) {
  if (const double* const number = std::get_if<double>(&label.value)) return fmt::format("{}", *number);
  if (const auto* const name = std::get_if<std::string>(&label.value)) return in_quotes(*name);
  if (const MultiHot* const hot = hot_of(label)) return fmt::format("a list of {}", counted(hot->has.size(), "number"));
  return fmt::format("a list of {}", counted(label.names().size(), "name"));
}

Problem other_problem(const Page& page, const PageLabel& label, ClassProblem problem) {
  const bool single = problem == ClassProblem::kSingleLabel, multi = problem == ClassProblem::kMultiLabel;
  return {.what = fmt::format("a page's label does not suit {}", class_problem_name(problem)),
          .where = place(page),
          .found = shown_label(label),
          .allowed = single  ? "a class's name, or on all pages its number"
                     : multi ? "a list of classes' names, which may be empty, or of 0 or 1 for each class; a name is a "
                               "list of one"
                             : "a number",
          .remedy =
              "label all pages in one way; --problem-type says which (a name: single_label_classification, a "
              "list: multi_label_classification, a number: regression)"};
}

Problem no_label_problem(const Page& page) {
  return {.what = "a page has no label",
          .where = place(page),
          .found = "no `label`",
          .allowed = fmt::format("`label`: {}", kKinds),
          .remedy =
              page.is_text && std::ranges::find(page.other_keys, "labels") != page.other_keys.end()
                  ? "rename `labels` to `label`"
                  : remedy_with_task(page, page.is_text ? "label the text, or omit it" : "label the page, or omit it")};
}

Problem length_problem(const Page& page, const MultiHot& hot, const LabelSet& labels) {
  return {.what = "a page's list of 0 and 1 has another length than the list of classes",
          .where = fmt::format("{}, `label`", place(page)),
          .found = counted(hot.has.size(), "number"),
          .allowed = fmt::format("{}, one for each of {}", labels.size(), labels.listed()),
          .remedy = "write 0 or 1 for every class, in their order; or a list of the names of the page's classes"};
}

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

class PageLabelTargets final : public Targets {
 public:
  explicit PageLabelTargets(const TaskConfig& config) : problem_(class_problem(config)) {
    if (!config.labels.empty()) labels_.emplace(config.labels, "the labels");
    numbered_ = std::ranges::any_of(config.labels, is_number);
  }

  bool learns_without_words() const override { return true; }

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
        out.targets.assign(labels_->size(), std::bit_cast<std::int32_t>(0.0F));
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
    if (!labels_) return;
    try {
      if (problem_ == ClassProblem::kRegression) {
        number_of(page, *label);
        return;
      }
      for (const std::int32_t id : ids_of(page, *label)) ++labels[labels_->name(static_cast<std::size_t>(id))];
    } catch (const PageError& error) {
      findings.add(Severity::kError, error.kind(), error.problem());
    }
  }

  std::optional<Problem> nothing_to_learn(const TargetCounts& counts) const override {
    if (problem_ == ClassProblem::kMultiLabel && counts.positives == 0) {
      return Problem{.what = "no page has a class",
                     .found = counted(counts.target_pages, "page") + " with an empty list",
                     .allowed = "classes on some of the pages",
                     .remedy = "check how the labels were written; all that a model can learn here is to find none"};
    }
    if (problem_ == ClassProblem::kSingleLabel && labels_ && labels_->size() == 1) {
      return Problem{.what = "all pages have the same class",
                     .found = in_quotes(labels_->name(0)),
                     .allowed = "pages of at least two classes",
                     .remedy = "add pages of other classes, or check how the labels were written"};
    }
    return std::nullopt;
  }

 private:
  double number_of(const Page& page, const PageLabel& label) const {
    if (const double* const number = std::get_if<double>(&label.value)) return *number;
    throw PageError("label-kind", other_problem(page, label, problem_));
  }

  // Returns one id for a single label.
  std::vector<std::int32_t> ids_of(const Page& page, const PageLabel& label) const {
    plimsoll::check(labels_.has_value(), "classes have numbers once the labels are known");
    const bool single = problem_ == ClassProblem::kSingleLabel;
    if (const std::optional<std::int64_t> number = whole(label); number && single) {
      // Where classes are called by numbers, a number is a name: the class "2" is not the third.
      const std::optional<std::int32_t> named = labels_->find(fmt::format("{}", *number));
      if (named) return {*named};
      if (!numbered_ && *number >= 0 && *number < static_cast<std::int64_t>(labels_->size())) {
        return {static_cast<std::int32_t>(*number)};
      }
      const std::string indices = numbered_ ? std::string() : fmt::format("0 to {}: ", labels_->size() - 1);
      throw PageError("label-unknown", {.what = "a label's number is not in the label set",
                                        .where = place(page),
                                        .found = fmt::format("{}", *number),
                                        .allowed = indices + labels_->listed(),
                                        .remedy = std::string(kUnknownLabelRemedy) +
                                                  "; for numbers that are not classes pass --problem-type regression"});
    }
    const bool is_list = hot_of(label) != nullptr || std::holds_alternative<std::vector<std::string>>(label.value);
    if (std::holds_alternative<double>(label.value) || (single && is_list)) {
      throw PageError("label-kind", other_problem(page, label, problem_));
    }
    std::vector<std::int32_t> ids;
    if (const MultiHot* const hot = hot_of(label)) {
      if (hot->has.size() != labels_->size()) throw PageError("label-length", length_problem(page, *hot, *labels_));
      for (std::size_t c = 0; c < hot->has.size(); ++c) {
        if (hot->has[c]) ids.push_back(static_cast<std::int32_t>(c));
      }
    }
    for (const std::string& name : label.names()) {
      const std::optional<std::int32_t> id = labels_->find(name);
      if (!id) throw PageError("label-unknown", unknown_class_problem(page, name, *labels_));
      ids.push_back(*id);
    }
    return ids;
  }

  ClassProblem problem_;
  std::optional<LabelSet> labels_;  // none while it is not known which there are
  bool numbered_ = false;           // a class is called by a whole number, as in "2021"
};

ClassProblem natural_problem(const PageLabel& label) {
  if (std::holds_alternative<double>(label.value)) return ClassProblem::kRegression;
  return std::holds_alternative<std::string>(label.value) ? ClassProblem::kSingleLabel : ClassProblem::kMultiLabel;
}

// The labels of a data set, sorted by kind; `classes` are those that the model has.
class LabelKinds {
 public:
  explicit LabelKinds(const std::vector<std::string>& classes)
      : classes_(classes.begin(), classes.end()), numbered_(std::ranges::any_of(classes, is_number)) {}

  void add(const Page& page) {
    const PageLabel* const label = label_of(page);
    if (label == nullptr) return;
    const ClassProblem problem = natural_problem(*label);
    if (counts_[problem]++ == 0) order_.push_back(problem);
    for (const std::string& name : label->names()) names_[problem].insert(name);
    if (const MultiHot* const hot = hot_of(*label)) {
      if (hot_from_.empty()) hot_from_ = place(page);
      hot_classes_ = std::max(hot_classes_, std::ssize(hot->has));
    }
    if (problem == ClassProblem::kSingleLabel)
      alone_.add(Severity::kWarning, "label-alone", alone_problem(page, *label));
    if (problem == ClassProblem::kRegression) {
      const std::int64_t number = whole(*label).value_or(-1);
      largest_ = std::max(largest_, number);
      all_whole_ = all_whole_ && number >= 0;
      if (numbers_.size() <= kNumbersKept) numbers_.emplace(number, place(page));
      all_are_classes_ = all_are_classes_ && is_of_class(number);
    }
  }

  bool empty() const { return order_.empty(); }
  // Returns true if all labels are whole numbers that the model's classes have: as names if some are called by numbers,
  // otherwise as indices.
  bool are_numbers_of_classes() const { return names_.empty() && all_whole_ && largest_ >= 0 && all_are_classes_; }
  // Returns the kind of most labels; the first of several.
  ClassProblem usual() const {
    ClassProblem most = order_.front();
    for (const ClassProblem each : order_) most = counts_.at(each) > counts_.at(most) ? each : most;
    return most;
  }
  // A page's label that does not suit the problem names no class.
  std::vector<std::string> classes(ClassProblem problem) const {
    std::set<std::string> names;
    if (problem != ClassProblem::kRegression) names = names_of(ClassProblem::kSingleLabel);
    if (problem == ClassProblem::kMultiLabel) names.merge(names_of(ClassProblem::kMultiLabel));
    std::vector<std::string> classes(names.begin(), names.end());
    const std::int64_t numbered = problem == ClassProblem::kSingleLabel  ? largest_ + 1
                                  : problem == ClassProblem::kMultiLabel ? hot_classes_
                                                                         : 0;
    for (std::int64_t i = 0; names.empty() && i < std::min(numbered, kMostClasses); ++i) {
      classes.push_back(fmt::format("LABEL_{}", i));
    }
    if (classes.empty()) classes = {"LABEL_0"};  // of regression, and where every list is empty
    return classes;
  }
  // Returns true if all labels are multi-hot and as long as the list of the model's classes.
  bool are_multi_hot_of_classes() const {
    return names_.empty() && hot_classes_ > 0 && hot_classes_ == std::ssize(classes_);
  }
  // Throws PageError for a number or a multi-hot label among names, unless it is one of the names: as an index it would
  // mean any of them.
  void refuse_numbers_among_names(ClassProblem problem) const {
    if (problem == ClassProblem::kMultiLabel) {
      if (hot_from_.empty() || names_.empty()) return;
      throw PageError("label-numbers",
                      {.what = "a page's label is a list of numbers, and those of other pages are names",
                       .where = hot_from_,
                       .found = "a list of 0 and 1",
                       .allowed = "a list of classes' names",
                       .remedy = "write the names of the page's classes; or 0 or 1 for each class on all pages"});
    }
    if (problem != ClassProblem::kSingleLabel) return;
    const std::set<std::string> names = names_of(ClassProblem::kSingleLabel);
    for (const auto& [number, where] : numbers_) {
      if (names.empty() || number < 0 || names.contains(fmt::format("{}", number))) continue;
      throw PageError("label-numbers", {.what = "a page's label is a number, and those of other pages are names",
                                        .where = where,
                                        .found = fmt::format("{}", number),
                                        .allowed = "a class's name",
                                        .remedy = "write the name of the class; or number the classes on all pages"});
    }
  }
  // Throws PageError for the first number that none of the model's classes has, of labels that are all whole numbers.
  void refuse_numbers_beyond_classes() const {
    if (!names_.empty() || !hot_from_.empty() || !all_whole_) return;
    const auto beyond = std::ranges::find_if(numbers_, [this](const auto& each) { return !is_of_class(each.first); });
    if (beyond == numbers_.end()) return;
    throw PageError("label-numbers",
                    {.what = "a page's label is a number that none of the model's classes has",
                     .where = beyond->second,
                     .found = fmt::format("{}", beyond->first),
                     .allowed = numbered_ ? printable(fmt::format("{}", fmt::join(classes_, ", ")))
                                          : fmt::format("0 to {}", classes_.size() - 1),
                     .remedy = "correct it; or pass --labels with a name for each number, or --problem-type regression "
                               "with a model of one output"});
  }
  // Returns what the user should know about the choice if it was not made by an option.
  Findings said_of(ClassProblem problem, const std::string& where) const {
    if (problem == ClassProblem::kMultiLabel) return alone_;
    Findings findings;
    if (problem != ClassProblem::kRegression || order_.size() > 1 || !all_whole_) return findings;
    if (numbers_.size() > kMostNumbers || largest_ >= kMostNumbers) return findings;
    findings.add(
        Severity::kWarning, "labels-whole",
        {.what = fmt::format("labels are whole numbers {} to {}: taken as regression; --problem-type "
                             "single_label_classification makes them classes",
                             numbers_.begin()->first, numbers_.rbegin()->first),
         .where = where,
         .found = fmt::format("{} on {}", counted(numbers_.size(), "number"), counted(counts_.at(problem), "page"))});
    return findings;
  }

 private:
  static constexpr int kMostNumbers = 32;  // more numbers than this are hardly classes
  static constexpr std::size_t kNumbersKept = 4096;

  bool is_of_class(std::int64_t number) const {
    return numbered_ ? classes_.contains(fmt::format("{}", number)) : number < std::ssize(classes_);
  }
  static Problem alone_problem(const Page& page, const PageLabel& label) {
    return {.what = "a page's label is a name, but most are lists: it is taken as a list of one",
            .where = place(page),
            .found = shown_label(label),
            .allowed = "a list of classes' names",
            .remedy = "write the name in a list"};
  }
  std::set<std::string> names_of(ClassProblem problem) const {
    const auto found = names_.find(problem);
    return found == names_.end() ? std::set<std::string>() : found->second;
  }

  std::map<ClassProblem, std::uint64_t> counts_;  // of labels that fit each problem
  std::vector<ClassProblem> order_;               // in the order of their first occurrence
  std::map<ClassProblem, std::set<std::string>> names_;
  std::map<std::int64_t, std::string> numbers_;  // with their first places
  std::string hot_from_;                         // the first place of a multi-hot label
  std::int64_t hot_classes_ = 0;                 // of the longest
  std::int64_t largest_ = -1;
  bool all_whole_ = true, all_are_classes_ = true;
  std::set<std::string> classes_;
  bool numbered_;  // a class is called by a number
  Findings alone_;
};

}  // namespace

std::size_t PageLabel::positives() const {
  if (const MultiHot* const hot = hot_of(*this)) return std::ranges::count(hot->has, true) > 0 ? 1 : 0;
  return std::holds_alternative<double>(value) || !names().empty() ? 1 : 0;
}

std::vector<std::string> PageLabel::names(const std::vector<std::string>& classes) const {
  if (const auto* const name = std::get_if<std::string>(&value)) return {*name};
  if (const auto* const names = std::get_if<std::vector<std::string>>(&value)) return *names;
  const MultiHot* const hot = hot_of(*this);
  if (hot == nullptr || hot->has.size() != classes.size()) return {};
  std::vector<std::string> names;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (hot->has[c]) names.push_back(classes[c]);
  }
  return names;
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
          .remedy = kUnknownLabelRemedy};
}

SeenTargets page_labels_in(const PageSource& pages, const TaskConfig& config) {
  LabelKinds kinds(config.labels);
  const std::optional<PageError> fault = read_as_far_as_possible(pages, [&](const Page& page) { kinds.add(page); });
  if (kinds.empty() && fault) throw PageError(*fault);
  if (kinds.empty()) {
    Problem none = pages.size() > 0 ? no_label_problem(pages.read(0)) : Problem{.where = listed(pages.paths())};
    none.what = "no page has a label";
    none.found = fmt::format("{}, this one first: {}", counted(pages.size(), "page"), none.found);
    throw DataError(std::move(none));
  }
  const bool given = !config.problem_type.empty();
  // `transformers` takes whole numbers for the classes of a head that has several.
  const bool numbers_are_classes = config.labels.size() > 1 && kinds.are_numbers_of_classes();
  const ClassProblem problem = given                 ? class_problem(config)
                               : numbers_are_classes ? ClassProblem::kSingleLabel
                                                     : kinds.usual();
  // A config that names no classes has LABEL_0 and LABEL_1, whatever the model is for.
  const bool names_classes =
      config.labels.size() > 1 && config.labels != std::vector<std::string>{"LABEL_0", "LABEL_1"};
  if (!given && names_classes && problem == ClassProblem::kRegression) {
    kinds.refuse_numbers_beyond_classes();
  }
  SeenTargets seen{.config = config};
  seen.config.problem_type = class_problem_name(problem);
  kinds.refuse_numbers_among_names(problem);
  // Numbers mean the model's classes, if it has enough.
  const bool keeps = (problem == ClassProblem::kSingleLabel && kinds.are_numbers_of_classes()) ||
                     (problem == ClassProblem::kMultiLabel && kinds.are_multi_hot_of_classes());
  if (!keeps) seen.config.labels = kinds.classes(problem);
  if (!given) seen.findings = kinds.said_of(problem, listed(pages.paths()));
  return seen;
}

}  // namespace plimsoll
