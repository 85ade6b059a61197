#include "report/read_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/json.h"

namespace plimsoll::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMostLineBytes = std::size_t{4} << 20;
constexpr std::size_t kMostSteps = 1000;  // the most points of a chart
constexpr std::size_t kMostEvaluations = 400;
constexpr std::size_t kMostLabels = 200;
constexpr std::size_t kMostFindings = 200;
constexpr std::size_t kMostWorstPages = 12;
constexpr std::size_t kMostWords = 5000;  // of a page
constexpr std::size_t kMostNodes = 200'000, kMostTensors = 200'000;
constexpr std::size_t kMostPrograms = 8;

[[noreturn]] void refuse_arena(const std::string& where, const std::string& found) {
  throw DataError({.what = "the map of the arena is damaged",
                   .where = where,
                   .found = found,
                   .allowed = "what plimsoll train writes",
                   .remedy = "train again, or draw the plan: plimsoll plan --html FILE"});
}

std::optional<std::uint64_t> count_of(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  // A number that was not parsed from text may be of a signed type.
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) return value.get<std::uint64_t>();
  return std::nullopt;
}
std::optional<double> number_of(const Json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}
std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

const Json& list_at(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}
const Json& object_at(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNone;
}

// A pipe or a device counts as missing, because reading it might never end.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// --- arena.json ---

// Sums of sizes from a file must not wrap around.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;

Tensor read_tensor(const Json& row, std::size_t fields, std::int64_t nodes, const std::string& where) {
  if (!row.is_array() || row.size() != fields) refuse_arena(where, "a tensor with other fields");
  const auto offset = count_of(row[3]), bytes = count_of(row[4]);
  if (!offset || !bytes || *offset > kMostBytes || *bytes > kMostBytes) refuse_arena(where, "a tensor without a size");
  Tensor tensor{.name = text_of(row[0]),
                .kind = text_of(row[1]),
                .lever = text_of(row[2]),
                .offset = *offset,
                .bytes = *bytes,
                .end = nodes};
  if (fields == 5) return tensor;
  const auto begin = count_of(row[5]), end = count_of(row[6]);
  if (!begin || !end || *begin > *end || *begin > static_cast<std::uint64_t>(nodes)) {
    refuse_arena(where, "a tensor that ends before it begins");
  }
  tensor.begin = static_cast<std::int64_t>(*begin);
  tensor.end = static_cast<std::int64_t>(std::min<std::uint64_t>(*end, static_cast<std::uint64_t>(nodes)));
  return tensor;
}

ArenaProgram read_program(const Json& from, const std::string& where) {
  ArenaProgram program{.kind = text_at(from, "kind")};
  program.runs = static_cast<std::int64_t>(std::min<std::uint64_t>(count_at(from, "runs").value_or(1), 1U << 30));
  program.transient_bytes = std::min(count_at(from, "transient_bytes").value_or(0), kMostBytes);
  for (const Json& row : list_at(from, "nodes")) {
    if (!row.is_array() || row.size() != 4) refuse_arena(where, "a node with other fields");
    if (program.nodes.size() == kMostNodes) refuse_arena(where, "more nodes than any step has");
    program.nodes.push_back({.name = text_of(row[0]),
                             .op = text_of(row[1]),
                             .phase = text_of(row[2]),
                             .seconds = std::clamp(number_of(row[3]).value_or(0), 0.0, 1e6)});
  }
  const auto nodes = static_cast<std::int64_t>(program.nodes.size());
  const auto peak = count_at(from, "peak_node");
  if (peak && *peak < program.nodes.size()) program.peak_node = static_cast<std::int64_t>(*peak);
  for (const Json& row : list_at(from, "tensors")) {
    if (program.tensors.size() == kMostTensors) refuse_arena(where, "more tensors than any step has");
    program.tensors.push_back(read_tensor(row, 7, nodes, where));
  }
  return program;
}

// --- metrics.jsonl ---

