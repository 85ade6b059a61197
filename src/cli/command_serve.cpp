#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/document_lines.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "fit/session.h"
#include "formats/json.h"
#include "request/fit_request.h"
#include "request/open_data.h"
#include "train/predictor.h"

namespace plimsoll {
namespace {

// A model that stays in memory from one request to the next.
class WarmModel {
 public:
  WarmModel(const RunOptions& options, const ModelBundle& bundle, Backend& backend)
      : options_(options), bundle_(bundle), backend_(backend) {}

  // Returns the session for these pages: the existing one if they fit its plan, else a new one.
  const Session& session_for(const Dataset& pages) {
    FitRequest request = fit_request(bundle_, options_.train, nullptr, &pages, options_.memory);
    if (session_) {
      const ModelCapacity capacity = session_->planned(ProgramKind::kEvaluate).capacity;
      if (request.evaluation_text_rows(capacity.samples) <= capacity.text_rows &&
          request.loader_bytes(capacity) <= loader_bytes_ && request.result_bytes <= result_bytes_) {
        return *session_;
      }
      session_.reset();  // the next one needs its memory
      log_info("planning anew: these pages are larger than those before");
    }
    // The plan has room for full windows, if they fit the budget, so that it serves all requests.
    FitRequest roomy = request;
    constexpr std::size_t kRowStep = 16;
    const std::int64_t length =
        bundle_.definition().samples_per_example() * window_length(options_.data, bundle_.facts());
    roomy.evaluation_text_rows = [length](std::int64_t n) {
      return static_cast<std::int64_t>(round_up(static_cast<std::size_t>(n * length), kRowStep));
    };
    std::optional<RunPlan> plan = try_fit(roomy, backend_);
    session_.emplace(plan ? std::move(*plan) : fit(request, backend_), backend_);
    try {
      load_model(bundle_, 0, [this](const std::string& name) { return session_->parameter(name); });
    } catch (...) {
      session_.reset();  // the next request does not compute with parameters that were never read
      throw;
    }
    loader_bytes_ = request.loader_bytes(session_->planned(ProgramKind::kEvaluate).capacity);
    result_bytes_ = request.result_bytes;
    return *session_;
  }

