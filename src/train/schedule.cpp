#include "train/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/error.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

enum class Kind : std::uint8_t { kNumber, kWhole, kFlag };
enum class Need : std::uint8_t { kUsual, kRequired, kOptional };

struct NumberArgument {
  const char* name;
  double usual = 0;
  double low = 0, high = std::numeric_limits<double>::infinity();
  Kind kind = Kind::kNumber;
  Need need = Need::kUsual;
};

struct WordArgument {
  const char* name;
  std::vector<const char*> choices;  // the first is the default; "" leaves it to the metric
};

struct Row {
  SchedulerType type;
  const char* name;
  std::vector<NumberArgument> numbers{};
  std::vector<WordArgument> words{};
};

constexpr double kNone = std::numeric_limits<double>::infinity();

// Names and defaults are those of optimization.py of transformers 5.17, and of ReduceLROnPlateau of PyTorch.
const std::vector<Row>& rows() {
  const NumberArgument half_cycle{"num_cycles", 0.5};
  const NumberArgument least{.name = "min_lr", .need = Need::kOptional};
  const NumberArgument least_share{.name = "min_lr_rate", .high = 1, .need = Need::kOptional};
  const std::vector<const char*> ramps = {"linear", "cosine", "1-sqrt"}, falls = {"cosine", "linear", "1-sqrt"};
  static const std::vector<Row> all = {
      {SchedulerType::kLinear, "linear"},
      {SchedulerType::kCosine, "cosine", {half_cycle}},
      {SchedulerType::kCosineWithRestarts, "cosine_with_restarts", {{"num_cycles", 1, 1, kNone, Kind::kWhole}}},
      {SchedulerType::kPolynomial, "polynomial", {{"lr_end", 1e-7}, {"power", 1}}},
      {SchedulerType::kConstant, "constant"},
      {SchedulerType::kConstantWithWarmup, "constant_with_warmup"},
      {SchedulerType::kInverseSqrt,
       "inverse_sqrt",
       {{.name = "timescale", .low = 1, .kind = Kind::kWhole, .need = Need::kOptional}}},
      {SchedulerType::kReduceOnPlateau,
       "reduce_lr_on_plateau",
       {{"factor", 0.1, 0, 1},
        {"patience", 10, 0, kNone, Kind::kWhole},
        {"threshold", 1e-4},
        {"cooldown", 0, 0, kNone, Kind::kWhole},
        {"min_lr", 0},
        {"eps", 1e-8}},
       {{"mode", {"", "min", "max"}}, {"threshold_mode", {"rel", "abs"}}}},
      {SchedulerType::kCosineWithMinLr, "cosine_with_min_lr", {half_cycle, least, least_share}},
      {SchedulerType::kCosineWarmupWithMinLr,
       "cosine_warmup_with_min_lr",
       {half_cycle, least, least_share, {.name = "warmup_lr_rate", .high = 1, .need = Need::kOptional}}},
      {SchedulerType::kWarmupStableDecay,
       "warmup_stable_decay",
       {{"num_decay_steps", 0, 0, kNone, Kind::kWhole, Need::kRequired},
        {"num_stable_steps", 0, 0, kNone, Kind::kWhole, Need::kOptional},
        {"min_lr_ratio", 0, 0, 1},
        half_cycle},
       {{"warmup_type", ramps}, {"decay_type", falls}}},
      {SchedulerType::kGreedy,
       "greedy",
       {{"factor", 0.95, 0, 1},
        {"patience", 10, 0, kNone, Kind::kWhole},
        {"threshold", 1e-6},
        {"cooldown", 0, 0, kNone, Kind::kWhole},
        {"warmup", 0, 0, kNone, Kind::kWhole},
        {"min_lr", 1e-3},
        {"max_lr", 1},
        {"eps", 1e-8},
        {"smooth", 0, 0, 1, Kind::kFlag},
        {"window_size", 50, 1, kNone, Kind::kWhole},
        {"reset_start", 500, 0, kNone, Kind::kWhole}},
       {{"mode", {"", "min", "max"}}, {"threshold_mode", {"abs", "rel"}}}}};
  return all;
}

constexpr const char* kOption = "--lr-scheduler-kwargs";

std::string arguments_of(const Row& row) {
  std::vector<std::string> names;
  for (const NumberArgument& each : row.numbers) names.emplace_back(each.name);
  for (const WordArgument& each : row.words) names.emplace_back(each.name);
  return names.empty() ? fmt::format("none for {}", row.name) : fmt::format("{}", fmt::join(names, ", "));
}

UsageError bad_argument(const char* name, const json& found, std::string allowed) {
  return UsageError({.what = "an argument of the learning rate schedule has an invalid value",
                     .where = fmt::format("{}, {}", kOption, name),
                     .found = found.dump(),
                     .allowed = std::move(allowed)});
}