// Keeps as many lines as a chart can show: if there are more, each becomes the mean of twice as many.
class Thinner {
 public:
  void add(const StepLine& line) {
    include(line);
    if (lines_ < per_) return;
    finish();
    if (kept_.size() < kMostSteps) return;
    std::vector<StepLine> all = std::exchange(kept_, {});
    per_ *= 2;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      include(all[i]);
      if (i + 1 < all.size()) include(all[i + 1]);
      finish();
    }
  }
  std::vector<StepLine> take() {
    if (lines_ > 0) finish();
    return std::move(kept_);
  }
  std::uint64_t per() const { return per_; }

 private:
  static constexpr std::array kMeans = {&StepLine::epoch,
                                        &StepLine::loss,
                                        &StepLine::learning_rate,
                                        &StepLine::gradient_norm,
                                        &StepLine::pages_per_second,
                                        &StepLine::data_wait};

  void include(const StepLine& line) {
    ++lines_;
    step_ = line.step;
    for (std::size_t i = 0; i < kMeans.size(); ++i) {
      const double value = line.*kMeans[i];
      if (!std::isfinite(value)) continue;
      sums_[i] += value;
      ++counts_[i];
    }
    if (!(line.resident_bytes <= most_)) most_ = line.resident_bytes;  // also if `most_` is unknown so far
  }
  void finish() {
    StepLine line{.step = step_, .resident_bytes = most_};
    for (std::size_t i = 0; i < kMeans.size(); ++i) {
      if (counts_[i] > 0) line.*kMeans[i] = sums_[i] / static_cast<double>(counts_[i]);
    }
    kept_.push_back(line);
    sums_ = {};
    counts_ = {};
    lines_ = 0;
    most_ = StepLine::kUnknown;
  }

  std::uint64_t per_ = 1, lines_ = 0;
  double step_ = 0, most_ = StepLine::kUnknown;
  std::array<double, kMeans.size()> sums_{};
  std::array<std::uint64_t, kMeans.size()> counts_{};
  std::vector<StepLine> kept_;
};

StepLine step_line(const Json& from) {
  const auto number = [&](const char* key) { return number_at(from, key).value_or(StepLine::kUnknown); };
  return {.step = number("step"),
          .epoch = number("epoch"),
          .loss = number("loss"),
          .learning_rate = number("learning_rate"),
          .gradient_norm = number("grad_norm"),
          .pages_per_second = number("pages_per_second"),
          .data_wait = number("data_wait"),
          .resident_bytes = number("resident_bytes")};
}

std::vector<LabelScore> read_labels(const Json& from) {
  std::vector<LabelScore> labels;
  for (const auto& [name, of] : from.items()) {
    if (labels.size() == kMostLabels) break;
    labels.push_back({.name = name,
                      .precision = number_at(of, "precision").value_or(0),
                      .recall = number_at(of, "recall").value_or(0),
                      .f1 = number_at(of, "f1").value_or(0),
                      .support = count_at(of, "support").value_or(0)});
  }
  return labels;
}

void read_confusion(const Json& from, Evaluation& evaluation) {
  const Json& names = list_at(from, "labels");
  const Json& rows = list_at(from, "counts");
  if (names.size() != rows.size() || names.size() > kMostLabels) return;
  std::vector<std::vector<std::uint64_t>> counts;
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != names.size()) return;
    std::vector<std::uint64_t>& numbers = counts.emplace_back();
    for (const Json& count : row) numbers.push_back(count_of(count).value_or(0));
  }
  for (const Json& name : names) evaluation.confusion_names.push_back(text_of(name));
  evaluation.confusion = std::move(counts);
}

// `prefix` is "eval_" in metrics.jsonl, empty in summary.json.
Evaluation read_evaluation(const Json& from, const std::string& prefix) {
  static const std::set<std::string> kNoMetric = {"loss",    "pages",        "seconds",
                                                  "support", "missed_words", "calibration_error"};
  Evaluation evaluation{.step = number_at(from, "step").value_or(0)};
  evaluation.loss = number_at(from, (prefix + "loss").c_str());
  evaluation.calibration_error = number_at(from, (prefix + "calibration_error").c_str());
  evaluation.pages = count_at(from, (prefix + "pages").c_str()).value_or(0);
  constexpr std::size_t kMostMetrics = 16;
  for (const auto& [key, value] : from.items()) {
    if (!key.starts_with(prefix) || !value.is_number() || evaluation.metrics.size() == kMostMetrics) continue;
    const std::string name = key.substr(prefix.size());
    if (!kNoMetric.contains(name)) evaluation.metrics.push_back({name, value.get<double>()});
  }
  evaluation.labels = read_labels(object_at(from, (prefix + "per_label").c_str()));
  read_confusion(object_at(from, (prefix + "confusion").c_str()), evaluation);
  return evaluation;
}

// Drops every second evaluation if there are too many, but never the last one; only that one keeps its labels.
void add_evaluation(Evaluation evaluation, std::vector<Evaluation>& kept) {
  if (!kept.empty()) {
    kept.back().labels.clear();
    kept.back().confusion_names.clear();
    kept.back().confusion.clear();
  }
  kept.push_back(std::move(evaluation));
  if (kept.size() <= kMostEvaluations) return;
  std::size_t out = 0;
  for (std::size_t i = kept.size() % 2 == 0 ? 1 : 0; i < kept.size(); i += 2) std::swap(kept[out++], kept[i]);
  kept.resize(out);
}