 private:
  const RunOptions& options_;
  const ModelBundle& bundle_;
  Backend& backend_;
  std::optional<Session> session_;
  std::size_t loader_bytes_ = 0, result_bytes_ = 0;
};

void print_compact(const nlohmann::json& object) { print_line(json_text(object)); }

constexpr std::size_t kLongestRequest = kMiB;

// Reads a line of standard input; of one that is longer than kLongestRequest only the beginning, so that a request
// cannot take more memory than the plan has. Returns the line's length; nothing at the end.
std::optional<std::size_t> next_request(std::string& line) {
  line.clear();
  std::streambuf& input = *std::cin.rdbuf();
  std::size_t length = 0;
  using Traits = std::streambuf::traits_type;
  for (auto c = input.sbumpc(); c != Traits::eof(); c = input.sbumpc()) {
    if (c == '\n') return length;
    if (++length <= kLongestRequest) line += Traits::to_char_type(c);
  }
  return length > 0 ? std::optional(length) : std::nullopt;
}

UsageError too_long(std::size_t bytes) {
  return UsageError({.what = "a request is too long",
                     .where = "standard input",
                     .found = format_bytes(bytes),
                     .allowed = fmt::format("at most {}", format_bytes(kLongestRequest)),
                     .remedy = "name fewer files, or a folder's pattern such as 'pages/*.jsonl'"});
}

// Parses {"data": "pages.jsonl", "box_format": "1000"}: the files of `data`, which may be a list, and how to read them.
DataRequest request_of(const std::string& line, const DataRequest& usual) {
  const auto object = parse_json(line, "standard input");
  DataRequest request = usual;
  std::vector<std::string> files;
  bool is_good = object.is_object() && !repeated_key(line);
  const auto add_file = [&](const nlohmann::json& file) {
    is_good = is_good && file.is_string();
    if (is_good) files.push_back(file.get<std::string>());
  };
  const nlohmann::json keys = is_good ? object : nlohmann::json::object();
  for (const auto& [key, value] : keys.items()) {
    if (key == "box_format") {
      is_good = is_good && (value == "pixel" || value == "1000");
      if (is_good) request.box_format = value == "1000" ? BoxFormat::k1000 : BoxFormat::kPixel;
    } else if (key != "data") {
      is_good = false;
    } else if (value.is_array()) {
      for (const nlohmann::json& file : value) add_file(file);
    } else {
      add_file(value);
    }
  }
  if (!is_good || files.empty()) {
    throw UsageError({.what = "a request that cannot be read",
                      .where = "standard input",
                      .found = line.substr(0, 60),
                      .allowed = R"({"data": FILE or [FILE, …], "box_format": "pixel" or "1000"} in one line)",
                      .remedy = "write one request a line, each key once; box_format may be left out"});
  }
  request.data = match_paths(files);
  return request;
}

void answer(const std::string& line, const RunOptions& options, const ModelBundle& bundle, WarmModel& model,
            const PredictionOptions& form) {
  const DataRequest request = request_of(line, options.data);
  std::vector<SkippedPage> skipped;
  const auto pages = open_to_predict(bundle, request, skipped);
  const Session& session = model.session_for(*pages);
  const auto leave_out = [&skipped](const BadPageError& error) {
    skipped.push_back({.page = error.page(), .problem = error.problem()});
    log_warning(fmt::format("skipping a page that cannot be read: {}", describe(skipped.back())));
  };
  const std::unique_ptr<Predictions> predictions = bundle.task().predictions(bundle.config.task, form);
  std::int64_t done = 0;
  DocumentLines lines(pages->source(), print_compact);
  predict_pages(session, bundle.definition(), *pages, loader_options(options.memory), *predictions,
                {.on_bad_page = leave_out, .all_pages = true}, [&](std::uint32_t index) {
                  const Page page = pages->source().read(index);
                  lines.add(index, page, predictions->to_json(page));
                  ++done;
                });
  lines.finish();
  print_compact({{"done", {{"pages", done}, {"skipped_pages", unread_pages_json(skipped)}}}});
}

void run_serve(const Invocation& invocation, RunOptions& options, const PredictionOptions& form) {
  options.resolve();
  options.memory.written = form;
  const Device device = open_run_device(invocation, options);
  const ModelBundle bundle = open_evaluated_model(options);
  tell_trained_windows(options, bundle, "predicts");
  verify_weights(bundle);  // before anyone waits for an answer
  WarmModel model(options, bundle, *device.backend);
  print_compact({{"ready", {{"model", options.model.model}, {"task", bundle.task().name()}}}});
  std::string line;
  while (const std::optional<std::size_t> length = next_request(line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      if (*length > kLongestRequest) throw too_long(*length);
      answer(line, options, bundle, model, form);
    } catch (const Error& error) {
      print_compact({{"error", error_json(error)}});
    }
  }
}

}  // namespace

void add_serve(CLI::App& app, Invocation& invocation) {
  Command* command =
      add_command(app, invocation, "serve", "Keep a model in memory and answer requests for predictions");
  auto options = std::make_shared<RunOptions>();
  auto form = std::make_shared<PredictionOptions>();
  add_model_options(command, *options, false);
  add_reading_options(command, *options);
  add_memory_options(command, *options);
  add_evaluation_size_option(command, *options);
  add_quantization_options(command, *options);
  command->heading("Output");
  add_prediction_options(command, *form);
  command->footer(
      "A request is a line on standard input, {\"data\": \"pages.jsonl\"} or a list of files. The answer is the\n"
      "lines that plimsoll predict would write, then {\"done\": {\"pages\": 3, \"skipped_pages\": []}}; or a line\n"
      "{\"error\": ...}, after which the next request is read. The first line says {\"ready\": ...}. The command\n"
      "ends when standard input does. Memory is planned at the first request, for full windows if they fit the\n"
      "budget. The Python package's plimsoll.predictor() uses it.");
  command->callback([&invocation, options, form] {
    invocation.action = [&invocation, options, form] { run_serve(invocation, *options, *form); };
  });
}

}  // namespace plimsoll