double read_number(const NumberArgument& argument, const json& value) {
  if (argument.kind == Kind::kFlag) {
    if (!value.is_boolean()) throw bad_argument(argument.name, value, "true or false");
    return value.get<bool>() ? 1 : 0;
  }
  const bool whole = argument.kind == Kind::kWhole;
  const double number = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  const bool in_range = number >= argument.low && number <= argument.high;  // NaN is not
  if (!in_range || (whole && number != std::trunc(number))) {
    throw bad_argument(argument.name, value,
                       fmt::format("a {}number {}", whole ? "whole " : "",
                                   argument.high == kNone ? fmt::format("of {} or more", argument.low)
                                                          : fmt::format("from {} to {}", argument.low, argument.high)));
  }
  return number;
}

std::string read_word(const WordArgument& argument, const json& value) {
  std::vector<std::string_view> allowed;
  for (const char* choice : argument.choices) {
    if (*choice != '\0') allowed.emplace_back(choice);
  }
  if (value.is_string() && std::ranges::count(allowed, value.get_ref<const std::string&>()) > 0) {
    return value.get<std::string>();
  }
  throw bad_argument(argument.name, value, fmt::format("{}", fmt::join(allowed, ", ")));
}

json read_object(const Row& row, const std::string& text) {
  if (text.empty()) return json::object();
  const json object = parse_json(text);
  if (object.is_object()) return object;
  throw UsageError({.what = "the arguments of the learning rate schedule are not a JSON object",
                    .where = kOption,
                    .found = text,
                    .allowed = R"(such as '{"num_cycles": 2}'; )" + arguments_of(row)});
}

// Checks what `transformers` requires of arguments in combination.
void check_together(const Schedule& schedule, const Row& row) {
  const auto both = [&](const char* found, const char* remedy) {
    throw UsageError({.what = "the learning rate schedule needs one of two arguments",
                      .where = kOption,
                      .found = found,
                      .allowed = "min_lr or min_lr_rate",
                      .remedy = remedy});
  };
  const bool has_least = std::ranges::any_of(
      row.numbers, [](const NumberArgument& each) { return std::string_view(each.name) == "min_lr_rate"; });
  if (!has_least) return;
  const bool rate = schedule.given("min_lr").has_value(), share = schedule.given("min_lr_rate").has_value();
  if (rate && share) both("both", "keep one of them");
  if (!rate && !share) both("neither", R"(pass --lr-scheduler-kwargs '{"min_lr_rate": 0.1}')");
}

const Row& row_of(SchedulerType type) {
  return *std::ranges::find_if(rows(), [type](const Row& row) { return row.type == type; });
}

}  // namespace

std::optional<double> Schedule::given(const std::string& name) const {
  const auto found = numbers.find(name);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.name);
  return names;
}

Schedule parse_schedule(const std::string& name, const std::string& arguments) {
  const auto row = std::ranges::find_if(rows(), [&name](const Row& each) { return name == each.name; });
  if (row == rows().end()) {
    throw UsageError({.what = "unknown learning rate schedule",
                      .where = "--lr-scheduler-type",
                      .found = name,
                      .allowed = fmt::format("{}", fmt::join(schedule_names(), ", "))});
  }
  json given = read_object(*row, arguments);
  Schedule schedule{.type = row->type};
  for (const NumberArgument& argument : row->numbers) {
    if (given.contains(argument.name) && !given.at(argument.name).is_null()) {
      schedule.numbers[argument.name] = read_number(argument, given.at(argument.name));
    } else if (argument.need == Need::kUsual) {
      schedule.numbers[argument.name] = argument.usual;
    } else if (argument.need == Need::kRequired) {
      throw UsageError({.what = "the learning rate schedule lacks an argument",
                        .where = kOption,
                        .found = arguments.empty() ? "none" : arguments,
                        .allowed = arguments_of(*row),
                        .remedy = fmt::format("pass {} '{{\"{}\": 100}}'", kOption, argument.name)});
    }
    given.erase(argument.name);
  }
  for (const WordArgument& argument : row->words) {
    schedule.words[argument.name] =
        given.contains(argument.name) ? read_word(argument, given.at(argument.name)) : argument.choices.front();
    given.erase(argument.name);
  }
  if (!given.empty()) {
    throw UsageError({.what = "the learning rate schedule has no such argument",
                      .where = kOption,
                      .found = given.begin().key(),
                      .allowed = arguments_of(*row)});
  }
  check_together(schedule, *row);
  return schedule;
}

std::string schedule_text(const Schedule& schedule) {
  const Row& row = row_of(schedule.type);
  std::string text = row.name;
  for (const NumberArgument& argument : row.numbers) {
    const std::optional<double> value = schedule.given(argument.name);
    const bool usual = argument.need == Need::kUsual && value == argument.usual;
    if (value && !usual) text += fmt::format(", {} {}", argument.name, *value);
  }
  for (const WordArgument& argument : row.words) {
    const auto value = schedule.words.find(argument.name);
    if (value != schedule.words.end() && value->second != argument.choices.front()) {
      text += fmt::format(", {} {}", argument.name, value->second);
    }
  }
  return text;
}

}  // namespace plimsoll