void read_metrics(const fs::path& path, RunFacts& run) {
  std::ifstream file;
  if (is_there(path)) file.open(path, std::ios::binary);
  if (!file.is_open())
    return run.notes.push_back("metrics.jsonl is missing: the run has not finished its first update");
  Thinner steps;
  std::uint64_t lines = 0, bad = 0;
  std::vector<char> buffer(kMostLineBytes);
  for (; file.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0; ++lines) {
    const bool cut = file.fail();
    const std::string_view line(buffer.data());
    if (cut) {
      file.clear(file.rdstate() & ~std::ios::failbit);
      file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    const Json object = cut ? Json() : parse_json(line);
    if (!object.is_object() || !number_at(object, "step")) {
      ++bad;
    } else if (object.contains("loss")) {
      steps.add(step_line(object));
    } else {
      add_evaluation(read_evaluation(object, "eval_"), run.evaluations);
    }
  }
  run.steps = steps.take();
  run.lines_per_step = steps.per();
  if (bad > 0) {
    run.notes.push_back(
        fmt::format("metrics.jsonl: {} cannot be read and {} left out", counted(bad, "line"), bad == 1 ? "is" : "are"));
  }
  if (lines == 0) run.notes.emplace_back("metrics.jsonl is empty: no update has been logged yet");
}

// --- findings.json and worst.json ---

std::vector<FoundFault> read_findings(const Json& list) {
  constexpr std::size_t kMostPlaces = 20;
  std::vector<FoundFault> findings;
  for (const Json& from : list) {
    if (!from.is_object() || findings.size() == kMostFindings) continue;
    FoundFault& finding = findings.emplace_back(FoundFault{.severity = text_at(from, "severity"),
                                                           .kind = text_at(from, "kind"),
                                                           .what = text_at(from, "what"),
                                                           .allowed = text_at(from, "allowed"),
                                                           .remedy = text_at(from, "remedy"),
                                                           .count = count_at(from, "count").value_or(1)});
    const Json& found = list_at(from, "found_at_places");
    for (const Json& place : list_at(from, "places")) {
      if (finding.places.size() == kMostPlaces) break;
      const std::size_t at = finding.places.size();
      const std::string what = at < found.size() ? text_of(found[at]) : std::string();
      finding.places.push_back(text_of(place) + (what.empty() ? "" : ": " + what));
    }
  }
  return findings;
}

std::optional<WorstWord> read_word(const Json& row) {
  if (!row.is_array() || (row.size() != 4 && row.size() != 8)) return std::nullopt;
  WorstWord word{.text = text_of(row[0]), .label = text_of(row[1]), .confidence = number_of(row[2])};
  if (row[3].is_string()) word.given = row[3].get<std::string>();
  if (row.size() == 4) return word;
  std::array<double, 4> box{};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto side = number_of(row[4 + i]);
    if (!side || std::abs(*side) > 1e6) return word;
    box[i] = *side;
  }
  word.box = box;
  return word;
}

void read_worst(const Json& object, RunFacts& run) {
  for (const Json& from : list_at(object, "pages")) {
    if (run.worst.size() == kMostWorstPages) break;
    WorstPage page{.id = text_at(from, "id"),
                   .where = text_at(from, "where"),
                   .caption = text_at(from, "caption"),
                   .scheme = text_at(from, "scheme"),
                   .loss = number_at(from, "loss"),
                   .image = text_at(from, "image"),
                   .width = std::clamp(number_at(from, "width").value_or(0), 0.0, 1e6),
                   .height = std::clamp(number_at(from, "height").value_or(0), 0.0, 1e6)};
    for (const Json& row : list_at(from, "words")) {
      std::optional<WorstWord> word = read_word(row);
      if (!word || page.words.size() == kMostWords) break;
      page.words.push_back(std::move(*word));
    }
    for (const Json& row : list_at(from, "links")) {
      if (!row.is_array() || row.size() != 3 || page.links.size() == kMostWords) continue;
      const auto first = count_of(row[0]), second = count_of(row[1]);
      if (!first || !second || *first >= page.words.size() || *second >= page.words.size()) continue;
      page.links.push_back({.from = *first, .to = *second, .state = text_of(row[2])});
    }
    run.worst.push_back(std::move(page));
  }
  std::ranges::stable_sort(
      run.worst, [](const WorstPage& a, const WorstPage& b) { return a.loss.value_or(0) > b.loss.value_or(0); });
}

// --- the directory ---

