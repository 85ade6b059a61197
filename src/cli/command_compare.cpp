#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "fit/phases.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "request/word_rows.h"
#include "train/comparison.h"

namespace plimsoll {
namespace {

struct CompareOptions {
  RunOptions run;
  std::array<std::string, 2> models;
  std::int64_t rounds = 2;
  // Precision and quantization apply only to B; A is evaluated unchanged.
  RunOptions of_side(std::size_t side) const {
    RunOptions options = run;
    options.model.model = models.at(side);
    if (side == 0) {
      options.load_in_8bit = options.load_in_4bit = options.float_activations = options.memory.may_quantize = false;
      options.precision = PrecisionOptions();
    }
    return options;
  }
};

// Each model is opened several times, and so are the pages: what is said of them is said once.
class SaysOnce {
 public:
  SaysOnce() {
    before_ = set_log_sink([this](LogLevel level, std::string_view line) {
      if (said_.emplace(line).second && before_) before_(level, line);
    });
  }
  SaysOnce(const SaysOnce&) = delete;
  SaysOnce& operator=(const SaysOnce&) = delete;
  ~SaysOnce() { set_log_sink(std::move(before_)); }

 private:
  LogSink before_{};
  std::set<std::string> said_{};
};

// A model and its measurements.
struct Side {
  std::string model{}, task{};
  std::int64_t parameters = 0;
  std::uint64_t file_bytes = 0;  // of its weights
  std::size_t predicted_peak_bytes = 0;
  PagesRead read{};
  double seconds_per_page = 0;  // the least of all rounds
  std::size_t held_bytes = 0;   // of the process when the evaluation was planned first
};

std::uint64_t weight_bytes(const ModelBundle& bundle) {
  std::uint64_t bytes = 0;
  for (const WeightsFile* weights : {bundle.weights.get(), bundle.adapter.get()}) {
    if (weights == nullptr) continue;
    for (const std::filesystem::path& file : weights->files()) bytes += std::filesystem::file_size(file);
  }
  return bytes;
}

// Runs before either model: the second one may be larger.
void plan_side(const Invocation& invocation, RunOptions options, const Device& device, Side& side) {
  ModelBundle bundle = open_evaluated_model(options);
  const auto dataset = open_dataset(bundle, options.data, true);
  keep_word_rows(bundle, options.train, nullptr, dataset.get());
  FitRequest request = fit_request(bundle, options.train, nullptr, dataset.get(), options.memory);
  side.held_bytes = held_bytes(plan_of(invocation, request, *device.backend));
}

// Evaluates the model once; the first time it also describes it.
void evaluate_side(const Invocation& invocation, RunOptions options, const Device& device, Side& side) {
  options.memory.held_bytes = side.held_bytes;
  ModelBundle bundle = open_evaluated_model(options);
  const auto dataset = open_dataset(bundle, options.data, true);
  keep_word_rows(bundle, options.train, nullptr, dataset.get());
  FitRequest request = fit_request(bundle, options.train, nullptr, dataset.get(), options.memory);
  Session session(plan_of(invocation, request, *device.backend), *device.backend);
  load_model(bundle, options.train.seed, [&](const std::string& name) { return session.parameter(name); });
  const bool first = side.task.empty();  // later rounds are only timed
  PagesRead read = read_pages(session, bundle, *dataset, loader_options(options.memory), first);
  const double per_page = read.seconds / static_cast<double>(std::max<std::size_t>(1, read.pages));
  if (!first) {
    side.seconds_per_page = std::min(side.seconds_per_page, per_page);
    return;
  }
  side.task = bundle.task().name();
  side.parameters = parameter_count(bundle.specs());
  side.file_bytes = weight_bytes(bundle);
  side.predicted_peak_bytes = session.plan().predicted_peak_bytes;
  side.read = std::move(read);
  side.seconds_per_page = per_page;
}

// Both models get the same windows, so that they read the same of each page.
void share_windows(CompareOptions& compare, const ModelBundle& first, const ModelBundle& second) {
  DataRequest& data = compare.run.data;
  const int a = window_length(data, first.facts()), b = window_length(data, second.facts());
  if (a == b) return;
  data.max_length = std::min(a, b);
  log_info(fmt::format("windows of at most {} for both models, which the smaller one has positions for",
                       counted(data.max_length, "token")));
}

// Runs before any page is read: otherwise a page that lacks what the other model's task needs would be blamed.
void check_sides(CompareOptions& compare) {
  const ModelBundle first = open_evaluated_model(compare.of_side(0)), second = open_evaluated_model(compare.of_side(1));
  const std::string_view a = first.task().name(), b = second.task().name();
  if (a == b) {
    if (first.task().reads_text() && first.tokenizer->fingerprint() != second.tokenizer->fingerprint()) {
      log_warning(
          "the models have different tokenizers: each loss and perplexity is over the model's own tokens, so they "
          "cannot be compared");
    }
    return share_windows(compare, first, second);
  }
  throw UsageError({.what = "the models are for different tasks",
                    .where = compare.models[1],
                    .found = fmt::format("{}; {} is for {}", b, compare.models[0], a),
                    .allowed = "two models for one task",
                    .remedy = "compare each with another of its kind"});
}

nlohmann::json to_json(const ConfidenceInterval& interval) {
  return nlohmann::json::array({interval.low, interval.high});
}

nlohmann::json to_json(const Side& side) {
  nlohmann::json metrics = nlohmann::json::object();
  for (const Scores::Metric& metric : side.read.scores.metrics) metrics[metric.name] = metric.value;
  return {{"model", side.model},
          {"parameters", side.parameters},
          {"weight_bytes", side.file_bytes},
          {"predicted_peak_bytes", side.predicted_peak_bytes},
          {"seconds_per_page", side.seconds_per_page},
          {"metrics", metrics},
          {"interval", to_json(interval(side.read))}};
}

std::string table(const Side& a, const Side& b) {
  std::array names = {std::filesystem::path(a.model).filename().string(),
                      std::filesystem::path(b.model).filename().string()};
  if (names[0] == names[1]) names = {"A: " + names[0], "B: " + names[1]};  // a model and its quantized form
  const auto scored = [](const PagesRead& read) {
    const ConfidenceInterval between = interval(read);
    return fmt::format("{:.3f} ({:.3f}–{:.3f})", read.scores.metrics.front().value, between.low, between.high);
  };
  const std::string score_of_a = scored(a.read), score_of_b = scored(b.read);
  const std::size_t width = std::max(
      {std::size_t{26}, names[0].size() + 2, names[1].size() + 2, score_of_a.size() + 1, score_of_b.size() + 1});
  const auto row = [&](std::string_view name, const std::string& of_a, const std::string& of_b, std::string_view note) {
    return fmt::format("{:<24}{:>{}}{:>{}}{:>14}\n", name, of_a, width, of_b, width, note);
  };
  const auto times = [](double now, double before) { return before > 0 ? fmt::format("{:.2f}", now / before) : ""; };
  const auto as = [](auto value) { return static_cast<double>(value); };
  std::string text = row("", names[0], names[1], "B / A");
  text += row("parameters", std::to_string(a.parameters), std::to_string(b.parameters),
              times(as(b.parameters), as(a.parameters)));
  text += row("weights on disk", format_bytes(a.file_bytes), format_bytes(b.file_bytes),
              times(as(b.file_bytes), as(a.file_bytes)));
  text += row("predicted peak", format_bytes(a.predicted_peak_bytes), format_bytes(b.predicted_peak_bytes),
              times(as(b.predicted_peak_bytes), as(a.predicted_peak_bytes)));
  text += row("seconds per page", fmt::format("{:.3g}", a.seconds_per_page), fmt::format("{:.3g}", b.seconds_per_page),
              times(b.seconds_per_page, a.seconds_per_page));
  text += row(a.read.scores.metrics.front().name, score_of_a, score_of_b, "");
  const ConfidenceInterval by = difference(a.read, b.read);
  text += fmt::format("difference of {}, B - A: {:+.3f} (95 % interval {:+.3f} to {:+.3f})\n",
                      a.read.scores.metrics.front().name,
                      b.read.scores.metrics.front().value - a.read.scores.metrics.front().value, by.low, by.high);
  if (const auto share = agreement(a.read, b.read)) {
    text += fmt::format("{:.1f} % of what they find is the same\n", 100 * *share);
  }
  return text;
}

void run_compare(Invocation& invocation, CompareOptions& compare) {
  RunOptions& options = compare.run;
  options.runs = true;
  options.resolve();
  options.memory.written.emplace();
  options.memory.keeps_found = true;
  const SaysOnce once;
  check_sides(compare);
  const Device device = open_run_device(invocation, options);
  std::array<Side, 2> sides{Side{.model = compare.models[0]}, Side{.model = compare.models[1]}};
  const auto planned = [&](std::size_t side) {
    return [&, side] { plan_side(invocation, compare.of_side(side), device, sides[side]); };
  };
  check_phases({planned(0), planned(1)});
  for (std::int64_t round = 0; round < compare.rounds; ++round) {
    for (std::size_t side = 0; side < sides.size(); ++side) {
      evaluate_side(invocation, compare.of_side(side), device, sides[side]);
    }
  }
  const Side &a = sides[0], &b = sides[1];
  if (invocation.json) {
    nlohmann::json object = {{"a", to_json(a)},
                             {"b", to_json(b)},
                             {"task", a.task},
                             {"pages", a.read.first.size()},
                             {"metric", a.read.scores.metrics.front().name},
                             {"difference", b.read.scores.metrics.front().value - a.read.scores.metrics.front().value},
                             {"difference_interval", to_json(difference(a.read, b.read))}};
    if (const auto share = agreement(a.read, b.read)) object["agreement"] = *share;
    return print_json(object);
  }
  std::string text = table(a, b);
  text += fmt::format("{} of {}; intervals by {} draws of pages; seconds are the least of {}, A and B in turn",
                      counted(a.read.first.size(), "page"), listed(options.data.data), kDraws,
                      counted(static_cast<std::uint64_t>(compare.rounds), "round"));
  print_line(text);
}

}  // namespace

void add_compare(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "compare", "Compare two models on the same pages");
  auto options = std::make_shared<CompareOptions>();
  command->heading("Models");
  command->add_option("A", options->models[0], "Model directory, such as the original model")
      ->type_name("DIR")
      ->required();
  command->add_option("B", options->models[1], "Model directory, such as a smaller model")
      ->type_name("DIR")
      ->required();
  add_data_options(command, options->run);
  add_memory_options(command, options->run);
  add_evaluation_size_option(command, options->run);
  add_quantization_options(command, options->run);
  command->heading("Output");
  whole_number(command->add_option("--rounds", options->rounds, "How many times each model is timed"), 1, 1000)
      ->capture_default_str();
  command->footer(
      "Prints parameters, bytes, seconds per page and the task's first metric side by side, with 95 % confidence\n"
      "intervals by a bootstrap over pages. The difference is resampled on the same pages for both, so its\n"
      "interval is much narrower than those of the two scores. --bf16, --load-in-8bit and --load-in-4bit apply\n"
      "to B alone.\n"
      "\n"
      "  plimsoll compare run smaller --data held-out.jsonl\n"
      "  plimsoll compare run run --load-in-8bit --data held-out.jsonl");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_compare(invocation, *options); }; });
}

}  // namespace plimsoll
