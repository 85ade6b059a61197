// Job: from what a user asks for (a model, data, a budget) to a plan and the pieces that run it. `plan`, `train`,
// `eval` and `predict` all begin here, so that they see the same data and predict the same memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "backend/backend.h"
#include "data/check.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "fit/choices.h"
#include "fit/fit.h"
#include "train/model_bundle.h"
#include "train/options.h"
#include "train/skipped_pages.h"

namespace plimsoll {

struct DataRequest {
  PagePaths data;
  BoxFormat box_format = BoxFormat::kPixel;
  bool segment_boxes = false;
  int max_length = 0;             // text tokens of a window; 0: as many as the model has positions for, at most 512
  int stride = -1;                // tokens by which windows overlap; below 0: a quarter of a window, at most 128
  bool truncate = false;          // long pages lose their end instead of being cut into windows
  std::filesystem::path cache{};  // a directory for what pages become; empty: none
  std::optional<std::uint64_t> augment{};  // a seed: training pages are augmented
};

struct ModelRequest {
  std::string model;
  std::string tokenizer{};     // empty: the model's
  std::string labels{};        // empty: the model's or the data's
  std::string task{};          // empty: the model's
  std::string problem_type{};  // empty: the model's or the data's
  std::string base_model{};    // empty: where an adapter says
};

// What of the model trains.
struct PartsRequest {
  std::vector<std::string> freeze;  // patterns
  std::int64_t lora_rank = 0;       // 0: no new adapters
  double lora_alpha = 0;            // 0: twice the rank
  double lora_dropout = 0;
  std::vector<std::string> lora_targets;  // empty: every linear map of the encoder
  DType frozen_weights = DType::kF32;     // Q8 or NF4: what does not train is held in 8 or 4 bits
};

struct MemoryRequest {
  std::size_t budget_bytes = 0;       // 0: what is available now
  std::size_t host_budget_bytes = 0;  // on a device with memory of its own, of the host's beside it; else 0
  BudgetOption budget_option{};       // how budget_bytes was asked for
  std::optional<std::int64_t> micro_batch_size;
  std::optional<UpdateMode> update;
  RecomputeMode recompute = RecomputeMode::kAuto;
  OpSpeeds speeds = typical_speeds();
  int loader_workers = -1;  // below 0: chosen
  OffloadTarget offload = OffloadTarget::kNone;
  std::filesystem::path offload_directory{};            // for a file
  bool forbids_offload = false;                         // also where it would be allowed unasked, to the host
  TransferSpeed host_speed{};                           // of OffloadTarget::kHost
  bool plans_only = false;                              // no run follows: a budget that this machine lacks is no error
  bool other_machine = false;                           // the budget is another machine's (plan --device-memory)
  std::optional<std::int64_t> kept_micro_batch_size{};  // of the checkpoint that the run goes on from
  bool resumes = false;                                 // FitRequest's members of these names
  std::int64_t least_window = 0;
  std::size_t drawing_bytes = 0;
  std::filesystem::path root = "/";  // where /proc and /sys are; tests may pretend
};

// Parses "512" tokens and so on against the model; throws UsageError if the model has fewer positions.
// What a model reads of a page.
PageParts page_parts(const EncoderFacts& facts);

// How the pages of a run are read for the model's task; `with_targets`: false for prediction.
ReadOptions read_options(const ModelBundle& bundle, const DataRequest& request, bool with_targets);

WindowOptions window_options(const DataRequest& request, const EncoderFacts& facts);

// What the labels of a data set may be, and what the model's head then is. With `for_training`, labels come from
// --labels, the model (if it has the data's), or the data; without, from the model.
void resolve_labels(ModelBundle& bundle, const ModelRequest& model, const DataRequest& data);

// Gives the model new adapters and freezes what is asked for. Throws UsageError for what makes no sense: patterns that
// match nothing, adapters on a preset or on other adapters, nothing left to train.
void choose_trained_parts(ModelBundle& bundle, const PartsRequest& request);

struct CheckRequest {
  DataRequest data;
  PagePaths evaluation{};  // empty: none
  bool decode_images = false;
  std::vector<SkippedPage> skipped{};                      // whose images are not looked at
  std::uint64_t decoding_bytes = Dataset::kDecodingBytes;  // that images may take together while they are decoded
  std::size_t places_kept = Findings::kPlacesKept;
  int threads = 1;
  std::function<void(std::size_t done, std::size_t pages)>
      on_progress{};  // counts begin anew with the evaluation's pages
};

struct DataCheck {
  Findings findings;  // of all that was checked
  CheckReport train;
  std::optional<CheckReport> evaluation{};
};

// Reads all pages with the model's limits. Labels as resolve_labels would choose them, but without changing `bundle`
// where the data's labels cannot be read.
DataCheck check_data(ModelBundle& bundle, const ModelRequest& model, const CheckRequest& request);

// Checks pages and opens them for this model, whose labels are settled. Warnings are logged, errors thrown as one
// DataError. `with_labels`: false for prediction. `owned_only`: each word's label counts once (evaluation).
std::unique_ptr<Dataset> open_dataset(const ModelBundle& bundle, const DataRequest& request, bool with_labels,
                                      bool owned_only);

// The same for pages to train on and, unless `evaluation` is empty, pages to evaluate on, which are also checked side
// by side.
struct RunData {
  std::unique_ptr<Dataset> train, evaluation;
};
struct RunDataOptions {
  bool decode_images = false;                                              // every page's, unless a cache decodes them
  std::vector<SkippedPage> skipped{};                                      // that a resumed run goes on without
  std::function<void(std::size_t done, std::size_t pages)> on_progress{};  // of decoding
};
RunData open_run_data(const ModelBundle& bundle, const DataRequest& request, const PagePaths& evaluation,
                      const RunDataOptions& options = {});

// Updates of the whole run.
std::int64_t updates_of(const TrainOptions& options, const Dataset& train);

LoaderOptions loader_options(const MemoryRequest& memory);

// The budget that --budget gives, or what the machine can give now.
std::size_t resolve_budget(const MemoryRequest& memory);
// Where the backend computes in memory of its own, makes both budgets definite: of the device, and of the host, whose
// memory then takes what leaves the device's. Throws UsageError for a budget of the host's where it does not, and for
// a file where it does; BudgetError for a budget above the limit of one of the process's cgroups. Warns of one above
// the machine's memory.
void resolve_device_memory(MemoryRequest& memory, Backend& backend);

// The request that `fit` answers, for training (with `evaluation` or without) or for evaluation alone (`train`
// nullptr). The data sets and `bundle` must outlive the request.
FitRequest fit_request(const ModelBundle& bundle, const TrainOptions& options, const Dataset* train,
                       const Dataset* evaluation, const MemoryRequest& memory);

// What a run takes over: of the checkpoint that it goes on from, and of the machine's file in `cache`.
KnownChoices known_choices(const std::optional<std::filesystem::path>& resume, const std::filesystem::path& cache);

// plan.json. A plan that cannot run has no programs.
nlohmann::json plan_json(const PlanSummary& plan, std::span<const PlannedProgram> planned = {});

}  // namespace plimsoll