// Returns the object in a file; null if the file is missing (`absent` says what that means, if anything) or damaged.
Json object_in(const fs::path& path, const std::string& absent, RunFacts& run) {
  const std::string name = path.filename().string();
  if (!is_there(path)) {
    if (!absent.empty()) run.notes.push_back(name + " is missing: " + absent);
    return {};
  }
  try {
    Json object = parse_json(read_text_file(path, kMostFileBytes), path.string());
    if (object.is_object()) return object;
    run.notes.push_back(name + " is damaged and left out: it holds no JSON object");
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("{} is damaged and left out: {}", name, error.problem().what));
  }
  return {};
}

std::string name_of(const fs::path& directory) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(directory, error);
  const std::string name = (error || whole.filename().empty() ? directory : whole).filename().string();
  return name.empty() ? directory.string() : name;
}

void note_faults(const fs::path& directory, RunFacts& run) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("nonfinite-step-")) {
      run.notes.push_back(
          fmt::format("an update had a NaN or infinity: plimsoll replay {} shows it again", entry->path().string()));
    }
  }
}

}  // namespace

std::optional<double> number_at(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  return found == object.end() ? std::nullopt : number_of(*found);
}
std::optional<std::uint64_t> count_at(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  return found == object.end() ? std::nullopt : count_of(*found);
}
std::string text_at(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? std::string() : text_of(*found);
}

Arena read_arena(const std::string& text, const std::string& where) {
  const Json object = parse_json(text, where);
  if (!object.is_object() || !count_at(object, "arena_bytes")) refuse_arena(where, "no JSON object with a size");
  Arena arena{.bytes = std::min(*count_at(object, "arena_bytes"), kMostBytes),
              .persistent_bytes = std::min(count_at(object, "persistent_bytes").value_or(0), kMostBytes)};
  for (const Json& row : list_at(object, "persistent")) {
    if (arena.persistent.size() == kMostTensors) refuse_arena(where, "more tensors than any model has");
    arena.persistent.push_back(read_tensor(row, 5, 0, where));
  }
  for (const Json& from : list_at(object, "programs")) {
    if (arena.programs.size() == kMostPrograms) refuse_arena(where, "more programs than any run has");
    arena.programs.push_back(read_program(from, where));
  }
  return arena;
}

RunFacts read_run(const fs::path& directory) {
  const auto has = [&](const char* name) { return is_there(directory / name); };
  if (!has("args.json") && !has("plan.json") && !has("metrics.jsonl")) {
    std::error_code error;
    throw DataError({.what = "this is not the directory of a run",
                     .where = directory.string(),
                     .found = fs::is_directory(directory, error) ? "neither args.json, plan.json nor metrics.jsonl"
                              : fs::exists(directory, error)     ? "a file"
                                                                 : "nothing of that name",
                     .allowed = "the --output-dir of plimsoll train",
                     .remedy = "pass the directory of a run, or draw a plan: plimsoll plan --html FILE"});
  }
  RunFacts run{.name = name_of(directory), .directory = directory};
  const Json args = object_in(directory / "args.json", "the run's options are not known", run);
  run.version = text_at(args, "plimsoll");
  run.options = object_at(args, "options");
  run.machine = object_at(args, "machine");
  run.plan = object_in(directory / "plan.json", "the plan is not known", run);
  run.summary = object_in(directory / "summary.json", "", run);
  run.finished = run.summary.is_object();
  if (!is_there(directory / "arena.json")) {
    run.notes.emplace_back("arena.json is missing: an earlier version of Plimsoll made the run, which wrote no map");
  } else {
    try {
      run.arena = read_arena(read_text_file(directory / "arena.json", kMostFileBytes), "arena.json");
    } catch (const Error& error) {
      run.notes.push_back(fmt::format("arena.json is left out: {} ({})", error.problem().what, error.problem().found));
    }
  }
  read_metrics(directory / "metrics.jsonl", run);
  if (const Json& saved = object_at(run.summary, "evaluation"); !saved.empty()) {
    run.saved = read_evaluation(saved, "");
    run.saved->step = number_at(run.summary, "steps").value_or(0);
  }
  const Json findings = object_in(directory / "findings.json", "", run);
  run.checked = findings.is_object();
  run.findings = read_findings(list_at(findings, "findings"));
  read_worst(object_in(directory / "worst.json", "", run), run);
  note_faults(directory, run);
  return run;
}

RunFacts plan_as_run(const Json& plan, const std::string& arena, const Json& options, const Json& findings) {
  RunFacts run{.is_plan = true, .plan = plan, .options = options, .checked = true};
  run.arena = read_arena(arena, "the plan");
  run.findings = read_findings(findings);
  return run;
}

}  // namespace plimsoll::report
