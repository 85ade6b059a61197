// What a report says about a run, as read from the run's directory. Everything may be missing: a run may have been
// interrupted or may have no evaluation, and a file may be damaged. `notes` say what is missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::report {

// A tensor of the arena. Times are node numbers: it lives from before node `begin` runs until before node `end`.
struct Tensor {
  std::string name{}, kind{}, lever{};  // as in request/arena_json.h
  std::uint64_t offset = 0, bytes = 0;
  std::int64_t begin = 0, end = 0;
};

struct ArenaNode {
  std::string name{}, op{}, phase{};
  double seconds = 0;  // estimated
};

struct ArenaProgram {
  std::string kind{};
  std::int64_t runs = 1;  // per update; 0: an evaluation
  std::uint64_t transient_bytes = 0;
  std::int64_t peak_node = -1;
  std::vector<ArenaNode> nodes{};
  std::vector<Tensor> tensors{};  // begin and end are between 0 and the number of nodes
};

struct Arena {
  std::uint64_t bytes = 0, persistent_bytes = 0;
  std::vector<Tensor> persistent{};
  std::vector<ArenaProgram> programs{};
};

struct Item {
  std::string name{};
  std::uint64_t bytes = 0;
};

// A line of metrics.jsonl, or the mean of some consecutive ones. NaN: unknown, or not finite.
struct StepLine {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double step = 0, epoch = kUnknown, loss = kUnknown, learning_rate = kUnknown, gradient_norm = kUnknown;
  double pages_per_second = kUnknown, data_wait = kUnknown, resident_bytes = kUnknown;
};

struct Metric {
  std::string name{};
  double value = 0;
};

struct LabelScore {
  std::string name{};
  double precision = 0, recall = 0, f1 = 0;
  std::uint64_t support = 0;
};

struct Evaluation {
  double step = 0;
  std::optional<double> loss{};
  std::vector<Metric> metrics{};  // the task's, by name
  std::vector<LabelScore> labels{};
  std::vector<std::string> confusion_names{};
  std::vector<std::vector<std::uint64_t>> confusion{};  // a row per given label, a column per predicted one
  std::optional<double> calibration_error{};
  std::uint64_t pages = 0;
};

struct FoundFault {
  std::string severity{}, kind{}, what{}, allowed{}, remedy{};
  std::uint64_t count = 0;
  std::vector<std::string> places{};
};

struct WorstWord {
  std::string text{}, label{};
  std::optional<double> confidence{};
  std::optional<std::string> given{};
  std::optional<std::array<double, 4>> box{};  // in pixels of the page
};

struct WorstLink {
  std::size_t from = 0, to = 0;  // words
  std::string state{};           // "predicted", "right", "wrong", "missed"
};

struct WorstPage {
  std::string id{}, where{}, caption{}, scheme{};
  std::optional<double> loss{};
  std::filesystem::path image{};
  double width = 0, height = 0;  // pixels that the boxes refer to; 0: not known
  std::vector<WorstWord> words{};
  std::vector<WorstLink> links{};
};

struct RunFacts {
  std::string name{};  // of its directory; empty: a plan before a run
  std::filesystem::path directory{};
  bool is_plan = false;                                    // not a run, only a plan
  bool finished = false;                                   // it has a summary
  nlohmann::json plan{}, summary{}, options{}, machine{};  // objects, or null
  std::string version{};
  std::optional<Arena> arena{};
  std::vector<StepLine> steps{};
  std::uint64_t lines_per_step = 1;  // how many lines of the file each of `steps` is the mean of
  std::vector<Evaluation> evaluations{};
  std::optional<Evaluation> saved{};  // of the saved model
  bool checked = false;               // `findings` is known
  std::vector<FoundFault> findings{};
  std::vector<WorstPage> worst{};  // the highest loss first
  std::vector<std::string> notes{};
};

// Typed access to JSON that may be anything: returns nothing if a key is absent or has another type.
std::optional<double> number_at(const nlohmann::json& object, const char* key);
std::optional<std::uint64_t> count_at(const nlohmann::json& object, const char* key);
std::string text_at(const nlohmann::json& object, const char* key);

}  // namespace plimsoll::report
